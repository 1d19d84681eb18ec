"""What a call costs: by the prices of models.toml, else by the lists of genai-prices."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final

from hive_core.model.config.models import ModelEntry, ModelsFile, ProviderKind
from hive_core.proxy.meter import TokenUsage

log = logging.getLogger(__name__)
_MILLION: Final = 1_000_000
_FRESH: Final = 3600.0  # seconds; listed prices may depend on the date
Cost = Callable[[TokenUsage], float]


@dataclass(frozen=True, slots=True)
class TokenPrices:
    """US dollars per million tokens."""

    tokens_in: float
    tokens_out: float
    cache_read: float
    cache_write: float

    def cost(self, usage: TokenUsage) -> float:
        plain = usage.tokens_in - usage.cache_read - usage.cache_write
        total = plain * self.tokens_in + usage.tokens_out * self.tokens_out
        total += usage.cache_read * self.cache_read + usage.cache_write * self.cache_write
        return total / _MILLION


@dataclass(slots=True)
class PriceTable:
    """The cost of calls of each alias. A model without a price costs 0, and is logged once."""

    models: ModelsFile
    _costs: dict[str, tuple[Cost | None, float]] = field(default_factory=dict)

    def cost(self, alias: str, usage: TokenUsage) -> float:
        cost = self._find(alias)
        return 0.0 if cost is None else cost(usage)

    def list_prices(self, alias: str) -> dict[str, float]:
        """The prices of a million tokens of input and output, for the reservation."""
        cost = self._find(alias)
        if cost is None:
            return {"price_in": 0.0, "price_out": 0.0}
        return {
            "price_in": cost(TokenUsage(tokens_in=_MILLION)),
            "price_out": cost(TokenUsage(tokens_out=_MILLION)),
        }

    def is_known(self, alias: str) -> bool:
        return self._find(alias) is not None

    def find_unknown(self) -> list[str]:
        """Look all prices up, which takes some time when it is done first; those without one."""
        return [alias for alias in self.models.models if self._find(alias) is None]

    def _find(self, alias: str) -> Cost | None:
        cost, until = self._costs.get(alias, (None, 0.0))
        now = time.monotonic()
        if until < now:
            cost = self._look_up(alias, is_first=not until)
            self._costs[alias] = (cost, now + _FRESH)
        return cost

    def _look_up(self, alias: str, *, is_first: bool) -> Cost | None:
        model, provider = self.models.models[alias], self.models.provider_of(alias)
        if prices := own_prices(model):
            return prices.cost
        if provider.kind is not ProviderKind.HTTP:
            return TokenPrices(0.0, 0.0, 0.0, 0.0).cost
        cost = listed_cost(model.name, provider.base_url or "")
        if cost is None and is_first:
            log.warning(
                "model %s (%s) has no known price and is charged as 0: set price_in and price_out",
                alias, model.name,
            )  # fmt: skip
        return cost


def own_prices(model: ModelEntry) -> TokenPrices | None:
    """The prices that models.toml sets."""
    if model.price_in is None or model.price_out is None:
        return None
    read = model.price_in if model.price_cache_read is None else model.price_cache_read
    written = model.price_in if model.price_cache_write is None else model.price_cache_write
    return TokenPrices(model.price_in, model.price_out, read, written)


def listed_cost(name: str, base_url: str) -> Cost | None:
    """The cost by genai-prices, which knows models by the URL of their provider."""
    # Imported here: it takes 0.2 s, and a host with prices of its own never needs it.
    from genai_prices import Usage, calc_price  # noqa: PLC0415

    def cost(usage: TokenUsage) -> float:
        counted = Usage(
            input_tokens=usage.tokens_in, output_tokens=usage.tokens_out,
            cache_read_tokens=usage.cache_read, cache_write_tokens=usage.cache_write,
        )  # fmt: skip
        return float(calc_price(counted, name, provider_api_url=base_url).total_price)

    try:
        listed = calc_price(Usage(input_tokens=1), name, provider_api_url=base_url)
    except LookupError:
        return None
    # Prices that do not depend on the size of the call need no search each time.
    flat = _flat_prices(listed.model.get_prices(datetime.now(UTC)))
    return cost if flat is None else flat.cost


def _flat_prices(listed: Any) -> TokenPrices | None:  # noqa: ANN401 - its fields are not declared
    names = ("input_mtok", "output_mtok", "cache_read_mtok", "cache_write_mtok")
    values = [getattr(listed, name, None) for name in names]
    if not all(isinstance(value, Decimal | None) for value in values):
        return None
    price_in, price_out, read, written = (None if v is None else float(v) for v in values)
    base = price_in or 0.0
    return TokenPrices(
        base, price_out or 0.0, base if read is None else read, base if written is None else written
    )
