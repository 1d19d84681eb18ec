"""How a sub-agent has the sub-agent started that the daemon opened for it.

Only the session can start a process of another user. Each sub-agent has one end of a socket pair,
and the session the other one. A request names the sub-agent by its id and brings the log that it
begins with; the answer brings its result, or says why there is none. Both travel in files in
memory that are sealed, so that what was checked can neither change nor keep its reader waiting.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final

from hive_core.agent.session.subagents.folder import RESULT_MOST
from hive_core.agent.session.subagents.order import LOG_MOST
from hive_core.errors import (
    Conflict,
    HiveError,
    Internal,
    InvalidArgument,
    NotAllowed,
    TimedOut,
)
from hive_core.varlink import Message

OPTION: Final = "--forks"
RULE: Final = "subagents"
_WORDS_MOST: Final = 1 << 12
_REASON_MOST: Final = 1000
_SEALS: Final = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SEAL
_ERRORS: Final[Mapping[str, type[HiveError]]] = {
    "timeout": TimedOut, "cancelled": Conflict, "refused": NotAllowed, "error": Internal,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class StartRequest:
    """What a sub-agent asks its session: to start sub-agent `id` with this log.

    It says nothing about user, program, environment and depths: the session knows those.
    """

    id: str
    seconds: int
    hydration: bytes

    @classmethod
    def of(cls, row: object, hydration: bytes) -> StartRequest:
        """The request in a message; InvalidArgument where it is malformed."""
        match row:
            case {"id": str(id_), "seconds": int(seconds), **rest} if (
                not rest and seconds is not True and seconds > 0
            ):
                return cls(id_, seconds, hydration)
            case _:
                raise _fault("it needs id and seconds, and nothing else")


def open_channel() -> tuple[socket.socket, socket.socket]:
    """The end of the session, which never waits, and that of a sub-agent."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setblocking(False)  # noqa: FBT003 - it takes no keyword
    return ours, theirs


def receive_request(channel: socket.socket) -> StartRequest | None:
    """The next request; None at the end. InvalidArgument where it is malformed."""
    received = _receive(channel)
    if received is None:
        return None
    words, file = received
    with _closing(file):
        return StartRequest.of(_decode(words), _read_sealed(file, LOG_MOST))


def send_result(channel: socket.socket, result: Mapping[str, object]) -> None:
    """Answer with the result of a sub-agent. OSError where the asker does not read."""
    _send(channel, {"status": "done"}, json.dumps(result).encode())


def send_failure(channel: socket.socket, error: HiveError) -> None:
    """Answer why there is no result. OSError where the asker does not read."""
    status = next((key for key, kind in _ERRORS.items() if isinstance(error, kind)), "refused")
    _send(channel, {"status": status, "reason": error.reason[:_REASON_MOST]}, b"")


def send_request(channel: socket.socket, request: StartRequest) -> None:
    """Ask for a sub-agent to be started."""
    _send(channel, {"id": request.id, "seconds": request.seconds}, request.hydration)


def ask_start(channel: socket.socket, request: StartRequest) -> Message:
    """Have a sub-agent started, and wait for its result; the error says why there is none."""
    try:
        send_request(channel, request)
        received = _receive(channel)
    except OSError as error:
        raise Internal(f"cannot ask the session: {error.strerror}") from None
    if received is None:
        raise Internal("the session closed the channel of this sub-agent")
    words, file = received
    with _closing(file):
        return _read_answer(_decode(words), file)


def _read_answer(answer: object, file: int) -> Message:
    row = answer if isinstance(answer, dict) else {}
    if row.get("status") != "done":
        kind = _ERRORS.get(str(row.get("status")), Internal)
        reason = str(row.get("reason") or "the session gave no reason")
        raise kind(reason, rule=RULE) if kind is NotAllowed else kind(reason)
    result = _decode(_read_sealed(file, RESULT_MOST))
    if not isinstance(result, dict):
        raise Internal("the session answered without a result")
    return result


def _send(channel: socket.socket, words: Mapping[str, object], data: bytes) -> None:
    file = os.memfd_create("subagent", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    with _closing(file):
        view = memoryview(data)
        while view:
            view = view[os.write(file, view) :]
        seal(file)
        socket.send_fds(channel, [json.dumps(words).encode()], [file])


def seal(file: int) -> None:
    """Seal this file in memory against all changes."""
    fcntl.fcntl(file, fcntl.F_ADD_SEALS, _SEALS)


def _receive(channel: socket.socket) -> tuple[bytes, int] | None:
    """One message and its file; None at the end. InvalidArgument where it has no file."""
    try:
        words, files, flags, _ = socket.recv_fds(channel, _WORDS_MOST, 1)
    except OSError:
        return None
    if not words and not files:
        return None
    if len(files) != 1 or flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC):
        for file in files:
            os.close(file)
        raise _fault("it needs one message and one file")
    return words, files[0]


def _read_sealed(file: int, most: int) -> bytes:
    """Read a sealed file in memory."""
    seals = 0
    with suppress(OSError):  # no file in memory: it has no seals
        seals = fcntl.fcntl(file, fcntl.F_GET_SEALS)
    if seals & _SEALS != _SEALS:
        raise _fault("its file is not a sealed file in memory")
    size = os.fstat(file).st_size
    if size > most:
        raise _fault(f"its file has {size} bytes, and the most is {most}")
    data = bytearray()
    while len(data) < size:
        data += os.pread(file, size - len(data), len(data))
    return bytes(data)


def _decode(data: bytes) -> object:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        raise _fault("it is not JSON") from None


@contextmanager
def _closing(file: int) -> Iterator[None]:
    try:
        yield
    finally:
        os.close(file)


def _fault(reason: str) -> InvalidArgument:
    return InvalidArgument(f"malformed request to start a sub-agent: {reason}", field="request")
