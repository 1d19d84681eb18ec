"""Effects on triggers when their tasks end, and when agents end, are destroyed or are restored."""

from __future__ import annotations

from pydantic import Field

from hive_core.broker.call import Call, Record
from hive_core.broker.hooks import AgentDestroyed, AgentEnded, AgentStarted, TaskEnded, on
from hive_core.broker.operation import Result
from hive_core.broker.timers import due
from hive_core.model.work.task import WELL
from hive_core.model.work.trigger import TriggerFire, next_time
from hive_core.operations.triggers.fires import log_trigger_fire

DELIVERIES_KEPT = 7 * 86_400.0


class TriggerCleanup(Result):
    removed: int = Field(description="Number of removed rows.")


def pause_triggers(call: Call, uuids: frozenset[str]) -> list[str]:
    """Disable the triggers that these agents set, or that fire for them; the ids of the triggers.

    A trigger that another agent set for the caller stays enabled: an agent cannot disable it.
    """
    triggers, below = call.ledger.triggers, uuids - {call.uuid}
    to_pause = {
        trigger.id: trigger
        for trigger in triggers.of_parties(uuids)
        if trigger.enabled and (trigger.owner in uuids or trigger.agent in below)
    }
    for trigger in to_pause.values():
        triggers.set_enabled(trigger.number, enabled=False, due=None)
    call.notify("trigger", *(f"trigger:{id_}" for id_ in to_pause))
    return list(to_pause)


@on(TaskEnded)
def finish_task_fires(call: Call, event: TaskEnded) -> None:
    """Finish the fires whose task has ended, so that the next fire may start."""
    for fire in call.ledger.triggers.fires.of_task(event.id):
        task = call.ledger.tasks.get(event.id)
        result = task.result if task is not None else None
        output = "" if result is None else result.summary or result.error
        code = 0 if event.status in WELL else 1
        _finish_fire(call, fire, output=output, status=event.status, code=code)
        call.notify("trigger", f"trigger:{fire.id}")


def _finish_fire(call: Call, fire: TriggerFire, *, output: str, status: str, code: int) -> None:
    """Save the outcome of a fire, and check the trigger that waited for it again."""
    triggers = call.ledger.triggers
    exit_code = fire.code if fire.code is not None else None if not fire.spawned else code
    ended = triggers.fires.end(
        fire, "finish", call.now, output=output, status=status, code=exit_code
    )
    trigger = triggers.by_number(fire.trigger)
    if trigger is None:
        return
    log_trigger_fire(call, trigger, ended)
    if trigger.enabled and not trigger.parked and trigger.due is None:
        triggers.put_off(trigger.number, next_time(trigger.rule, trigger.since))


@on(AgentEnded)
def record_exit_code(call: Call, event: AgentEnded) -> None:
    """Save the exit status of an agent that a fire has created."""
    if (fire := call.ledger.triggers.fires.by_spawned_agent(event.uuid)) is not None:
        call.ledger.triggers.fires.set_exit_code(fire, event.code)


@on(AgentDestroyed)
def park_triggers(call: Call, event: AgentDestroyed) -> None:
    """Park the triggers of a destroyed agent for as long as its archive is kept."""
    call.ledger.triggers.park(event.uuid, call.now + call.settings.retention.archive)
    call.notify("trigger")


@on(AgentStarted)
def unpark_triggers(call: Call, event: AgentStarted) -> None:
    """Bring back the triggers of a restored agent; each handles its missed times by its rule."""
    triggers = call.ledger.triggers
    for trigger in triggers.list_parked_triggers(event.uuid):
        due_at = next_time(trigger.rule, trigger.since) if trigger.enabled else None
        triggers.unpark(trigger.number, due_at)
        call.notify("trigger")


@due(
    at=lambda ledger: _expiry(ledger.triggers.fires.oldest_delivery()),
    topics=frozenset({"trigger"}),
)
def forget_deliveries(call: Call) -> Record[TriggerCleanup]:
    """Delete the keys of deliveries that are older than seven days."""
    removed = call.ledger.triggers.fires.prune_deliveries(call.now - DELIVERIES_KEPT)
    return Record(TriggerCleanup(removed=removed))


def _expiry(oldest: float | None) -> float | None:
    return None if oldest is None else oldest + DELIVERIES_KEPT


@due(at=lambda ledger: 0.0 if ledger.triggers.old_hooks() else None, topics=frozenset({"trigger"}))
def forget_secrets(call: Call) -> Record[TriggerCleanup]:
    """Delete secrets of webhooks, after the COMMIT that removed their last use."""
    hooks = call.ledger.triggers.old_hooks()
    for hook, secret, unused in hooks:
        call.vault.retire(hook, secret)
        if unused:
            call.vault.drop(hook)
        call.ledger.triggers.forget_hook(hook, secret)
    return Record(TriggerCleanup(removed=len(hooks)))
