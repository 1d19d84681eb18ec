"""Requests to webhooks: one fire for each signed request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pydantic import Field

from hive_core.broker.call import Call, Change, Record
from hive_core.broker.operation import Result
from hive_core.errors import LimitReached, NotAllowed, NotFound
from hive_core.model.work.trigger import Trigger, TriggerAction, TriggerFire
from hive_core.operations.triggers.actions import TriggerNotice, owner_refusal
from hive_core.operations.triggers.fires import TriggerPass, spawn_agent

BUSY: Final = 60.0


@dataclass(frozen=True, slots=True)
class Delivery:
    """A request to a webhook, as text.

    `mark` identifies repeats; `key`: the sender's key, or empty.

    `query`: the query of the address, if it is signed.
    """

    trigger: str
    mark: str
    key: str
    type: str
    encoding: str
    text: str
    query: str = ""


class DeliveryResult(Result):
    fire: str = Field(description="The fire; the same one for the same request.")
    new: bool = Field(description="Whether this call has started the fire.")


def deliver_webhook(
    call: Call, delivery: Delivery
) -> Record[DeliveryResult] | Change[DeliveryResult]:
    """Fire a trigger once for a request.

    LimitReached when the agent has used its fires of this minute, or the last task is still open.
    """
    triggers = call.ledger.triggers
    trigger = triggers.get(delivery.trigger)
    name = call.hive.name(trigger.agent) if trigger is not None else None
    if trigger is None or name is None:
        raise NotFound(f"no trigger {delivery.trigger}")
    if earlier := triggers.fires.delivery_fire(trigger.hook, delivery.mark):
        return Record(DeliveryResult(fire=earlier, new=False), audited=True)
    pass_ = TriggerPass(call, trigger.agent, name)
    room, more = pass_.room()
    if room < 1 or (trigger.single and trigger.open is not None):
        after = more - call.now if room < 1 else BUSY
        raise LimitReached(f"cannot fire {trigger.name} now", retry_after=after)
    if why := owner_refusal(call, trigger):
        raise NotAllowed(f"cannot fire {trigger.name}: {why}")
    fire = triggers.fires.start(trigger, call.now, call.now, 1)
    triggers.fires.save_delivery(trigger.hook, delivery.mark, fire.id, call.now)
    call.notify("trigger")
    return _fire_for_delivery(pass_, trigger, fire, delivery)


def _fire_for_delivery(
    pass_: TriggerPass, trigger: Trigger, fire: TriggerFire, delivery: Delivery
) -> Record[DeliveryResult] | Change[DeliveryResult]:
    about: dict[str, object] = {
        "key": delivery.key, "type": delivery.type, "encoding": delivery.encoding,
        "bytes": len(delivery.text.encode()),
        **({"query": delivery.query} if delivery.query else {}),
    }  # fmt: skip
    result = DeliveryResult(fire=fire.id, new=True)
    data: dict[str, object] = {"delivery": {**about, "body": delivery.text}}
    if trigger.act is TriggerAction.SPAWN:
        outcome = spawn_agent(pass_, trigger, fire, data)
        _check_fire(pass_, trigger, fire)
        if isinstance(outcome, Change):
            fields, target = outcome.fields, outcome.target
            return Change(result, outcome.hive, outcome.message, fields=fields, target=target)
        return Record(result, audited=True)
    if trigger.act is TriggerAction.TASK:
        pass_.assign_task(trigger, fire, data)
    else:
        pass_.notices.append(TriggerNotice(trigger, fire, about, delivery.text))
        pass_.deliver_notices()
    _check_fire(pass_, trigger, fire)
    return Record(result, audited=True)


def _check_fire(pass_: TriggerPass, trigger: Trigger, fire: TriggerFire) -> None:
    """Raise LimitReached for a refused fire: it is not stored, and the sender tries again."""
    (saved,) = pass_.call.ledger.triggers.fires.of(trigger.number, fire.number + 1, 1)
    if saved.state == "refused":
        raise LimitReached(f"cannot fire {trigger.name}: {saved.detail}", retry_after=BUSY)
