"""One connection as the broker sees it, and one call on it from its frame to its last reply."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol, final

from hive_core.broker.call import Ready, SlowReadSources
from hive_core.broker.operation import Operation, Params, Result
from hive_core.errors import BadFrame, HiveError
from hive_core.model.agents.subagent import address
from hive_core.model.operator.account import LoginSeat

SlowRead = Callable[[SlowReadSources], Awaitable[Result]]
Send = Callable[[bytes, bool], None]
_NO_TOPICS: frozenset[str] = frozenset()


def without_traceback(error: HiveError) -> HiveError:
    """The error without the frames it came through, which hold all values of the call.

    A call holds its error, so with them it would be a cycle, thousands of objects for each refused
    call. Only the garbage collector frees them, while all other calls wait (attacks 61 and 66).
    """
    error.__context__ = error.__cause__ = None
    return error.with_traceback(None)


def release_read(result: Result | HiveError | None) -> None:
    """Release the result of a slow read that no handler will use."""
    if isinstance(result, Ready) and result.over is not None:
        result.over()


class PendingCall:
    """One call of a connection. It stays at the head of the queue until its last reply."""

    __slots__ = (
        "changes", "confirmed", "connection", "counted", "due", "fault", "job", "more",
        "oneway", "ready", "reply", "request", "size", "streams", "writes",
    )  # fmt: skip

    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection
        # Bytes of its frame.
        self.size = 0
        # What its frame asks for.
        self.request: tuple[Operation, Params] | None = None
        self.more = self.oneway = self.streams = False
        # Whether its handler needs a transaction, and whether it may end in a commit.
        self.writes = self.changes = False
        # Whether it was counted as a call: the handler of one that waits runs again and again.
        self.counted = False
        # How its login has confirmed it: taken once, however often the handler runs.
        self.confirmed = ""
        # The reply to a call that has no handler: a fault of the frame, or a fixed reply.
        self.fault: HiveError | None = None
        self.reply = b""
        # Monotonic end of a wait that has begun.
        self.due: float | None = None
        # The job that the reply waits for, with the result for when it has ended well.
        self.job: tuple[str, bytes] | None = None
        # What a slow read brought.
        self.ready: Result | HiveError | None = None

    def await_job(self, job: tuple[str, bytes] | None) -> None:
        """Its handler has run; only the end of the job is waited for."""
        self.job = job
        if job is not None:
            self.writes = self.changes = False

    def release(self) -> None:
        """Release what the call holds: it is answered, or its connection is closed."""
        release_read(self.ready)

    def turn_page(self, params: Params) -> None:
        """A part of the stream is out; the handler runs afresh for the next one."""
        if self.request is not None:
            self.request = (self.request[0], params)
        self.ready = self.due = None


class ClientConnection:
    """One connection: who calls, what was asked in order, and what is to be written.

    `party` is the UUID text of the agent whose socket this is, or `operator`; `sub`: the id of its
    sub-agent whose socket it is, or empty. `send` takes the bytes of a batch, and whether to close
    after them. `seat`: the login of a connection of login.sock.
    """

    __slots__ = (
        "busy", "bytes_held", "calls", "closing", "frames", "full", "party", "seat", "send", "sub",
        "uid", "unpark", "write_blocked",
    )  # fmt: skip

    def __init__(
        self, party: str, uid: int, send: Send, sub: str = "", seat: LoginSeat | None = None
    ) -> None:
        self.party = party
        self.sub = sub
        self.uid = uid
        self.seat = seat
        self.send = send
        # Frames are read a few at a time: many small ones must not hold up the others.
        self.frames: deque[bytes | BadFrame] = deque()
        self.calls: deque[PendingCall] = deque()
        # The first call waits for a topic, a time, a job or a slow read.
        self.busy = False
        # The peer does not read: no call runs until the transport has drained.
        self.write_blocked = False
        # To be closed once everything is written.
        self.closing = False
        # Ends the wait of the first call.
        self.unpark: Callable[[], None] | None = None
        # Bytes of the frames that came and are not answered; while it is full nothing is read.
        self.bytes_held = 0
        self.full = False

    @property
    def caller(self) -> str:
        """The caller whose socket it is: its party, or `UUID/ID` of the sub-agent."""
        return address(self.party, self.sub) if self.sub else self.party

    def forget(self) -> None:
        """Forget all calls, as the peer has closed the connection."""
        for call in self.calls:
            call.release()
        self.calls.clear()
        self.frames.clear()
        self.bytes_held = 0
        self.closing = True

    @property
    def is_ready(self) -> bool:
        """Whether its first call can run now."""
        waiting = self.busy or self.write_blocked or self.closing
        return not waiting and bool(self.calls or self.frames)

    @property
    def is_useless(self) -> bool:
        """Whether a peer that sends no more has all replies, or waits for topics only."""
        if not self.calls:
            return not self.frames
        return self.unpark is not None and self.calls[0].job is None


@final
@dataclass(slots=True, eq=False)
class CallOutcome:
    """What running one call once came to; applied to its connection only after COMMIT.

    Not `done`: the call stays at the head of its connection until a topic is touched, `until` or
    `due` (monotonic) has come, a read has ended, or, with data, until the transport has drained.
    """

    call: PendingCall
    data: bytes = b""
    done: bool = True
    topics: frozenset[str] = _NO_TOPICS
    until: float | None = None
    due: float | None = None
    read: SlowRead | None = None
    job: tuple[str, bytes] | None = None
    page: Params | None = None


class Transport(Protocol):
    """What the broker needs of the transport."""

    def wake(self) -> None:
        """Call `Broker.serve_batch` soon, once for several wakes."""
        ...

    def read(self, line: ClientConnection, read: SlowRead) -> None:
        """Run a slow read and hand what it brings to `Broker.read_completed`."""
        ...
