"""One connection of an agent: the head of its CONNECT, then bytes in both directions."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Callable
from http import HTTPStatus
from typing import Final

from typing_extensions import override

from hive_core.egress.connect import ConnectRefused, HeadReader
from hive_core.egress.permits import EgressPermit, EgressReport
from hive_core.egress.route import EgressRouter
from hive_core.model.wire.egress import EgressTarget
from hive_core.services.listeners import ConnectionFactory
from hive_core.services.packets import HandedSocket

log = logging.getLogger(__name__)
CONNECTIONS_MOST: Final = 32  # of one agent; more of them wait in its queue
ESTABLISHED: Final = b"HTTP/1.1 200 Connection established\r\n\r\n"
_BUFFER: Final = 1 << 18
_DRAIN: Final = 5.0  # seconds that a client has to take the last bytes


class TunnelSide(asyncio.Protocol):
    """One end of a tunnel, which passes on what it receives to the other end."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.other: TunnelSide | None = None
        self.count: Callable[[int], None] = lambda size: None  # noqa: ARG005 - before the tunnel
        self.ended: Callable[[], None] = lambda: None
        self.has_ended = False

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if not isinstance(transport, asyncio.Transport):
            raise TypeError("not a stream transport")
        transport.set_write_buffer_limits(high=_BUFFER)
        self.transport = transport

    @override
    def data_received(self, data: bytes) -> None:
        if self.other is not None and self.other.transport is not None:
            self.other.transport.write(data)
            self.count(len(data))

    @override
    def eof_received(self) -> bool:
        """Pass the end of input on; the other direction stays open until it ends too."""
        self.has_ended = True
        other = self.other
        if other is None or other.transport is None or other.has_ended:
            return False
        with contextlib.suppress(OSError):
            other.transport.write_eof()
        return True

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self.has_ended = True
        self.ended()

    def close_soon(self) -> None:
        """Close, once what is on its way has been taken, within some seconds."""
        if self.transport is not None and not self.transport.is_closing():
            asyncio.get_running_loop().call_later(_DRAIN, self.transport.abort)
            self.transport.close()

    @override
    def pause_writing(self) -> None:
        if self.other is not None and self.other.transport is not None:
            self.other.transport.pause_reading()

    @override
    def resume_writing(self) -> None:
        if self.other is not None and self.other.transport is not None:
            self.other.transport.resume_reading()


class EgressConnection(TunnelSide):
    """The agent's end. `closed` is called at the end of all."""

    closed: Callable[[], None]

    def __init__(self, router: EgressRouter, agent_socket: HandedSocket) -> None:
        super().__init__()
        self.router, self.agent_socket = router, agent_socket
        self._loop = asyncio.get_running_loop()
        self._reader: HeadReader | None = HeadReader()
        self._report: EgressReport | None = None
        self._permit: EgressPermit | None = None
        self._task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._began = self._active = self._loop.time()
        self._end_status = ""
        self._is_revoked = False

    async def open(self, accepted: socket.socket) -> None:
        await self._loop.connect_accepted_socket(lambda: self, accepted)

    def abort(self) -> None:
        """End it, because the agent may connect no longer."""
        self._is_revoked = True
        self._stop("ended")

    # The head

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        if self._is_revoked:  # before it was made
            self._stop("ended")
            return
        self._timer = self._loop.call_later(self.router.timeouts.head, self._on_late_head)

    def _on_late_head(self) -> None:
        self._answer(ConnectRefused(HTTPStatus.REQUEST_TIMEOUT, "no request came in time"))

    @override
    def data_received(self, data: bytes) -> None:
        if self._reader is None:
            super().data_received(data)
            return
        try:
            target = self._reader.feed(data)
            if target is not None:
                self.router.check_rate(self.agent_socket)
                self._begin(target, self._reader.rest)
        except ConnectRefused as refusal:
            self._answer(refusal)

    def _begin(self, target: EgressTarget, rest: bytes) -> None:
        self._reader = None
        self._cancel_timer()
        assert self.transport is not None  # noqa: S101 - it has just received
        self.transport.pause_reading()
        self._report = EgressReport(self.agent_socket, target)
        self._task = self._loop.create_task(self._establish(self._report, rest))

    async def _establish(self, report: EgressReport, rest: bytes) -> None:
        try:
            self._permit, connected = await self.router.open(report)
        except ConnectRefused as refusal:
            # hived has recorded what it refused itself.
            recorded = refusal.status is HTTPStatus.FORBIDDEN and not refusal.rule
            report.rule, report.reason = refusal.rule or report.rule, refusal.reason
            self._report = None if recorded else report
            self._answer(refusal)
            return
        other = TunnelSide()
        try:
            await self._loop.create_connection(lambda: other, sock=connected)
        except BaseException:
            connected.close()
            raise
        self._join(other, rest)

    def _join(self, other: TunnelSide, rest: bytes) -> None:
        transport, permit = self.transport, self._permit
        if transport is None or transport.is_closing() or permit is None:
            assert other.transport is not None  # noqa: S101 - connected
            other.transport.abort()
            return
        self.other, other.other = other, self
        self.count, other.count, other.ended = (
            self._count_sent,
            self._count_received,
            self._on_other_end,
        )
        self._end_status = "done"
        self._active = self._loop.time()
        self._timer = self._loop.call_later(min(permit.idle, permit.longest), self._on_time)
        transport.write(ESTABLISHED)
        if rest:
            super().data_received(rest)
        transport.resume_reading()

    def _answer(self, refusal: ConnectRefused) -> None:
        """Answer with an error, and close."""
        self._cancel_timer()
        if self.transport is not None and not self.transport.is_closing():
            self.transport.write(refusal.response)
            self.transport.close()

    # The tunnel

    def _count_sent(self, size: int) -> None:
        if self._report is not None:
            self._report.sent += size
            self._check_bytes()

    def _count_received(self, size: int) -> None:
        if self._report is not None:
            self._report.received += size
            self._check_bytes()

    def _check_bytes(self) -> None:
        self._active = self._loop.time()
        report, permit = self._report, self._permit
        if report and permit and report.sent + report.received > permit.bytes:
            self._stop("bytes")

    def _on_time(self) -> None:
        """End the connection where it was idle or open for too long, or look again later."""
        permit, now = self._permit, self._loop.time()
        if permit is None:
            return
        idle, whole = self._active + permit.idle - now, self._began + permit.longest - now
        if min(idle, whole) <= 0:
            self._stop("idle" if idle <= 0 else "longest")
        else:
            self._timer = self._loop.call_later(min(idle, whole), self._on_time)

    def _on_other_end(self) -> None:
        """The target has closed: the agent takes what is still on its way."""
        self.close_soon()

    def _stop(self, status: str) -> None:
        if self._end_status in ("", "done"):
            self._end_status = status
        for side in (self, self.other):
            if side is not None and side.transport is not None:
                side.transport.abort()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._cancel_timer()
        if self._task is not None:
            self._task.cancel()
        if self.other is not None:
            self.other.close_soon()
        if self._report is not None:
            self._finish(self._report)
        self.closed()

    def _finish(self, report: EgressReport) -> None:
        report.seconds = self._loop.time() - self._began
        if report.status != "refused":
            report.status = self._end_status or "failed"
        self.router.permits.report(report)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def egress_connections(router: EgressRouter) -> ConnectionFactory:
    """How hive-egress serves the sockets of agents."""

    def new(agent_socket: HandedSocket) -> Callable[[], EgressConnection]:
        return lambda: EgressConnection(router, agent_socket)

    return ConnectionFactory(new, CONNECTIONS_MOST)
