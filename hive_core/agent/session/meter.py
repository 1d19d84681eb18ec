"""What a turn used, as the runtime reports it, summed over its exchanges with the model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

_SUMS: Final = ("requests", "tokens_in", "tokens_out", "cache_read", "cache_write")


@dataclass(slots=True)
class TurnUsage:
    """Sums of `end` lines. `cost` None: one price was not known."""

    model: str = ""
    provider: str = ""
    cost: float | None = 0.0
    ttft_ms: float | None = None
    latency_ms: float = 0.0
    usage: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_SUMS, 0))

    def add(self, end: Mapping[str, object]) -> None:
        """Count one `end`."""
        self.model = str(end.get("model") or "") or self.model
        self.provider = str(end.get("provider") or "") or self.provider
        cost = end.get("cost")
        self.cost = None if self.cost is None or not _is_number(cost) else self.cost + _float(cost)
        if self.ttft_ms is None and _is_number(end.get("ttft_ms")):
            self.ttft_ms = _float(end.get("ttft_ms"))
        self.latency_ms += _float(end.get("latency_ms"))
        used = end.get("usage")
        for key in _SUMS:
            value = used.get(key) if isinstance(used, dict) else 0
            self.usage[key] += value if isinstance(value, int) and value > 0 else 0

    def fields(self) -> dict[str, object]:
        """The fields of an `end` record."""
        return {
            "model": self.model, "provider": self.provider, "cost": self.cost,
            "ttft_ms": self.ttft_ms, "latency_ms": round(self.latency_ms, 1),
            "usage": dict(self.usage),
        }  # fmt: skip


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _float(value: object) -> float:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else 0.0
