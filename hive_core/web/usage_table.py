"""Sums of `get_usage` as a table: one row for each key. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from hive_core.varlink import Message

_REPORTED: Final = frozenset({"tokens", "tokens_in", "tokens_out", "money"})


@dataclass(slots=True)
class UsageRow:
    """`sources` are those of tokens and money; all else is measured."""

    key: str
    amounts: dict[str, int] = field(default_factory=dict)
    sources: set[str] = field(default_factory=set)

    @property
    def weight(self) -> tuple[int, int, int]:
        """What orders the rows: money, then tokens, then time."""
        tokens = self.amounts.get("tokens_in", 0) + self.amounts.get("tokens_out", 0)
        return self.amounts.get("money", 0), tokens, self.amounts.get("time", 0)


def tabulate_usage(reply: Message, *, by_key: bool = False) -> Sequence[UsageRow]:
    """The rows, what took most first; with `by_key` the greatest key first."""
    rows: dict[str, UsageRow] = {}
    sums = reply.get("sums")
    for entry in sums if isinstance(sums, list) else []:
        row = rows.setdefault(str(entry["key"]), UsageRow(str(entry["key"])))
        kind = str(entry["kind"])
        row.amounts[kind] = row.amounts.get(kind, 0) + int(entry["amount"])
        if kind in _REPORTED:
            row.sources.add(str(entry["source"]))
    if by_key:
        return sorted(rows.values(), key=lambda row: row.key, reverse=True)
    return sorted(rows.values(), key=lambda row: (*(-part for part in row.weight), row.key))
