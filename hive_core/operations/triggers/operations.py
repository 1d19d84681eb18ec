"""Triggers: set, removed and listed. They belong to the daemon and outlive every session."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from secrets import token_hex, token_urlsafe
from typing import Annotated, Literal, NamedTuple
from uuid import uuid4

from pydantic import Field

from hive_core.broker.call import Call, Later, Ready, Record, SlowReadSources
from hive_core.broker.login_rule import Level, LoginRule
from hive_core.broker.operation import (
    Confidential,
    Mutation,
    Params,
    Result,
    Whose,
    operation,
)
from hive_core.errors import AlreadyExists, HiveError, InvalidArgument, LimitReached
from hive_core.ledger.triggers.storage import NewTrigger
from hive_core.model.agents.agent import Role
from hive_core.model.agents.capability import check_grantable
from hive_core.model.agents.roles import default_capabilities
from hive_core.model.wire.record import OPERATOR as THE_OPERATOR
from hive_core.model.work.trigger import Missed, Trigger, TriggerAction, TriggerRule, next_time
from hive_core.operations.fields import Agent
from hive_core.operations.pages import Page, Paged, reply_bytes, take_fitting
from hive_core.operations.triggers.views import (
    FireRow,
    Then,
    TriggerRow,
    When,
    fire_row,
    party_name,
    rule_of,
    trigger_row,
)
from hive_core.policy.rules import ANCESTOR, OPERATOR, SELF, holds

Id = Annotated[str, Field(max_length=64)]


class SetTriggerParams(Confidential):
    name: str = Field(
        pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$",
        description="The name. It replaces a trigger of the caller with this name and agent.",
    )
    agent: Agent | None = Field(None, description="The agent it fires for; absent: the caller.")
    when: When = Field(description="When it fires.")
    action: Then = Field(description="What it does.")
    missed: Literal["skip", "latest", "all"] = Field(
        "latest",
        description="What to do about times that were missed: skip them, fire once for all of them,"
        " or fire for each (up to 100).",
    )
    overlap: Literal["never"] = Field(
        "never",
        description="What happens to a new task while the last one is open: it waits, or is"
        " skipped.",
    )
    enabled: bool = Field(default=True, description="Whether the trigger is on.")


class SetTriggerResult(Result):
    id: str = Field(description="The id of the trigger.")
    next: float | None = Field(
        description="When it fires next, in seconds since 1970; null: not at a known time."
    )
    explained: str = Field(description="The rule in words.")
    path: str = Field(description="For a webhook: its path, appended to the address of the server.")
    secret: str = Field(
        description="The secret that deliveries are signed with; shown once, if it was made here."
    )


class TriggerParams(Mutation):
    trigger: Id = Field(description="The id of the trigger.")


class RemovedTrigger(Result):
    name: str = Field(description="The name of the trigger.")


class ListTriggersParams(Paged):
    agent: Agent | None = Field(
        None,
        description="The agent that they fire for; absent: the caller, or all agents for the"
        " operator.",
    )


class TriggerRows(Page):
    triggers: list[TriggerRow] = Field(description="The triggers, the oldest first.")


class ListFiresParams(Params):
    trigger: Id = Field(description="The id of the trigger.")
    limit: int = Field(20, ge=1, le=100, description="Maximum number of fires.")


class FireRows(Result):
    fires: list[FireRow] = Field(description="The fires, the newest first; the last 20 are kept.")


def trigger_owner(call: Call, params: TriggerParams | ListFiresParams) -> str | None:
    """The owner of a trigger; after the owner is destroyed, the agent that it fires for."""
    trigger = call.ledger.triggers.get(params.trigger)
    if trigger is None:
        return None
    return party_name(call, trigger.owner) or party_name(call, trigger.agent) or THE_OPERATOR


_WHOSE = Whose("trigger", "trigger", trigger_owner)


def _confirmation(_: Call, params: SetTriggerParams) -> Level | None:
    """An agent with more than its role has: the rights of the operator, at each fire."""
    agent = params.action.agent
    if agent is None:
        return None
    usual = default_capabilities(Role(agent.role))
    has_more = not set(usual).issuperset(agent.capabilities or ())
    return "each" if has_more or "/" in (agent.image or "") else None


@operation(
    action="schedule",
    allow=OPERATOR | (SELF | ANCESTOR) & holds("trigger"),
    target="agent",
    preposition="of",
    destructive=True,
    idempotent=True,
    login=LoginRule(confirm=_confirmation),
)
def set_trigger(
    call: Call, params: SetTriggerParams
) -> Record[SetTriggerResult] | Later[SetTriggerResult]:
    """Create or replace a trigger, which fires at set times, once, or when a webhook is called.

    The daemon stores it, and it fires also while the agent sleeps or is stopped. A fire leaves a
    message, assigns a task or creates an agent, with the rights that the owner has at that time.
    """
    name = params.agent or call.caller
    if name == THE_OPERATOR:
        raise InvalidArgument("name the agent that the trigger is for", field="agent")
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
    return _trigger_record(call, call.ledger.triggers.put(new, call.now, due), hook.made)


def _trigger_record(call: Call, trigger: Trigger, secret: str) -> Record[SetTriggerResult]:
    """The result and the event of a trigger that was set; `secret`: that of a new webhook."""
    row = trigger_row(call, trigger)
    call.notify("trigger", f"trigger:{trigger.id}")
    return Record(
        SetTriggerResult(
            id=trigger.id, next=trigger.due, explained=row.explained, path=row.path, secret=secret
        ),
        fields={
            "trigger": trigger.id, "name": trigger.name, "when": trigger.rule.kind.value,
            "action": trigger.act.value,
        },
    )  # fmt: skip


def _check_action(action: Then) -> None:
    if (action.kind == "spawn") != (action.agent is not None):
        raise InvalidArgument(
            "`agent` requires kind `spawn`, and `spawn` requires `agent`", field="action.agent"
        )
    if action.agent is not None and action.agent.capabilities is not None:
        check_grantable(action.agent.capabilities, field="action.agent.capabilities")
    if action.deadline is not None and action.kind in ("message", "wake"):
        raise InvalidArgument("only a task has a deadline", field="action.deadline")


def _room_for_trigger(call: Call, agent: str, name: str) -> Trigger | None:
    """The past one-shot trigger to remove when the limit is reached; None below the limit."""
    triggers, most = call.ledger.triggers, call.settings.triggers.each
    if triggers.count(agent) < most:
        return None
    spent = triggers.spent_one_shot(agent)
    if spent is None:
        raise LimitReached(f"cannot set a trigger of {name}: it has {most}")
    return spent


def _check_path(call: Call, agent: str, rule: TriggerRule, old: Trigger | None) -> None:
    """Refuse the path of another trigger.

    A caller that may set triggers here may see all of them.
    """
    taken = call.ledger.triggers.by_path(agent, rule.path)
    if taken is not None and (old is None or taken.number != old.number):
        name = call.hive.name(agent)
        reason = f"cannot set a trigger of {name}: /hook/{name}/{rule.path} is that of {taken.id}"
        raise AlreadyExists(reason)


class WebhookKey(NamedTuple):
    """The id in the address, the name of the secret, and the secret if it was made here."""

    id: str = ""
    key: str = ""
    made: str = ""


class NewWebhookKey(NamedTuple):
    """A webhook whose secret is not on disk yet."""

    hook: WebhookKey
    value: bytes


def _webhook_key(
    call: Call, params: SetTriggerParams, old: Trigger | None
) -> WebhookKey | NewWebhookKey:
    """The key of the webhook; a replaced trigger keeps its key unless a new secret is given.

    The vault is not part of the transaction. So each secret has its own name, and the row names the
    valid one.
    """
    webhook, stored = params.when.webhook, call.read_result
    if webhook is None:
        return WebhookKey()
    held = WebhookKey(old.hook, old.secret) if old is not None and old.hook else None
    if isinstance(stored, WebhookKey) and _is_stored(call, stored, held):
        return stored
    if held is not None and webhook.secret is None:
        return held
    id_ = held.id if held is not None else str(uuid4())
    made = "" if webhook.secret is not None else token_urlsafe(32)
    value = webhook.secret.get_secret_value() if webhook.secret is not None else made
    return NewWebhookKey(WebhookKey(id_, token_hex(8), made), value.encode())


def _is_stored(call: Call, stored: WebhookKey, held: WebhookKey | None) -> bool:
    """Whether the secret that was stored is still there and belongs to this trigger.

    A secret without a row may be removed as an orphan. Another call may have set a trigger of this
    name first: that trigger stays, since its address was returned already.
    """
    mine = held is None or held.id == stored.id
    return mine and stored.key in call.vault.keys(stored.id)


def _store_secret(call: Call, new: NewWebhookKey) -> Later[SetTriggerResult]:
    """Write the secret to disk outside the event loop; then run the call again."""

    async def keep(_sources: SlowReadSources) -> Ready:
        await call.vault.keep(new.hook.id, new.hook.key, new.value)
        return Ready(value=new.hook, over=partial(_drop_unless_set, call, new.hook))

    return Later(keep)


def _drop_unless_set(call: Call, hook: WebhookKey) -> None:
    """Remove the secret of a call that did not set a trigger, because it failed or was too late."""
    with suppress(HiveError):  # the daemon finds it at its next start
        trigger = call.ledger.triggers.by_hook(hook.id)
        if trigger is not None and trigger.secret == hook.key:
            return
        call.vault.retire(hook.id, hook.key)
        if trigger is None and not call.vault.keys(hook.id):
            call.vault.drop(hook.id)


@operation(
    action="schedule",
    allow=OPERATOR | SELF | ANCESTOR,
    whose=_WHOSE,
    destructive=True,
    idempotent=True,
)
def remove_trigger(call: Call, params: TriggerParams) -> Record[RemovedTrigger]:
    """Remove a trigger. Its owner, an ancestor of the owner, and the operator may do so.

    Work that it has started continues. An agent cannot remove a trigger that an ancestor set for
    it.
    """
    trigger = call.ledger.triggers.require(params.trigger)
    call.ledger.triggers.remove(trigger)
    call.notify("trigger", f"trigger:{trigger.id}")
    fields = {"trigger": trigger.id, "name": trigger.name}
    return Record(RemovedTrigger(name=trigger.name), fields=fields)


@operation(action="read", allow=SELF | ANCESTOR | OPERATOR, target="agent", preposition="of")
def list_triggers(call: Call, params: ListTriggersParams) -> TriggerRows:
    """List the triggers that fire for an agent, with their next and their last fire."""
    all_agents = params.agent is None and call.by_operator
    agent = None if all_agents else call.hive.spec(params.agent or call.caller).id
    after = int(params.after) if params.after and params.after.isdecimal() else 0
    page = call.ledger.triggers.page(agent, after, params.most)
    rows = list(take_fitting((trigger_row(call, trigger) for trigger in page), _row_size))
    more = len(rows) < len(page) or len(page) == params.most
    return TriggerRows(triggers=rows, next=str(page[len(rows) - 1].number) if more else None)


def _row_size(row: TriggerRow) -> int:
    return reply_bytes(row.model_dump_json())


@operation(action="read", allow=SELF | ANCESTOR | OPERATOR, whose=_WHOSE)
def list_fires(call: Call, params: ListFiresParams) -> FireRows:
    """List the last fires of a trigger, with their outcomes."""
    trigger = call.ledger.triggers.require(params.trigger)
    fires = call.ledger.triggers.fires.of(trigger.number, None, params.limit)
    return FireRows(fires=[fire_row(call, fire) for fire in fires])
