"""How long the answer to one call may be, by the limits of `[limits]` for one call."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from hive_core.model.config.models import ModelLimits
from hive_core.proxy.failure import CallFailed
from hive_core.proxy.meter import TokenUsage, estimate_tokens
from hive_core.proxy.price import PriceTable

_MILLION: Final = 1_000_000


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
