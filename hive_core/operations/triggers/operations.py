"""Triggers: set, removed and listed. They belong to the daemon and outlive every session."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from secrets import token_hex, token_urlsafe
from typing import Annotated, Literal, NamedTuple
from uuid import uuid4

from pydantic import Field

from hive_core.broker.call import Call, Later, Ready, Record, SlowReadSources
from hive_core.broker.operation import Confidential, Mutation, Params, Result, Whose, operation
from hive_core.errors import AlreadyExists, HiveError, InvalidArgument, LimitReached
from hive_core.ledger.triggers.storage import NewTrigger
from hive_core.model.agents.capability import check_grantable
from hive_core.model.wire.record import OPERATOR as THE_OPERATOR
from hive_core.model.work.trigger import Missed, Trigger, TriggerAction, TriggerRule, next_time
from hive_core.operations.fields import Agent
from hive_core.operations.pages import Page, Paged, fitting, written
from hive_core.operations.triggers.views import (
    FireRow,
    Then,
    TriggerRow,
    When,
    party_name,
    rule_of,
    run_row,
    trigger_row,
)
from hive_core.policy.rules import ANCESTOR, OPERATOR, SELF, holds

Id = Annotated[str, Field(max_length=64)]


class SetTriggerParams(Confidential):
    name: str = Field(
        pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$",
        description="Yours of this name, for this agent, is replaced.",
    )
    agent: Agent | None = Field(None, description="For whom; yourself when absent.")
    when: When = Field(description="When.")
    action: Then = Field(description="What then.")
    missed: Literal["skip", "latest", "all"] = Field(
        "latest",
        description="Of times at which nothing could be done: none, one fire for all of them, or"
        " each (up to 100).",
    )
    overlap: Literal["never"] = Field(
        "never", description="The next task waits, or is skipped, until the last one has ended."
    )
    enabled: bool = Field(default=True, description="Whether it is on.")


class SetTriggerResult(Result):
    id: str = Field(description="The trigger.")
    next: float | None = Field(description="When it fires next; null: not by the clock.")
    explained: str = Field(description="The rule in words.")
    path: str = Field(description="Of a webhook, behind the address of the server.")
    secret: str = Field(description="What deliveries are signed with: told once, if made here.")


class TriggerParams(Mutation):
    trigger: Id = Field(description="The id of the trigger.")


class RemovedTrigger(Result):
    name: str = Field(description="What it was called.")


class ListTriggersParams(Paged):
    agent: Agent | None = Field(
        None, description="For whom they fire; yourself when absent, all for the operator."
    )


class TriggerRows(Page):
    triggers: list[TriggerRow] = Field(description="The oldest first.")


class ListFiresParams(Params):
    trigger: Id = Field(description="The id of the trigger.")
    limit: int = Field(20, ge=1, le=100, description="How many at most.")


class FireRows(Result):
    fires: list[FireRow] = Field(description="The newest first; the last 20 are kept.")


def trigger_owner(call: Call, params: TriggerParams | ListFiresParams) -> str | None:
    """Who set it; when that is gone, the agent that it fires for."""
    found = call.ledger.triggers.get(params.trigger)
    if found is None:
        return None
    return party_name(call, found.owner) or party_name(call, found.agent) or THE_OPERATOR


_WHOSE = Whose("trigger", "trigger", trigger_owner)


@operation(
    action="schedule",
    allow=OPERATOR | (SELF | ANCESTOR) & holds("trigger"),
    target="agent",
    preposition="of",
)
def set_trigger(
    call: Call, params: SetTriggerParams
) -> Record[SetTriggerResult] | Later[SetTriggerResult]:
    """Have something happen by itself: by the clock, once, or when a webhook is called.

    It is the daemon's from then on and fires while the agent sleeps or is stopped: a message
    waits, a task is assigned, an agent is made, each with the rights that who set it has then.
    """
    name = params.agent or call.caller
    if name == THE_OPERATOR:
        raise InvalidArgument("say for which agent", field="agent")
    agent = call.hive.spec(name).id
    _check_action(params.action)
    rule = rule_of(params.when, call.now)
    old = call.ledger.triggers.by_name(call.uuid, agent, params.name)
    spent = _room_for_trigger(call, agent, name) if old is None else None
    _check_path(call, agent, rule, old)
    hook = _webhook_key(call, params, old)
    if isinstance(hook, NewWebhookKey):
        return _store_secret(call, hook)
    if spent is not None:
        call.ledger.triggers.remove(spent)
    new = NewTrigger(
        call.uuid, agent, params.name, rule, TriggerAction(params.action.kind),
        params.action.model_dump(exclude_none=True), Missed(params.missed), params.enabled,
        hook.id, hook.key,
    )  # fmt: skip
    due = next_time(rule, call.now) if params.enabled else None
    trigger = call.ledger.triggers.put(new, call.now, due)
    row = trigger_row(call, trigger)
    return Record(
        SetTriggerResult(id=trigger.id, next=trigger.due, explained=row.explained, path=row.path,
                   secret=hook.made),
        frozenset({"trigger", f"trigger:{trigger.id}"}),
        {"trigger": trigger.id, "name": trigger.name, "when": rule.kind.value,
         "action": trigger.act.value},
    )  # fmt: skip


def _check_action(action: Then) -> None:
    if (action.kind == "spawn") != (action.agent is not None):
        raise InvalidArgument(
            "`agent` goes with `spawn`, and `spawn` with it", field="action.agent"
        )
    if action.agent is not None and action.agent.capabilities is not None:
        check_grantable(action.agent.capabilities, field="action.agent.capabilities")
    if action.deadline is not None and action.kind in ("message", "wake"):
        raise InvalidArgument("only a task has a deadline", field="action.deadline")


def _room_for_trigger(call: Call, agent: str, name: str) -> Trigger | None:
    """One-shots that are over make room: the one that has to go, if one has to."""
    triggers, most = call.ledger.triggers, call.settings.triggers.each
    if triggers.count(agent) < most:
        return None
    spent = triggers.spent_one_shot(agent)
    if spent is None:
        raise LimitReached(f"cannot set a trigger of {name}: it has {most}")
    return spent


def _check_path(call: Call, agent: str, rule: TriggerRule, old: Trigger | None) -> None:
    """An address is one trigger's. Who may set one here sees all that are here."""
    taken = call.ledger.triggers.by_path(agent, rule.path)
    if taken is not None and (old is None or taken.number != old.number):
        name = call.hive.name(agent)
        reason = f"cannot set a trigger of {name}: /hook/{name}/{rule.path} is that of {taken.id}"
        raise AlreadyExists(reason)


