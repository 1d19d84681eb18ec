"""Commands in a lab without entering it for each: a process in there starts them.

To enter means four programs before the command: nine milliseconds of processor each time. An order
is a line of JSON with the words, the input, the environment and how many seconds it may take; so
is the answer.
"""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

# In the lab; a name that is not there is told as env(1) tells it.
_PROGRAM: Final = """
import json, subprocess, sys
for line in sys.stdin:
    words, text, environment, seconds = json.loads(line)
    try:
        done = subprocess.run(
            words, input=text, capture_output=True, text=True, timeout=seconds, env=environment
        )
        answer = [done.returncode, done.stdout, done.stderr]
    except subprocess.TimeoutExpired as late:
        said = [(text or b"").decode(errors="replace") for text in (late.stdout, late.stderr)]
        answer = [None, *said]
    except FileNotFoundError:
        answer = [127, "", f"env: '{words[0]}': No such file or directory\\n"]
    print(json.dumps(answer), flush=True)
"""
_COMMAND: Final = ("/usr/bin/python3", "-ISc", _PROGRAM)


class CommandRunner:
    """That process."""

    def __init__(self, start: Callable[[Sequence[str]], subprocess.Popen[str]]) -> None:
        self._process = OrderedProcess(partial(start, _COMMAND))

    def run(
        self,
        words: Sequence[str],
        text: str,
        environment: Mapping[str, str],
        seconds: float | None,
    ) -> subprocess.CompletedProcess[str] | None:
        """What a command did; None where another one runs at the moment."""
        order = [*map(str, words)], text, dict(environment), seconds
        return self._process.run(words, order, seconds)

    def close(self) -> None:
        self._process.close()


class OrderedProcess:
    """A process in a lab that carries out commands by orders of a line each.

    It is started when it is first needed, and again when the lab was.
    """

    def __init__(self, start: Callable[[], subprocess.Popen[str]]) -> None:
        self._start = start
        self._process: subprocess.Popen[str] | None = None
        self._busy = threading.Lock()

    def run(
        self, words: Sequence[str], order: Sequence[object], seconds: float | None
    ) -> subprocess.CompletedProcess[str] | None:
        """What these words did by this order; None where another one is carried out."""
        if not self._busy.acquire(blocking=False):
            return None
        try:
            status, out, err = self._carry_out(order)
        finally:
            self._busy.release()
        if status is None:
            assert seconds is not None
            raise subprocess.TimeoutExpired(list(words), seconds, out, err)
        return subprocess.CompletedProcess(list(words), status, out, err)

    def wait_for(self, order: Sequence[object]) -> tuple[int | None, str]:
        """The status of an order, after those of others, and its errors; None: it took too long."""
        with self._busy:
            status, _, errors = self._carry_out(order)
        return status, errors

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def _carry_out(self, order: Sequence[object]) -> tuple[int | None, str, str]:
        if self._process is None or self._process.poll() is not None:
            self.close()
            self._process = self._start()
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        status, out, err = json.loads(self._process.stdout.readline())
        return status, out, err
