"""Agents committed by hand without a place in topology.json: an alarm for a day about each."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Final

from hive_core.ledger.core.ledger import Ledger
from hive_core.plan.placement import Placements

TOLD_FOR: Final = 86_400.0
_MOST: Final = 20
_MARK: Final = "placed"


def record_placed_agents(ledger: Ledger, uuids: Iterable[str], now: float) -> None:
    """Record that these agents were placed under the root agent. Call inside a transaction."""
    rows = [*_rows(ledger), *([uuid, now] for uuid in uuids)]
    ledger.marks.put(_MARK, json.dumps(rows[-_MOST:]))


def alarms(ledger: Ledger, places: Placements, root: str, now: float) -> Iterator[tuple[str, str]]:
    """The operator's alarms about agents that were not moved since, each with the agent's name."""
    for uuid, at in _rows(ledger):
        place = places.by_uuid.get(uuid)
        if place is not None and place.parent == root and now - at < TOLD_FOR:
            yield (
                f"{place.name} was committed by hand without a place in topology.json:"
                f" it was placed under {root} (change it with `hive move`)",
                place.name,
            )


def _rows(ledger: Ledger) -> list[tuple[str, float]]:
    return [(str(uuid), float(at)) for uuid, at in json.loads(ledger.marks.get(_MARK) or "[]")]
