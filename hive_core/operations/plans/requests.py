"""The letters that ask for a decision on a plan: as long as nobody has read one, it can go."""

from __future__ import annotations

from hive_core.broker.call import Call
from hive_core.model.work.planning import PlanState
from hive_core.operations.notices import inbox


def take_back_prompt(call: Call, plan: str) -> frozenset[str]:
    """The plan is decided, or counts no more: whoever has not read of it need not."""
    party, letter = call.ledger.plans.prompt(plan)
    if not letter or not call.ledger.messages.untaken(party, letter):
        return frozenset()
    call.ledger.messages.ack(party, [letter])
    return frozenset({inbox(party)})


def take_back(call: Call, task: str) -> frozenset[str]:
    """The task is another's to decide on."""
    plan = call.ledger.plans.newest(task)
    if not plan or call.ledger.plans.require(plan).state is not PlanState.SUBMITTED:
        return frozenset()
    return take_back_prompt(call, plan)
