"""Removing zombies: ended one-shot agents whose parents did not call `wait_child` (row K8).

The daemon removes them as `destroy` does: they are archived for a day, and their children are
adopted. It keeps their ends for the parent. Until then they do not count towards its `max_children`
(row K4).
"""

from __future__ import annotations

from hive_core.broker.call import Call, Change, EventTarget, Record
from hive_core.broker.operation import Result
from hive_core.broker.timers import due
from hive_core.model.agents.exits import ExitRecord
from hive_core.model.agents.machine import DesiredState
from hive_core.operations.agents.archive import destroy_agents


class ReapedAgent(Result):
    """The agent that was removed; empty: none."""

    name: str


@due(at=lambda ledger: ledger.lives.next_reap(), topics=frozenset({"life"}))
def reap(call: Call) -> Change[ReapedAgent] | Record[ReapedAgent]:
    """Destroy one zombie whose time is over, unless it was started again in the meantime."""
    end = call.ledger.lives.first_to_reap(call.now)
    if end is None:
        return Record(ReapedAgent(name=""), audited=True)
    name = call.hive.name(end.agent)
    if name is None or is_wanted_again(call, end):
        call.ledger.lives.cancel_reap(end)
        return Record(ReapedAgent(name=""), audited=True)
    change = destroy_agents(call, name, why=f"reap {name}: {end.reason}")
    fields = {**change.fields, "agent": name, "reason": end.reason}
    target = EventTarget(end.agent, name)
    return Change(ReapedAgent(name=name), change.hive, change.message, fields, target=target)


def is_wanted_again(call: Call, end: ExitRecord) -> bool:
    run = call.ledger.runs.get(end.agent)
    return run is not None and run.wanted is DesiredState.RUNNING and run.nonce > end.nonce
