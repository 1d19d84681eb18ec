"""One call of an agent: admitted, reserved, answered by a provider, and settled."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from time import monotonic
from typing import Final

from hive_core.proxy.accounts import Accounts, Reservation, Settlement
from hive_core.proxy.attempts import RETRIES, TOO_MANY, Attempts, BegunAnswer, ProviderError
from hive_core.proxy.body import RequestBody, parse_body
from hive_core.proxy.call_bounds import AnswerSize, expect_use, find_most_out
from hive_core.proxy.client import ClientGone, ClientSide
from hive_core.proxy.config import ProxyConfig
from hive_core.proxy.failure import CallFailed, bad_request
from hive_core.proxy.limits import CallLimits
from hive_core.proxy.meter import AnswerMeter, TokenUsage
from hive_core.proxy.provider import ModelTarget, ProviderCall, UpstreamAnswer
from hive_core.proxy.providers import Providers
from hive_core.proxy.relay import TIMEOUT, Relay
from hive_core.proxy.route import ModelRoute, Purpose, asks_hand_back, task_of
from hive_core.proxy.wires.base import WireFormat
from hive_core.proxy.wires.chat import ChatWire
from hive_core.services.packets import HandedSocket

log = logging.getLogger(__name__)
_LARGE: Final = 256 << 10  # a larger body is parsed beside the loop


@dataclass(frozen=True, slots=True)
class CallServices:
    """What all calls share."""

    accounts: Accounts
    limits: CallLimits
    providers: Providers
    retries: Sequence[float] = RETRIES


@dataclass(slots=True)
class ModelCall:
    services: CallServices
    config: ProxyConfig
    agent_socket: HandedSocket
    route: ModelRoute
    client: ClientSide
    began: float = field(default_factory=monotonic)

    async def run(self) -> None:
        """Serve the call. CallFailed: nothing was sent yet. ClientGone: the client has hung up."""
        limits = self.config.models.limits
        shared = self.services.limits
        with shared.admit(self.agent_socket.agent, limits), shared.hold_bytes(limits) as count:
            data = await self.client.read_body(limits.body, count)
            work = asyncio.create_task(self._serve(data, count))
            gone = asyncio.create_task(self.client.wait_until_gone())
            try:
                await asyncio.wait((work, gone), return_when=asyncio.FIRST_COMPLETED)
            finally:
                gone.cancel()
                if not self.client.is_finished:
                    work.cancel()
            with suppress(asyncio.CancelledError):
                await work

    async def _serve(self, data: bytes, hold: Callable[[int], None]) -> None:
        wire = self.route.wire
        is_large = len(data) > _LARGE
        body, prefix = await asyncio.to_thread(_read, data, wire) if is_large else _read(data, wire)
        wire.check_body(body)
        targets = self._targets(body.alias)
        most_out = self._most_out(body, targets)
        reservation = await self._reserve(body, targets, most_out)
        if reservation.alias != body.alias:
            targets = self._targets(reservation.alias)
            most_out = self._most_out(body, targets)
        meter = wire.meter(len(data))
        outcome = AnswerOutcome(reservation.id, targets[0].alias, meter, prefix)
        self.services.accounts.track(reservation.id, lambda: meter.out_so_far)
        try:
            await self._exchange(body, targets, outcome, hold, most_out)
        finally:
            self.services.accounts.settle(outcome.settlement(self))

    def _targets(self, alias: str) -> list[ModelTarget]:
        """The models that may answer. CallFailed: 404, or 400 for the wrong wire."""
        targets = self.config.targets(alias)
        wire = targets[0].provider.wire
        if wire is not self.route.wire.wire:
            raise bad_request(f"{alias} has the wire {wire}: ask it by POST {_path_of(wire)}")
        return targets

    def _most_out(self, body: RequestBody, targets: list[ModelTarget]) -> int | None:
        """Tokens of each answer by the limits of one call; None: no limit. CallFailed: 413."""
        if self.route.purpose is not Purpose.CALL:
            return None
        limits, aliases = self.config.models.limits, [target.alias for target in targets]
        choices = self.route.wire.choices(body)
        return find_most_out(limits, self.config.prices, aliases, len(body.data), choices)

    async def _reserve(
        self, body: RequestBody, targets: list[ModelTarget], most_out: int | None
    ) -> Reservation:
        """CallFailed says why hived does not allow the call."""
        parameters = self._reservation(body, targets, most_out)
        key = tuple(str(parameters.get(name)) for name in ("agent", "alias", "task"))
        self.services.limits.check_refused(key)
        try:
            return await self.services.accounts.reserve(parameters)
        except CallFailed as failure:
            if failure.status == TOO_MANY and failure.retry_after:
                self.services.limits.refuse(key, failure.message, failure.retry_after)
            raise

    def _reservation(
        self, body: RequestBody, targets: list[ModelTarget], most_out: int | None
    ) -> dict[str, object]:
        """What hived is asked for, enough whichever model answers."""
        wire, is_call = self.route.wire, self.route.purpose is Purpose.CALL
        size = AnswerSize(wire.choices(body), wire.most_out(body), most_out)
        use = expect_use(targets, self.config.prices, size)
        task = task_of(self.client.headers)
        return {
            "agent": self.agent_socket.agent, "sub": self.agent_socket.sub, "alias": body.alias,
            "wire": str(wire.wire), "tools": body.offers_tools,
            **use, **({"bytes": len(body.data)} if is_call else {"bytes": 0, "out_most": 0}),
            **({"task": task} if task else {}),
            **({"hand_back": True} if asks_hand_back(self.client.headers) else {}),
        }  # fmt: skip

    async def _exchange(
        self, body: RequestBody, targets: list[ModelTarget], outcome: AnswerOutcome,
        hold: Callable[[int], None], most_out: int | None,
    ) -> None:  # fmt: skip
        """Ask and pass on. Afterwards `outcome` says what came of it, also on an error."""
        drops_usage = isinstance(self.route.wire, ChatWire) and body.is_stream
        call = ProviderCall(self.route, body, self.client.headers, drops_usage, most_out)

        async def ask(target: ModelTarget) -> UpstreamAnswer:
            return await self.services.providers.open(self.config, target, call)

        first_byte = self.config.models.limits.first_byte
        attempts = Attempts(ask, first_byte, self.services.retries)
        try:
            begun = await attempts.begin(targets)
        except CallFailed as failure:
            outcome.status = "timeout" if failure.status == TIMEOUT else "error"
            raise
        except ProviderError as error:
            outcome.status = "error"
            await self._pass_error_on(error)
            return
        outcome.alias = begun.target.alias
        outcome.is_charged = self.route.purpose is Purpose.CALL
        drops_usage = drops_usage and not body.includes_usage
        await self._pass_on(begun, outcome, hold, drops_usage=drops_usage)

    async def _pass_on(
        self, begun: BegunAnswer, outcome: AnswerOutcome, hold: Callable[[int], None], *,
        drops_usage: bool,
    ) -> None:  # fmt: skip
        """Pass the answer on; what it used is kept before its end is passed on."""

        def note_use() -> None:
            outcome.first_at = relay.first_at
            self.services.accounts.note_use(outcome.settlement(self))

        relay = Relay(
            self.client, self.route.wire, outcome.meter, self.config.models.limits, drops_usage,
            hold, note_use, self.config.mask,
        )  # fmt: skip
        try:
            outcome.status = "broken"
            outcome.status = await relay.run(begun)
        except (asyncio.CancelledError, ClientGone):
            outcome.status = "gone"
            raise
        finally:
            outcome.first_at = relay.first_at
            await begun.answer.close()

    async def _pass_error_on(self, error: ProviderError) -> None:
        """Pass on what the provider says, without keys."""
        text = self.config.mask(error.data).decode(errors="replace")
        await self.client.reply(error.status, error.headers, text.encode())


@dataclass(slots=True)
class AnswerOutcome:
    """What is settled: by default that the client left before an answer began."""

    reservation: str
    alias: str
    meter: AnswerMeter
    prefix: str
    status: str = "gone"
    is_charged: bool = False
    first_at: float | None = None

    def settlement(self, call: ModelCall) -> Settlement:
        usage = self.meter.usage() if self.is_charged else TokenUsage()
        first_at = call.began if self.first_at is None else self.first_at
        return Settlement(
            self.reservation, self.status, self.alias, usage.tokens_in, usage.tokens_out,
            usage.cache_read, usage.cache_write, call.config.prices.cost(self.alias, usage),
            round(1000 * (first_at - call.began)), round(1000 * (monotonic() - call.began)),
            self.prefix, usage.estimated,
        )  # fmt: skip


def _read(data: bytes, wire: WireFormat) -> tuple[RequestBody, str]:
    """The body, and the digest of its prefix."""
    body = parse_body(data, wire.turns_key)
    return body, body.prefix_digest(wire.prefix_keys)


def _path_of(wire: str) -> str:
    paths = {"chat": "/v1/chat/completions", "responses": "/v1/responses"}
    return paths.get(wire, "/v1/messages")
