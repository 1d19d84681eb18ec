"""What a webhook brings: one fire, once for each signed request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pydantic import Field

from hive_core.broker.call import Call, Change, Record
from hive_core.broker.operation import Result
from hive_core.errors import LimitReached, NotAllowed, NotFound
from hive_core.model.work.trigger import Trigger, TriggerAction, TriggerRun
from hive_core.operations.triggers.actions import TriggerNotice, owner_refusal
from hive_core.operations.triggers.runs import TriggerPass, run_spawn

BUSY: Final = 60.0


@dataclass(frozen=True, slots=True)
class Delivery:
    """What came, as text. `mark` tells a repeat; `key` is what the sender said, or empty.

    `query`: of the address, where it is signed.
    """

    trigger: str
    mark: str
    key: str
    type: str
    encoding: str
    text: str
    query: str = ""


class DeliveryResult(Result):
    fire: str = Field(description="The fire; the same for the same request.")
    new: bool = Field(description="Whether it fired now.")


def deliver_webhook(
    call: Call, delivery: Delivery
) -> Record[DeliveryResult] | Change[DeliveryResult]:
    """One fire. LimitReached when the agent has had enough, or the last task is still open."""
    triggers = call.ledger.triggers
    trigger = triggers.get(delivery.trigger)
    name = call.hive.name(trigger.agent) if trigger is not None else None
    if trigger is None or name is None:
        raise NotFound(f"no trigger {delivery.trigger}")
    if known := triggers.runs.delivery_run(trigger.hook, delivery.mark):
        return Record(DeliveryResult(fire=known, new=False), audited=True)
    done = TriggerPass(call, trigger.agent, name)
    room, more = done.room()
    if room < 1 or (trigger.single and trigger.open is not None):
        after = more - call.now if room < 1 else BUSY
        raise LimitReached(f"cannot fire {trigger.name} now", retry_after=after)
    if why := owner_refusal(call, trigger):
        raise NotAllowed(f"cannot fire {trigger.name}: {why}")
    fire = triggers.runs.start(trigger, call.now, call.now, 1)
    triggers.runs.save_delivery(trigger.hook, delivery.mark, fire.id, call.now)
    return _run_delivery(done, trigger, fire, delivery)


def _run_delivery(
    done: TriggerPass, trigger: Trigger, fire: TriggerRun, delivery: Delivery
) -> Record[DeliveryResult] | Change[DeliveryResult]:
    about: dict[str, object] = {
        "key": delivery.key, "type": delivery.type, "encoding": delivery.encoding,
        "bytes": len(delivery.text.encode()),
        **({"query": delivery.query} if delivery.query else {}),
    }  # fmt: skip
    result = DeliveryResult(fire=fire.id, new=True)
    whole: dict[str, object] = {"delivery": {**about, "body": delivery.text}}
    if trigger.act is TriggerAction.SPAWN:
        made = run_spawn(done, trigger, fire, whole)
        _check_run(done, trigger, fire)
        wakes = made.wakes | {"trigger"}
        if isinstance(made, Change):
            return Change(result, made.hive, made.message, wakes, made.fields)
        return Record(result, wakes, audited=True)
    if trigger.act is TriggerAction.TASK:
        done.run_task(trigger, fire, whole)
    else:
        done.notices.append(TriggerNotice(trigger, fire, about, delivery.text))
        done.deliver_notices()
    _check_run(done, trigger, fire)
    return Record(result, frozenset(done.topics | {"trigger"}), audited=True)


def _check_run(done: TriggerPass, trigger: Trigger, fire: TriggerRun) -> None:
    """What could not be done leaves nothing behind, and its sender is told to come again."""
    (found,) = done.call.ledger.triggers.runs.of(trigger.number, fire.number + 1, 1)
    if found.state == "refused":
        raise LimitReached(f"cannot fire {trigger.name}: {found.detail}", retry_after=BUSY)