class WebhookKey(NamedTuple):
    """Address, name of the secret, and the secret if it was made here."""

    id: str = ""
    key: str = ""
    made: str = ""


class NewWebhookKey(NamedTuple):
    """One whose secret is not on the disk yet."""

    hook: WebhookKey
    value: bytes


def _webhook_key(
    call: Call, params: SetTriggerParams, old: Trigger | None
) -> WebhookKey | NewWebhookKey:
    """What is replaced keeps both unless a new secret is given.

    The vault is no part of the transaction, so each secret has a name of its own and the row says
    which one holds.
    """
    webhook, brought = params.when.webhook, call.read_result
    if webhook is None:
        return WebhookKey()
    held = WebhookKey(old.hook, old.secret) if old is not None and old.hook else None
    if isinstance(brought, WebhookKey) and _is_stored(call, brought, held):
        return brought
    if held is not None and webhook.secret is None:
        return held
    id_ = held.id if held is not None else str(uuid4())
    made = "" if webhook.secret is not None else token_urlsafe(32)
    value = webhook.secret.get_secret_value() if webhook.secret is not None else made
    return NewWebhookKey(WebhookKey(id_, token_hex(8), made), value.encode())


def _is_stored(call: Call, brought: WebhookKey, held: WebhookKey | None) -> bool:
    """What is of nobody is cleared away, and so it is until the row is there.

    Another call of this name may have come first: its address was told, so that one stays.
    """
    mine = held is None or held.id == brought.id
    return mine and brought.key in call.vault.keys(brought.id)


def _store_secret(call: Call, fresh: NewWebhookKey) -> Later[SetTriggerResult]:
    """The secret comes to the disk first, beside the loop; then this is asked again."""

    async def keep(_reads: SlowReadSources) -> Ready:
        await call.vault.keep(fresh.hook.id, fresh.hook.key, fresh.value)
        return Ready(value=fresh.hook, over=partial(_drop_unless_set, call, fresh.hook))

    return Later(keep)


def _drop_unless_set(call: Call, hook: WebhookKey) -> None:
    """No secret stays of a call that has set nothing: refused, late, or of a caller who is gone."""
    with suppress(HiveError):  # then the next daemon finds it
        found = call.ledger.triggers.by_hook(hook.id)
        if found is not None and found.secret == hook.key:
            return
        call.vault.retire(hook.id, hook.key)
        if found is None and not call.vault.keys(hook.id):
            call.vault.drop(hook.id)


@operation(action="schedule", allow=OPERATOR | SELF | ANCESTOR, whose=_WHOSE)
def remove_trigger(call: Call, params: TriggerParams) -> Record[RemovedTrigger]:
    """Remove a trigger: who set it, an ancestor of that, or the operator may.

    What it has begun goes on. An agent does not remove what an ancestor set for it.
    """
    trigger = call.ledger.triggers.require(params.trigger)
    call.ledger.triggers.remove(trigger)
    topics = frozenset({"trigger", f"trigger:{trigger.id}"})
    return Record(
        RemovedTrigger(name=trigger.name), topics, {"trigger": trigger.id, "name": trigger.name}
    )


@operation(action="read", allow=SELF | ANCESTOR | OPERATOR, target="agent", preposition="of")
def list_triggers(call: Call, params: ListTriggersParams) -> TriggerRows:
    """List the triggers that fire for an agent, with their next and their last fire."""
    everybody = params.agent is None and call.by_operator
    agent = None if everybody else call.hive.spec(params.agent or call.caller).id
    after = int(params.after) if params.after and params.after.isdecimal() else 0
    found = call.ledger.triggers.page(agent, after, params.most)
    rows = list(fitting(map(lambda each: trigger_row(call, each), found), _row_size))  # noqa: C417 - lazy
    more = len(rows) < len(found) or len(found) == params.most
    return TriggerRows(triggers=rows, next=str(found[len(rows) - 1].number) if more else None)


def _row_size(row: TriggerRow) -> int:
    return written(row.model_dump_json())


@operation(action="read", allow=SELF | ANCESTOR | OPERATOR, whose=_WHOSE)
def list_fires(call: Call, params: ListFiresParams) -> FireRows:
    """List the last fires of a trigger, with what came of each."""
    trigger = call.ledger.triggers.require(params.trigger)
    found = call.ledger.triggers.runs.of(trigger.number, None, params.limit)
    return FireRows(fires=[run_row(call, each) for each in found])
