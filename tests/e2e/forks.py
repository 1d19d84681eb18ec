"""Commands of `hive` in a lab, out of a process that forks them (forking.py)."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from typing import Final

from e2e.labhost import Lab, LabError
from e2e.runner import OrderedProcess

# Their processes or files are what they are about, or they copy streams as these come.
STARTED: Final = {"setup", "teardown", "shell", "chat", "doctor", "logs", "completion"}
_PROGRAM: Final = (
    "import sys; sys.path[:0] = ['/usr/src/hive', '/usr/src/hive/tests']; sys.dont_write_bytecode ="
    " True; from e2e.forking import main; main()"
)


class Forks:
    """That process."""

    def __init__(self, lab: Lab) -> None:
        command, pipe = [sys.executable, "-Ic", _PROGRAM], subprocess.PIPE
        self._process = OrderedProcess(partial(lab.popen, command, stdin=pipe, stdout=pipe))

    def run(
        self, words: Sequence[str], text: str | None, seconds: float
    ) -> subprocess.CompletedProcess[str] | None:
        """What `hive WORDS` did; None for what has to be started, also because others wait."""
        if words[0] in STARTED:
            return None
        return self._process.run(["hive", *words], [words, text or "", seconds], seconds)

    def enter(self, leader: int, socket: str, target: str) -> None:
        """Leave a process in a container (inside.py)."""
        status, errors = self._process.wait_for([["enter", str(leader), socket, target], "", 60])
        if status != 0:
            raise LabError(f"cannot enter the container of {leader}: {errors}")

    def close(self) -> None:
        self._process.close()
