"""The fork server of a session: it has imported what a runtime needs, and forks each of them.

It is started as `fork_server DESCRIPTOR`, with its end of a socket pair. A request names the wire
of the model and the user, environment and folder of a runtime. Two descriptors come with it: the
runtime's end of its connection to the session, which only the runtime reads, and the control
socket of this runtime, on which the server answers with a descriptor of the process (pidfd). When
the session closes the control socket, or ends, the server kills the process group of the runtime.
Until then it does not reap the runtime, so the id stays that of this process.

The server is one thread and ends with its session. Where it dies, its runtimes go on with their
session. It never has a key, a history or a letter.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import random
import selectors
import signal
import socket
import sys
import traceback
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn, Self

import httpx2

from hive_core.runtime.child import SOCKET, serve
from hive_core.runtime.prompts import render  # noqa: F401 - a runtime needs it; imported once, here
from hive_core.runtime.turn_request import read_messages
from hive_core.runtime.wire import BASE, WIRES, ModelChoice, build_model, http_client

REQUEST_MOST: Final = 1 << 16
NAME: Final = "hive-forkserver"
CHILD_NAME: Final = "hive-runtime"
_DESCRIPTORS: Final = 2
_FIRST_FREE: Final = 3  # behind standard input, output and errors
_UMASK: Final = 0o077
_NO_SOCKET: Final = f"{os.devnull}/none"  # no process can listen there


class BadForkRequest(ValueError):
    """A request that is not in the form of one."""


@dataclass(frozen=True, slots=True)
class ForkedRuntime:
    """What a runtime is to be. `uid` None: it runs as the server does."""

    wire: str
    uid: int | None
    environment: Mapping[str, str]
    folder: str

    @classmethod
    def of(cls, data: bytes) -> Self:
        """Read a request; BadForkRequest says what is wrong with it."""
        try:
            row = json.loads(data)
        except ValueError as error:
            raise BadForkRequest(f"it is not JSON: {error}") from None
        match row:
            case {
                "wire": str(wire), "uid": int() | None as uid, "folder": str(folder),
                "environment": dict(environment),
            } if all(isinstance(value, str) for value in environment.values()):  # fmt: skip
                return cls(wire, uid, environment, folder)
            case _:
                raise BadForkRequest("it needs wire, uid, environment and folder")


class ForkServer:
    """Forks runtimes until `channel` is closed at its other end."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._warm = set[str]()
        self._selector = selectors.DefaultSelector()
        self._selector.register(channel, selectors.EVENT_READ, 0)

    def serve(self) -> None:
        """Serve until the session has closed the channel, then end all runtimes."""
        while True:
            for key, _ in self._selector.select():
                source = key.fileobj
                assert isinstance(source, socket.socket)  # noqa: S101 - for the type
                if source is not self._channel:
                    self._end(source, key.data)
                elif not self._take():
                    self._end_all()
                    return

    def _take(self) -> bool:
        """Take one request; False when no more will come."""
        try:
            data, descriptors, _, _ = socket.recv_fds(self._channel, REQUEST_MOST, _DESCRIPTORS)
        except ConnectionError:
            return False
        if not data:
            return False
        if len(descriptors) != _DESCRIPTORS:
            for descriptor in descriptors:
                os.close(descriptor)
            return True
        end, control = (socket.socket(fileno=descriptor) for descriptor in descriptors)
        with end:
            self._answer(data, end, control)
        return True

    def _answer(self, data: bytes, end: socket.socket, control: socket.socket) -> None:
        try:
            request = ForkedRuntime.of(data)
            self._warm_up(request.wire)
            pid = self._fork(request, end)
        except (BadForkRequest, OSError) as error:
            with control, suppress(OSError):
                control.sendall(str(error).encode(errors="replace"))
            return
        self._selector.register(control, selectors.EVENT_READ, pid)
        handle = os.pidfd_open(pid)
        with suppress(OSError):  # the session is gone: its end of the socket says so
            socket.send_fds(control, [b"forked"], [handle])
        os.close(handle)

    def _warm_up(self, wire: str) -> None:
        """Do once what each runtime would do, and freeze the heap so that forks do not scan it."""
        if wire in self._warm or wire not in WIRES:
            return
        gc.disable()
        try:
            asyncio.run(_warm_up_model(wire))
            self._warm.add(wire)
            gc.collect()
            gc.freeze()
        finally:
            gc.enable()

    def _fork(self, request: ForkedRuntime, end: socket.socket) -> int:
        sys.stderr.flush()
        pid = os.fork()
        if pid == 0:
            self._become(request, end)
        return pid

    def _become(self, request: ForkedRuntime, end: socket.socket) -> NoReturn:
        """Be the runtime. It has nothing of the server but what it imported."""
        status = 1
        try:
            own_end = end.detach()
            for key in list(self._selector.get_map().values()):
                key.fileobj.close()  # type: ignore[union-attr]
            self._selector.close()
            _close_all_but(own_end)
            _confine(request)
            path = os.environ.get("HIVE_MODEL_SOCKET", SOCKET)
            asyncio.run(serve(socket.socket(fileno=own_end), path))
            status = 0
        except BaseException:  # noqa: BLE001 - nothing may return into the loop of the server
            traceback.print_exc()
        finally:
            os._exit(status)

    def _end(self, control: socket.socket, pid: int) -> None:
        """The session has closed a control socket: end that runtime, and reap it."""
        self._selector.unregister(control)
        control.close()
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)  # it may not have its group yet
        os.waitpid(pid, 0)

    def _end_all(self) -> None:
        for key in list(self._selector.get_map().values()):
            if isinstance(key.fileobj, socket.socket) and key.fileobj is not self._channel:
                self._end(key.fileobj, key.data)


async def _warm_up_model(wire: str) -> None:
    """Import the libraries of this wire, and what they import and build at their first use."""
    read_messages(b"")  # builds the validators of histories
    async with http_client(_NO_SOCKET) as client:
        build_model(ModelChoice("warm-up", wire), client)
        with suppress(httpx2.TransportError):
            await client.get(BASE)


def _close_all_but(descriptor: int) -> None:
    os.closerange(_FIRST_FREE, descriptor)
    os.closerange(descriptor + 1, os.sysconf("SC_OPEN_MAX"))


def _confine(request: ForkedRuntime) -> None:
    """Take the user, the environment and the bounds of a runtime."""
    _take_name(CHILD_NAME)  # while it may write there
    os.setsid()
    os.umask(_UMASK)
    uid = request.uid
    if uid is not None:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
        if (os.getresuid(), os.getresgid(), os.getgroups()) != ((uid,) * 3, (uid,) * 3, []):
            raise PermissionError(f"cannot run as user {uid}")
    os.environ.clear()
    os.environ.update(request.environment)
    os.chdir(request.folder)
    random.seed()


def _take_name(name: str) -> None:
    """Set the process name that ps(1) shows."""
    with Path("/proc/self/comm").open("w") as comm:
        comm.write(name)


def main() -> None:
    """Entry point."""
    _take_name(NAME)
    gc.freeze()
    gc.enable()  # it was disabled for the imports
    with socket.socket(fileno=int(sys.argv[1])) as channel:
        ForkServer(channel).serve()


if __name__ == "__main__":
    main()
