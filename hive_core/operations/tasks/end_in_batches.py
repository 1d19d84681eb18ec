"""Many tasks that end together: some of them in each turn, so that others get theirs between.

What is left stands in the ledger. None of it is begun meanwhile, and a daemon that starts again
goes on with it.
"""

from __future__ import annotations

from collections.abc import Sequence

from hive_core.broker.call import Call, Record
from hive_core.broker.operation import Result
from hive_core.broker.timers import due
from hive_core.ledger.tasks.end_in_batches import Sweep
from hive_core.model.work.task import ResultStatus
from hive_core.operations.tasks.transitions import AT_ONCE, stop_all


def swept(call: Call, sweep: Sweep, tasks: Sequence[str]) -> frozenset[str]:
    """End the work on these, by id: the first of them now, the others in turns of their own."""
    topics = frozenset[str]()
    if later := tasks[AT_ONCE:]:
        topics |= {f"sweep:{call.ledger.plans.sweeps.add(sweep, later)}"}
    return topics | _ended(call, sweep, tasks[:AT_ONCE])


@due(at=lambda ledger: 0.0 if ledger.plans.sweeps.any else None, topics=frozenset({"sweep"}))
def sweeps_go_on(call: Call) -> Record[Result]:
    """The next ones of what is to be ended."""
    sweeps = call.ledger.plans.sweeps
    if (found := sweeps.first()) is None:
        return Record(Result(), audited=True)
    id_, sweep = found
    topics = _ended(call, sweep, sweeps.take(id_, AT_ONCE))
    return Record(Result(), topics | {f"sweep:{id_}"}, audited=True)


def _ended(call: Call, sweep: Sweep, tasks: Sequence[str]) -> frozenset[str]:
    theirs = call._replace(caller=sweep.name, uuid=sweep.party)
    # One that ended long ago, while no daemon ran, may be forgotten.
    whys = {each.id: sweep.why for each in call.ledger.tasks.get_many(tasks) if each.open}
    return stop_all(theirs, whys, ResultStatus(sweep.status), sweep.grace)
