"""Commands of `hive` in a lab, out of a process that forks them (forking.py)."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Sequence
from typing import Final

from e2e.labhost import Lab, LabError

# Their processes or files are what they are about, or they copy streams as these come.
STARTED: Final = {"setup", "teardown", "shell", "chat", "doctor", "logs", "completion"}
_PROGRAM: Final = (
    "import sys; sys.path[:0] = ['/usr/src/hive', '/usr/src/hive/tests']; sys.dont_write_bytecode ="
    " True; from e2e.forking import main; main()"
)


class Forks:
    """That process, started when it is first needed, and again when the lab was."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self._process: subprocess.Popen[str] | None = None
        self._busy = threading.Lock()

    def run(
        self, words: Sequence[str], text: str | None, seconds: float
    ) -> subprocess.CompletedProcess[str] | None:
        """What `hive WORDS` did; None for what has to be started, also because others wait."""
        if words[0] in STARTED or not self._busy.acquire(blocking=False):
            return None
        try:
            status, out, err = self._order([words, text or "", seconds])
        finally:
            self._busy.release()
        if status is None:
            raise subprocess.TimeoutExpired(["hive", *words], seconds, out, err)
        return subprocess.CompletedProcess(["hive", *words], status, out, err)

    def enter(self, leader: int, socket: str) -> None:
        """Leave a process in a container (inside.py)."""
        with self._busy:
            status, _, _ = self._order([["enter", str(leader), socket], "", 60])
        if status:
            raise LabError(f"cannot enter the container of {leader}")

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def _order(self, order: object) -> tuple[int | None, str, str]:
        if self._process is None or self._process.poll() is not None:
            self.close()
            pipe = subprocess.PIPE
            command = [sys.executable, "-Ic", _PROGRAM]
            self._process = self._lab.popen(command, stdin=pipe, stdout=pipe)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        status, out, err = json.loads(self._process.stdout.readline())
        return status, out, err
