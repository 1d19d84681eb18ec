"""Who works on a batch: which of its workers can be given something now, and which are lost."""

from __future__ import annotations

from typing import Final

from hive_core.broker.call import Call
from hive_core.broker.operation import REGISTRY
from hive_core.model.agents.machine import DesiredState, State
from hive_core.model.work.planning import Batch, ItemState
from hive_core.operations.waits.operations import called_or_none
from hive_core.policy.decide import decide

DOWN: Final = frozenset({State.FAILED, State.PARKED})


def moved_away(call: Call, batch: Batch, uuid: str) -> bool:
    """Whether a worker hangs where the owner of its batch may give it nothing any more."""
    owner, name = called_or_none(call, batch.owner), call.hive.name(uuid)
    if owner is None or name is None:
        return False
    return not decide(REGISTRY["assign_task"].allow, call.hive, owner, name).allowed


def _takes_of(call: Call, batch: Batch, uuid: str) -> bool:
    return call.hive.name(uuid) is not None and not moved_away(call, batch, uuid)


def free(call: Call, batch: Batch) -> list[str]:
    batches = call.ledger.plans.batches
    busy = {each.worker for each in batches.items(batch.id, ItemState.GIVEN)}
    workers = (uuid for uuid, _ in batches.workers(batch.id))
    return [uuid for uuid in workers if uuid not in busy and _takes_of(call, batch, uuid)]


def room(call: Call, batch: Batch) -> int:
    """How many more can be given out now."""
    batches = call.ledger.plans.batches
    given = len(batches.items(batch.id, ItemState.GIVEN))
    return min(batch.concurrency - given, batches.count_open_items(batch.id) - given)


def lost(call: Call, batch: Batch, uuid: str, *, own: bool) -> bool:
    """Gone, or moved away, or made for one batch and not running any more."""
    if not _takes_of(call, batch, uuid):
        return True
    run = call.ledger.runs.get(uuid)
    down = run is None or run.wanted is not DesiredState.RUNNING or call.states.state(uuid) in DOWN
    return own and down
