"""What the requests of a turn used, and how long they took."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from pydantic_ai.messages import ModelResponse

from hive_core.runtime.connection import Line


@dataclass(slots=True)
class TurnMeter:
    """Sums over the requests of a turn. `cost` is None once a price was not known."""

    requests: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    cache_read: int = 0
    cache_write: int = 0
    cost: float | None = 0.0
    first_ms: float | None = None
    latency_ms: float = 0.0
    provider: str = ""
    model: str = ""
    _began: float = field(default=0.0)

    def start(self) -> None:
        """A request begins."""
        self._began = time.monotonic()
        self.requests += 1

    def note_first(self) -> None:
        """The first part of an answer came; only that of the first request counts."""
        if self.first_ms is None:
            self.first_ms = self._since()

    def stop(self) -> None:
        """The request ended, well or not."""
        self.latency_ms += self._since()

    def add(self, response: ModelResponse) -> int:
        """Count an answer; returns the tokens of the context after it."""
        usage = response.usage
        self.tokens_in += usage.input_tokens
        self.tokens_out += usage.output_tokens
        self.cache_read += usage.cache_read_tokens
        self.cache_write += usage.cache_write_tokens
        self.provider, self.model = response.provider_name or "", response.model_name or ""
        self._add_cost(response)
        return usage.input_tokens + usage.output_tokens

    def fields(self) -> Line:
        """The fields of an `end`."""
        return {
            "model": self.model, "provider": self.provider, "cost": self.cost,
            "ttft_ms": self.first_ms, "latency_ms": round(self.latency_ms, 1),
            "usage": {
                "requests": self.requests, "tokens_in": self.tokens_in,
                "tokens_out": self.tokens_out, "cache_read": self.cache_read,
                "cache_write": self.cache_write,
            },
        }  # fmt: skip

    def _add_cost(self, response: ModelResponse) -> None:
        if self.cost is None:
            return
        try:
            self.cost += float(response.cost().total_price)
        except (LookupError, ValueError, AssertionError):
            self.cost = None  # hive-model has the price of an alias, and charges it

    def _since(self) -> float:
        return round((time.monotonic() - self._began) * 1000, 1)
