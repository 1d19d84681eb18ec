"""An event of hived's log, as spans are made of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Self

KINDS: Final = ("task", "model", "tool", "record")


@dataclass(frozen=True, slots=True)
class LogEvent:
    """What a span needs of one event. `agent` is the name of that time."""

    kind: str
    operation: str
    time: float
    caller: str
    caller_uuid: str
    target: str
    target_uuid: str
    reason: str
    fields: Mapping[str, object] = field(default_factory=dict)

    @classmethod
    def read(cls, row: Mapping[str, object]) -> Self:
        fields, time = row.get("fields"), row.get("time")
        words = {
            name: str(row.get(name) or "")
            for name in (
                "kind", "operation", "caller", "caller_uuid", "target", "target_uuid", "reason",
            )
        }  # fmt: skip
        return cls(
            **words, time=float(time) if isinstance(time, int | float) else 0.0,
            fields=fields if isinstance(fields, dict) else {},
        )  # fmt: skip

    def text(self, name: str) -> str:
        """A field that is text; empty where there is none."""
        value = self.fields.get(name)
        return value if isinstance(value, str) else ""

    def number(self, name: str) -> int:
        """A field that is a whole number; 0 where there is none."""
        value = self.fields.get(name)
        return value if isinstance(value, int) and not isinstance(value, bool) else 0

    def seconds(self, name: str) -> float | None:
        """A field that is a time; None where there is none."""
        value = self.fields.get(name)
        return float(value) if isinstance(value, int | float) else None
