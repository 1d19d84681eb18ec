"""How long the answer to one call may be, and what is reserved for it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from hive_core.model.config.models import ModelEntry, ModelLimits
from hive_core.proxy.failure import CallFailed
from hive_core.proxy.meter import TOKENS_MOST, TokenUsage, estimate_tokens
from hive_core.proxy.price import PriceTable
from hive_core.proxy.provider import ModelTarget

_MILLION: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class AnswerSize:
    """What bounds the answers to a request. `wanted`: tokens of all, as the request says.

    `most`: tokens of each, by the limits of one call.
    """

    choices: int = 1
    wanted: int | None = None
    most: int | None = None

    def of(self, model: ModelEntry) -> int:
        """Tokens of all answers together, where this model gives them."""
        wanted = self.wanted or model.max_output * self.choices
        bounds = [n * self.choices for n in (self.most, model.stated_max_output) if n is not None]
        return min([wanted, *bounds, TOKENS_MOST])


def expect_use(
    targets: Sequence[ModelTarget], prices: PriceTable, size: AnswerSize
) -> dict[str, object]:
    """`out_most` and the prices of a reservation, which suffices whichever target answers."""
    listed = [prices.list_prices(target.alias) for target in targets]
    return {
        "out_most": max(size.of(target.model) for target in targets),
        "price_in": max(row["price_in"] for row in listed),
        "price_out": max(row["price_out"] for row in listed),
    }


def find_most_out(
    limits: ModelLimits, prices: PriceTable, aliases: Sequence[str], size: int, choices: int
) -> int | None:
    """Tokens of each answer to a request of this size, whichever model answers; None: no limit.

    CallFailed (413) where the limits leave nothing for an answer: a session then shortens its
    conversation.
    """
    tokens_in = estimate_tokens(size)
    rooms = [room for alias in aliases for room in _rooms(limits, prices, alias, tokens_in)]
    if not rooms:
        return None
    most = int(min(rooms)) // choices
    if most < 1:
        limit = limits.tokens_a_call, limits.cost_a_call
        parts = zip(limit, ("tokens", "dollars"), strict=True)
        words = " and ".join(f"{amount:g} {unit}" for amount, unit in parts if amount is not None)
        reason = f"about {tokens_in} tokens of input leave no room in the {words} of one call"
        raise CallFailed(413, reason, retry=False)
    return most


def _rooms(limits: ModelLimits, prices: PriceTable, alias: str, tokens_in: int) -> Iterator[float]:
    """What each limit leaves for all answers together, in tokens."""
    if limits.tokens_a_call is not None:
        yield limits.tokens_a_call - tokens_in
    price = prices.cost(alias, TokenUsage(tokens_out=_MILLION)) / _MILLION
    if limits.cost_a_call is not None and price > 0:
        yield (limits.cost_a_call - prices.cost(alias, TokenUsage(tokens_in))) / price
