"""From a target to a connected socket: asked at hived, resolved, checked, connected."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final

from hive_core.egress.addresses import Address, address_fault
from hive_core.egress.connect import ConnectRefused
from hive_core.egress.network import Network
from hive_core.egress.permits import EgressPermit, EgressPermits, EgressReport
from hive_core.model.wire.egress import EgressTarget
from hive_core.services.packets import HandedSocket

CONNECTS_A_SECOND: Final = 20
CONNECTS_BURST: Final = 100
_RESOLVES: Final = 4  # of one agent at once
_ADDRESSES: Final = 4  # of a name that are tried


@dataclass(frozen=True, slots=True)
class RouteTimeouts:
    """In seconds: until the head is there, a name is resolved, an address is connected."""

    head: float = 10.0
    resolve: float = 10.0
    connect: float = 10.0


TIMEOUTS: Final = RouteTimeouts()


@dataclass(slots=True)
class ConnectRate:
    """How many connections one agent may ask for: a burst, and then some a second."""

    left: float = CONNECTS_BURST
    at: float = 0.0

    def take(self, now: float) -> bool:
        self.left = min(CONNECTS_BURST, self.left + (now - self.at) * CONNECTS_A_SECOND)
        self.at = now
        if self.left < 1:
            return False
        self.left -= 1
        return True


@dataclass(frozen=True, slots=True)
class EgressRouter:
    """What all connections share."""

    permits: EgressPermits
    network: Network
    timeouts: RouteTimeouts = TIMEOUTS
    rates: dict[str, ConnectRate] = field(default_factory=dict)
    resolving: dict[str, asyncio.Semaphore] = field(default_factory=dict)

    def check_rate(self, agent_socket: HandedSocket) -> None:
        """Raise ConnectRefused where the agent asks for too many connections."""
        if not self.rates.setdefault(agent_socket.agent, ConnectRate()).take(
            asyncio.get_running_loop().time()
        ):
            reason = f"more than {CONNECTS_A_SECOND} connections a second; try again"
            raise ConnectRefused(HTTPStatus.TOO_MANY_REQUESTS, reason)

    def forget(self, agents: set[str]) -> None:
        """Forget the agents that are gone."""
        for shared in (self.rates, self.resolving):
            for agent in shared.keys() - agents:
                del shared[agent]

    async def open(self, report: EgressReport) -> tuple[EgressPermit, socket.socket]:
        """Connect to the target of the report; sets the address in the report."""
        permit = await self.permits.ask(report.agent_socket, report.target)
        report.rule = permit.rule
        addresses = await self._resolve(report.agent_socket, report.target)
        checked = self._check(report, addresses)
        return permit, await self._connect(report, checked)

    async def _resolve(self, agent_socket: HandedSocket, target: EgressTarget) -> Sequence[Address]:
        if target.address is not None:
            return [target.address]
        try:
            async with asyncio.timeout(self.timeouts.resolve):
                return await self._resolve_in_turn(agent_socket, target.host)
        except TimeoutError:
            reason = f"{target.host} was not resolved in time"
            raise ConnectRefused(HTTPStatus.GATEWAY_TIMEOUT, reason) from None
        except (OSError, ValueError) as error:  # UnicodeError: a name that DNS does not know
            reason = f"cannot resolve {target.host}: {error}"
            raise ConnectRefused(HTTPStatus.BAD_GATEWAY, reason) from error

    async def _resolve_in_turn(self, agent_socket: HandedSocket, name: str) -> Sequence[Address]:
        slots = self.resolving.setdefault(agent_socket.agent, asyncio.Semaphore(_RESOLVES))
        await slots.acquire()  # a client that gives up here leaves nothing behind

        # The slot is kept until the resolver ends, which the client may not wait for.
        def release(task: asyncio.Task[Sequence[Address]]) -> None:
            slots.release()
            if not task.cancelled():
                task.exception()

        task = asyncio.create_task(self.network.resolve(name))
        task.add_done_callback(release)
        return await asyncio.shield(task)

    def _check(self, report: EgressReport, addresses: Sequence[Address]) -> list[Address]:
        """The addresses that may be connected to. ConnectRefused: none of them may."""
        faults = {address: self._fault(address) for address in addresses}
        checked = [address for address, fault in faults.items() if fault is None]
        if checked:
            return checked[:_ADDRESSES]
        refused = ", ".join(f"{address} is {fault}" for address, fault in faults.items())
        report.address = str(next(iter(faults), ""))
        report.status = "refused"
        reason = f"{report.target.host} has no address on the internet: {refused or 'none'}"
        raise ConnectRefused(HTTPStatus.FORBIDDEN, reason[:500], "address")

    def _fault(self, address: Address) -> str | None:
        fault = address_fault(address)
        if fault is None and self.network.is_own(address):
            return "of this host"
        return fault

    async def _connect(self, report: EgressReport, addresses: Sequence[Address]) -> socket.socket:
        """A socket that is connected to the first of these addresses that answers."""
        errors = []
        for address in addresses:
            report.address = str(address)
            try:
                async with asyncio.timeout(self.timeouts.connect):
                    return await self.network.connect(address, report.target.port)
            except TimeoutError:
                errors.append(f"{address}: no answer")
            except OSError as error:
                errors.append(f"{address}: {error.strerror or error}")
        reason = f"cannot connect to {report.target}: {'; '.join(errors)}"
        raise ConnectRefused(HTTPStatus.BAD_GATEWAY, reason[:500])
