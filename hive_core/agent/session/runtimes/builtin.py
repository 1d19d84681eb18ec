"""The built-in runtime as its session sees it: a process of uid 1000 behind a socket pair.

It is there for a turn and ended when it was idle for a while. Whatever it says is checked here:
one JSON object a line, at most 1 MiB each.
"""

from __future__ import annotations

import json
import math
import os
import queue
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from hive_core.agent.session.runtimes.processes import ProcessHandle, StartedProcess
from hive_core.errors import HiveError

LINE_MOST: Final = 1 << 20
RUNTIME_FOLDER: Final = Path("/opt/hive/runtime")
UID: Final = 1000
TURNS: Final = "hive_core.runtime.child"
_READ: Final = 1 << 16
_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))

Line = dict[str, object]


class RuntimeGone(HiveError):
    """The runtime ended, or sent what is not its protocol."""


class WrongPython(HiveError):
    """The runtime was built for another minor version of Python."""

    exit_code = 78  # EX_CONFIG


@dataclass(frozen=True, slots=True)
class RuntimeCommand:
    """How the runtime is started. `folder` None: with the interpreter and the path of this one."""

    model_socket: str = "/run/hive/model.sock"
    folder: Path | None = RUNTIME_FOLDER
    uid: int | None = UID
    environment: Mapping[str, str] = field(default_factory=dict)
    own_group: bool = True  # a sub-agent is one process group with its runtime

    def words(self, module: str) -> list[str]:
        """The command that runs a module of the runtime."""
        return [self._python, "-m", module]

    def isolated_words(self, module: str) -> list[str]:
        """The same, where nothing of the environment and of the container is on its path.

        It starts without garbage collection, which finds nothing in what is imported and would take
        a tenth of the time; the module enables it.
        """
        path = f"import gc, sys; gc.disable(); sys.path.insert(0, {str(self._path)!r})"
        program = f"{path}; from {module} import main; main()"
        site = [] if self.folder is None else ["-S"]
        return [self._python, "-I", *site, "-B", "-c", program]

    @property
    def variables(self) -> Mapping[str, str]:
        """The environment of that command."""
        return {
            "PATH": os.environ.get("PATH", os.defpath), "LANG": "C.UTF-8", "HOME": "/tmp",  # noqa: S108
            "PYTHONPATH": str(self._path), "PYTHONDONTWRITEBYTECODE": "1",
            "HIVE_MODEL_SOCKET": self.model_socket, **self.environment,
        }  # fmt: skip

    @property
    def _python(self) -> str:
        return sys.executable if self.folder is None else "/usr/bin/python3"

    @property
    def _path(self) -> Path:
        return Path(__file__).parents[4] if self.folder is None else self.folder

    def check(self) -> None:
        """Raise WrongPython where the runtime cannot run on this container's Python."""
        if self.folder is None:
            return
        own = f"{sys.version_info.major}.{sys.version_info.minor}"
        try:
            built_for = (self.folder / ".python").read_text().strip()
        except OSError as error:
            raise WrongPython(
                f"cannot start the runtime: {self.folder} is not there ({error.strerror});"
                " the host installs it with scripts/install"
            ) from None
        if built_for != own:
            raise WrongPython(
                f"cannot start the runtime: it was built for Python {built_for}, and this"
                f" container has {own}"
            )

    def open(
        self, events: queue.SimpleQueue[tuple[str, object]], _wire: str = "", module: str = TURNS
    ) -> BuiltinRuntime:
        """A process of a module, whose lines go into `events`."""
        ours, theirs = socket.socketpair()
        try:
            process = self.start(theirs.fileno(), module)
        except (OSError, subprocess.SubprocessError) as error:
            ours.close()
            raise RuntimeGone(f"cannot start the runtime: {error}") from None
        finally:
            theirs.close()
        return BuiltinRuntime(ours, StartedProcess(process), events)

    def start(self, end: int, module: str) -> subprocess.Popen[bytes]:
        """Start the process of a module with its end of the socket pair."""
        as_user = {} if self.uid is None else {
            "user": self.uid, "group": self.uid, "extra_groups": [],
        }  # fmt: skip
        process: subprocess.Popen[bytes] = subprocess.Popen(
            [*self.words(module), str(end)],
            pass_fds=[end], env=self.variables, cwd="/", stdin=subprocess.DEVNULL,
            start_new_session=self.own_group, **as_user,  # type: ignore[call-overload]
        )  # fmt: skip
        return process


def runtime_folder() -> Path | None:
    """Where the runtime is. HIVE_RUNTIME names another folder; empty: where this program is."""
    folder = os.environ.get("HIVE_RUNTIME")
    return RUNTIME_FOLDER if folder is None else Path(folder) if folder else None


class BuiltinRuntime:
    """One process; its lines go into `events` as `("line", line)`, its end as `("gone", why)`."""

    def __init__(
        self, end: socket.socket, process: ProcessHandle,
        events: queue.SimpleQueue[tuple[str, object]],
    ) -> None:  # fmt: skip
        self._socket = end
        self._events = events
        self._process = process
        threading.Thread(target=self._read, name="runtime", daemon=True).start()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        """Whether the process still runs."""
        return self._process.is_alive

    def attach(self, events: queue.SimpleQueue[tuple[str, object]]) -> None:
        """Have the lines from now on in another queue."""
        self._events = events

    def send(self, line: Line, history: bytes | None = None) -> None:
        """Send a line, with the history in a descriptor; RuntimeGone when no process reads it."""
        data = _ENCODER.encode(line).encode(errors="replace") + b"\n"
        if len(data) > LINE_MOST:
            raise RuntimeGone(f"cannot send {len(data)} bytes to the runtime: {LINE_MOST} at most")
        try:
            if history is None:
                self._socket.sendall(data)
            else:
                self._send_with(data, history)
        except OSError as error:
            raise RuntimeGone(f"the runtime has ended: {error.strerror}") from None

    def close(self, mercy: float = 0.0) -> None:
        """End the process and wait for it; it has `mercy` seconds to end what it started."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._process.end(mercy)
        self._socket.close()

    def _send_with(self, data: bytes, history: bytes) -> None:
        file = os.memfd_create("history", os.MFD_CLOEXEC)
        try:
            with open(file, "wb", closefd=False) as out:
                out.write(history)
            size = socket.send_fds(self._socket, [data], [file])
            self._socket.sendall(data[size:])
        finally:
            os.close(file)

    def _read(self) -> None:
        rest = bytearray()
        why = "the runtime ended"
        while True:
            try:
                data = self._socket.recv(_READ)
            except OSError:
                break
            if not data:
                break
            *whole, last = data.split(b"\n")
            if whole:
                whole[0] = bytes(rest) + whole[0]
                rest.clear()
            rest += last
            if len(rest) > LINE_MOST or not all(map(self._put_line, whole)):
                why = "the runtime sent what is not its protocol"
                break
        self._events.put(("gone", why))

    def _put_line(self, data: bytes) -> bool:
        try:
            # The log holds what comes here, and JSON has no number that is infinite.
            line = json.loads(data, parse_float=_finite_number, parse_constant=_finite_number)
        except (ValueError, RecursionError):
            return False
        if not isinstance(line, dict) or not isinstance(line.get("type"), str):
            return False
        self._events.put(("line", line))
        return True


def _finite_number(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:32]} is out of range")
    return value
