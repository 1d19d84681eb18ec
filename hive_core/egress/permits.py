"""Asks hived for permits of connections, and reports to it how they ended."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Final
from uuid import uuid4

from hive_core.egress.connect import ConnectRefused
from hive_core.errors import HiveError
from hive_core.model.wire.egress import EgressTarget
from hive_core.services.control import DaemonLink, DaemonReports
from hive_core.services.packets import HandedSocket
from hive_core.varlink import Message

REPORT_EVERY: Final = 5.0


@dataclass(frozen=True, slots=True)
class EgressPermit:
    """The rule that allows a connection, and its limits."""

    rule: str
    idle: float
    longest: float
    bytes: int


@dataclass(slots=True)
class EgressReport:
    """One connection, as hived records it; the agent `sent` and `received` bytes."""

    agent_socket: HandedSocket
    target: EgressTarget
    rule: str = ""
    address: str = ""
    sent: int = 0
    received: int = 0
    seconds: float = 0.0
    status: str = "failed"
    reason: str = ""
    connection: str = field(default_factory=lambda: str(uuid4()))

    @property
    def parameters(self) -> Message:
        return {
            "agent": self.agent_socket.agent, "sub": self.agent_socket.sub,
            "host": self.target.host, "port": self.target.port,
            "rule": self.rule, "address": self.address,
            "sent": self.sent, "received": self.received, "seconds": round(self.seconds, 3),
            "status": self.status, "reason": self.reason, "connection": self.connection,
        }  # fmt: skip


class EgressPermits:
    """`run` keeps the connection to hived; the other methods may be called at any time."""

    def __init__(self, path: Path, patience: float = 3.0) -> None:
        self.link = DaemonLink(path, patience, self._send_all)
        self.reports = DaemonReports(self.link, "CloseEgress")

    async def run(self) -> None:
        await self.link.run()

    async def repeat_reports(self) -> None:
        """Repeat reports that hived could not take, from time to time."""
        while True:
            await asyncio.sleep(REPORT_EVERY)
            self.reports.send_refused()

    def _send_all(self) -> None:
        self.reports.send_all()

    async def ask(self, agent_socket: HandedSocket, target: EgressTarget) -> EgressPermit:
        """The permit of hived, which records what it refuses. ConnectRefused says why."""
        parameters: Message = {
            "agent": agent_socket.agent, "sub": agent_socket.sub,
            "host": target.host, "port": target.port,
        }  # fmt: skip
        try:
            answer = await self.link.call("OpenEgress", parameters)
            permit = EgressPermit(
                str(answer["rule"]), float(str(answer["idle"])), float(str(answer["longest"])),
                int(str(answer["bytes"])),
            )  # fmt: skip
        except (HiveError, KeyError, ValueError) as error:
            reason = f"hived does not say whether {target} is allowed: {error}"
            raise ConnectRefused(HTTPStatus.SERVICE_UNAVAILABLE, reason) from error
        if answer.get("allowed") is not True:
            raise ConnectRefused(HTTPStatus.FORBIDDEN, str(answer.get("reason")))
        return permit

    def report(self, report: EgressReport) -> None:
        """Report a connection to hived, or later if hived is away."""
        self.reports.add(report.connection, report.parameters)
