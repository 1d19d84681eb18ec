"""The fork server of this session: started with the first runtime, ended when none was for a while.

Where it cannot be started, or dies, runtimes are started one by one.
"""

from __future__ import annotations

import json
import os
import queue
import socket
import subprocess
import threading
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from hive_core.agent.output import complaint
from hive_core.agent.session.runtimes.builtin import BuiltinRuntime, RuntimeCommand, RuntimeGone
from hive_core.agent.session.runtimes.processes import ForkedProcess

MODULE: Final = "hive_core.runtime.fork_server"
_ANSWER: Final = 60.0  # seconds that it has to import a wire on a busy machine
_ANSWER_MOST: Final = 1 << 12
_MERCY: Final = 10.0
_CONFINED: Final = ("setpriv", "--no-new-privs")
# What it needs to give a runtime its user, and to end it.
_AS_ROOT: Final = ("--bounding-set", "-all,+setuid,+setgid,+kill", "--inh-caps", "-all")


@dataclass(slots=True)
class ForkServerProcess:
    """The process, and the socket for requests. `process` None: somebody else started it."""

    channel: socket.socket
    process: subprocess.Popen[bytes] | None = None

    def close(self) -> None:
        """End the server with all its runtimes; kill it if it hangs."""
        self.channel.close()
        if self.process is None:
            return
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(_MERCY)
        self.process.kill()
        self.process.wait()


def start_fork_server(command: RuntimeCommand) -> ForkServerProcess:
    """Start the process; OSError or SubprocessError when that cannot be done."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    bounds = _CONFINED if command.uid is None else (*_CONFINED, *_AS_ROOT)
    try:
        process: subprocess.Popen[bytes] = subprocess.Popen(
            [*bounds, "--", *command.isolated_words(MODULE), str(theirs.fileno())],
            pass_fds=[theirs.fileno()], env={"PATH": os.defpath, "LANG": "C.UTF-8"}, cwd="/",
            stdin=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
    except BaseException:
        ours.close()
        raise
    finally:
        theirs.close()
    return ForkServerProcess(ours, process)


@dataclass(frozen=True, slots=True)
class ForkedEnd:
    """A runtime that was forked: the session's end of its connection, and its process."""

    end: socket.socket
    process: ForkedProcess


class ForkServerClient:
    """Opens the runtimes of one session. `channel`: that of a server that runs already."""

    def __init__(
        self, command: RuntimeCommand, idle: float, channel: socket.socket | None = None
    ) -> None:
        self._command = command
        self._idle = idle
        self._server = None if channel is None else ForkServerProcess(channel)
        self._is_shared = channel is not None
        self._count = 0  # of runtimes that run
        self._timer: threading.Timer | None = None
        self._lock = threading.Lock()

    @property
    def pid(self) -> int:
        """The process of the server; 0: this session has started none, or none that runs."""
        server = self._server
        return 0 if server is None or server.process is None else server.process.pid

    def open(self, events: queue.SimpleQueue[tuple[str, object]], wire: str = "") -> BuiltinRuntime:
        """A runtime whose lines go into `events`."""
        try:
            forked = self.fork(self._command, wire)
        except RuntimeGone as error:
            complaint(f"{error.reason}; the runtime is started by itself")
            return self._command.open(events, wire)
        return BuiltinRuntime(forked.end, forked.process, events)

    def fork(self, command: RuntimeCommand, wire: str) -> ForkedEnd:
        """Have a runtime forked as this command says; RuntimeGone when that cannot be done."""
        server = self._use_server()
        try:
            return self._ask(server, command, wire)
        except RuntimeGone:
            self._note_end(None)
            raise
        except OSError as error:
            self._note_end(server)
            raise RuntimeGone(f"cannot fork a runtime: {error}") from None

    def close(self) -> None:
        """End the server, and with it all its runtimes."""
        with self._lock:
            self._stop_timer()
            server, self._server = self._server, None
        if server is not None:
            server.close()

    def _use_server(self) -> ForkServerProcess:
        """The server, started where none runs, for one more runtime."""
        with self._lock:
            self._stop_timer()
            if self._server is None:
                try:
                    self._server = start_fork_server(self._command)
                except (OSError, subprocess.SubprocessError) as error:
                    raise RuntimeGone(f"cannot start a fork server: {error}") from None
            self._count += 1
            return self._server

    def _ask(self, server: ForkServerProcess, command: RuntimeCommand, wire: str) -> ForkedEnd:
        request = {
            "wire": wire, "uid": command.uid, "environment": dict(command.variables), "folder": "/",
        }  # fmt: skip
        ours, theirs = socket.socketpair()
        control, controlled = socket.socketpair()
        try:
            with theirs, controlled:
                data = [json.dumps(request).encode()]
                socket.send_fds(server.channel, data, [theirs.fileno(), controlled.fileno()])
            handle = _read_answer(control)
            process = ForkedProcess(handle, control, lambda: self._note_end(None))
        except BaseException:
            control.close()
            ours.close()
            raise
        return ForkedEnd(ours, process)

    def _note_end(self, failed: ForkServerProcess | None) -> None:
        """Count a runtime as ended. Drop a `failed` server; stop an idle one after a pause."""
        with self._lock:
            self._count -= 1
            if failed is not None and failed is self._server and not self._is_shared:
                self._server = None
            if self._count == 0 and self._server is not None and not self._is_shared:
                self._timer = threading.Timer(self._idle, self._end_idle)
                self._timer.daemon = True
                self._timer.start()
        if failed is not None and not self._is_shared:
            failed.close()

    def _end_idle(self) -> None:
        with self._lock:
            if self._count:
                return
            server, self._server = self._server, None
        if server is not None:
            server.close()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _read_answer(control: socket.socket) -> int:
    """The descriptor of the process that was forked.

    RuntimeGone with the reason of the server; OSError where it has ended or does not answer.
    """
    control.settimeout(_ANSWER)
    data, handles, _, _ = socket.recv_fds(control, _ANSWER_MOST, 1)
    if handles:
        return handles[0]
    if not data:
        raise BrokenPipeError("the fork server has ended")
    raise RuntimeGone(f"cannot fork a runtime: {data.decode(errors='replace')}")
