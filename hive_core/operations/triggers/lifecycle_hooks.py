"""What follows for triggers: from the end of what they began, and from the ends of agents."""

from __future__ import annotations

from pydantic import Field

from hive_core.broker.call import Call, Record
from hive_core.broker.hooks import AgentDestroyed, AgentEnded, AgentStarted, TaskEnded, when
from hive_core.broker.operation import Result
from hive_core.broker.timers import due
from hive_core.model.work.task import WELL
from hive_core.model.work.trigger import TriggerRun, next_time
from hive_core.operations.triggers.runs import log_trigger_run

KEPT = 7 * 86_400.0


class TriggerCleanup(Result):
    removed: int = Field(description="How many.")


def pause_triggers(call: Call, uuids: frozenset[str], why: str) -> tuple[list[str], frozenset[str]]:
    """Switch off all that these agents set, or that fires for them: ids, and topics to touch.

    What somebody else set for the caller itself stays: nobody gets rid of that alone.
    """
    triggers, paused, below = call.ledger.triggers, [], uuids - {call.uuid}
    found = {
        each.id: each
        for each in triggers.of_parties(uuids)
        if each.enabled and (each.owner in uuids or each.agent in below)
    }
    for each in found.values():
        triggers.set_enabled(each.number, enabled=False, due=None)
        paused.append(each.id)
    del why  # stands in the record of the call
    return paused, frozenset({"trigger", *(f"trigger:{each}" for each in paused)})


@when(TaskEnded)
def finish_task_runs(call: Call, what: TaskEnded) -> frozenset[str]:
    """The work of a fire has ended, and the next one may come."""
    topics = frozenset[str]()
    for fire in call.ledger.triggers.runs.of_task(what.id):
        task = call.ledger.tasks.get(what.id)
        result = task.result if task is not None else None
        output = "" if result is None else result.summary or result.error
        well = what.status in {each.value for each in WELL}
        _finish_run(call, fire, output=output, status=what.status, code=0 if well else 1)
        topics |= {"trigger:" + fire.id}
    return topics | ({"trigger"} if topics else frozenset())


def _finish_run(call: Call, fire: TriggerRun, *, output: str, status: str, code: int) -> None:
    """Keep how it came out; what waited for this is looked at anew."""
    triggers = call.ledger.triggers
    kept = fire.code if fire.code is not None else None if not fire.spawned else code
    found = triggers.runs.end(fire, "finish", call.now, output=output, status=status, code=kept)
    trigger = triggers.by_number(fire.trigger)
    if trigger is None:
        return
    log_trigger_run(call, trigger, found)
    if trigger.enabled and not trigger.parked and trigger.due is None:
        triggers.put_off(trigger.number, next_time(trigger.rule, trigger.since))


@when(AgentEnded)
def record_exit_code(call: Call, what: AgentEnded) -> frozenset[str]:
    """The exit status of an agent that a fire has made."""
    if (fire := call.ledger.triggers.runs.by_spawned(what.uuid)) is not None:
        call.ledger.triggers.runs.set_exit_code(fire, what.code)
    return frozenset()


@when(AgentDestroyed)
def park_triggers(call: Call, what: AgentDestroyed) -> frozenset[str]:
    """Its triggers wait with the archive, and go with it."""
    call.ledger.triggers.park(what.uuid, call.now + call.settings.retention.archive)
    return frozenset({"trigger"})


@when(AgentStarted)
def unpark_triggers(call: Call, what: AgentStarted) -> frozenset[str]:
    """It was restored: what it missed is a matter of each trigger."""
    triggers = call.ledger.triggers
    found = triggers.list_parked(what.uuid)
    for each in found:
        following_ = next_time(each.rule, each.since) if each.enabled else None
        triggers.unpark(each.number, following_)
    return frozenset({"trigger"} if found else ())


@due(
    at=lambda ledger: _expiry(ledger.triggers.runs.oldest_delivery()), topics=frozenset({"trigger"})
)
def forget_deliveries(call: Call) -> Record[TriggerCleanup]:
    """A key of a delivery is known for seven days."""
    removed = call.ledger.triggers.runs.prune_deliveries(call.now - KEPT)
    return Record(TriggerCleanup(removed=removed))


def _expiry(oldest: float | None) -> float | None:
    return None if oldest is None else oldest + KEPT


@due(at=lambda ledger: 0.0 if ledger.triggers.old_hooks() else None, topics=frozenset({"trigger"}))
def forget_secrets(call: Call) -> Record[TriggerCleanup]:
    """What webhooks were signed with goes after the COMMIT that took it out of use."""
    found = call.ledger.triggers.old_hooks()
    for hook, secret, gone in found:
        call.vault.retire(hook, secret)
        if gone:
            call.vault.drop(hook)
        call.ledger.triggers.forget_hook(hook, secret)
    return Record(TriggerCleanup(removed=len(found)))
