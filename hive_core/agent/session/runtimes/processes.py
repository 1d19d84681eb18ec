"""The process of a runtime as its session holds it: one that it started, or one that was forked."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol

_PATIENCE: Final = 30.0


class ProcessHandle(Protocol):
    """A process that can be watched and ended."""

    @property
    def pid(self) -> int:
        """Process id; the kernel does not reuse it before `end`."""
        ...

    @property
    def is_alive(self) -> bool:
        """Whether it still runs."""
        ...

    def end(self, mercy: float = 0.0) -> None:
        """Kill its group, and wait for it; it has `mercy` seconds to end by itself."""
        ...


class StartedProcess:
    """A child of this process."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def end(self, mercy: float = 0.0) -> None:
        if mercy:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout=mercy)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.kill()
        self._process.wait(timeout=_PATIENCE)


class ForkedProcess:
    """A child of a fork server, held by a pidfd.

    `control`: where the server reads that it is to be ended and reaped. A sub-agent has none: its
    parent ends the runtime with it.
    """

    def __init__(
        self, handle: int, control: socket.socket | None = None,
        on_end: Callable[[], None] = lambda: None,
    ) -> None:  # fmt: skip
        self.pid = _pid_of(handle)
        self.handle = handle
        self._control = control
        self._on_end = on_end
        self._ended = False
        self._lock = threading.Lock()

    @property
    def is_alive(self) -> bool:
        with self._lock:
            return not self._ended and not self._wait_for_exit(0.0)

    def end(self, mercy: float = 0.0) -> None:
        with self._lock:
            if self._ended:
                return
            if not self._wait_for_exit(mercy):
                with suppress(ProcessLookupError, PermissionError):
                    signal.pidfd_send_signal(self.handle, signal.SIGKILL)
                self._wait_for_exit(_PATIENCE)
            if self._control is not None:
                self._control.close()
            os.close(self.handle)
            self._ended = True
        self._on_end()

    def _wait_for_exit(self, seconds: float) -> bool:
        poll = select.poll()
        poll.register(self.handle, select.POLLIN)
        return bool(poll.poll(seconds * 1000))


def _pid_of(handle: int) -> int:
    """The id of the process of a pidfd, as in proc(5); negative where it is gone."""
    for line in Path(f"/proc/self/fdinfo/{handle}").read_text().splitlines():
        key, _, value = line.partition(":")
        if key == "Pid":
            return int(value)
    raise OSError(f"descriptor {handle} is of no process")
