"""What the ledger has of the rows of `watch_agents`: read for all agents of a page at once.

A page has many agents after a start. One query for all of them takes a fraction of what one for
each agent takes.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from hive_core.broker.call import Call
from hive_core.ledger.budgets.usage import day_of
from hive_core.model.agents.machine import DesiredRun
from hive_core.model.work.task import Task


class RowFacts(NamedTuple):
    """What the ledger has of one agent. `usage`: tokens, and millionths of money, of today."""

    run: DesiredRun | None
    failures: int
    tasks: list[Task]
    usage: tuple[int, int]
    context: int
    inbox: int


def read_row_facts(call: Call, uuids: Collection[str]) -> dict[str, RowFacts]:
    """The facts of these agents."""
    ledger = call.ledger
    runs, starts = ledger.runs.get_many(uuids), ledger.starts.get_many(uuids)
    tasks = ledger.tasks.offered_tasks_of(uuids)
    usage = ledger.budgets.usage.day_totals(day_of(call.now), uuids)
    contexts = ledger.budgets.bounds.contexts_of(uuids)
    with_mail = ledger.messages.parties_among(uuids)
    return {
        uuid: RowFacts(
            runs.get(uuid), len(starts[uuid].failures) if uuid in starts else 0,
            tasks.get(uuid, []), usage.get(uuid, (0, 0)), contexts.get(uuid, 0),
            ledger.messages.size(uuid)[0] if uuid in with_mail else 0,
        )
        for uuid in uuids
    }  # fmt: skip
