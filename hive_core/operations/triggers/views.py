"""What is said of triggers on the wire: when, what then, and what is shown of them."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field, SecretStr

from hive_core.broker.call import Call
from hive_core.broker.operation import Params, Result
from hive_core.errors import InvalidArgument
from hive_core.model.agents.agent import AgentName
from hive_core.model.wire.record import OPERATOR
from hive_core.model.work.trigger import (
    Trigger,
    TriggerKind,
    TriggerRule,
    TriggerRun,
    check_cron,
    rule_text,
    zone_of,
)
from hive_core.operations.fields import also, bounded_text

TEXT_MOST: Final = 16 * 1024
SECRET_LEAST, SECRET_MOST = 16, 256
_LONGEST: Final = 10.0 * 366 * 86_400
Text = Annotated[str, bounded_text(TEXT_MOST)]
Method = Literal["POST", "PUT", "PATCH", "GET", "DELETE"]
_PART: Final = "[a-z0-9][a-z0-9._-]{0,63}"


def _secret(value: SecretStr) -> SecretStr:
    if not SECRET_LEAST <= len(value.get_secret_value().encode()) <= SECRET_MOST:
        raise ValueError(f"must have {SECRET_LEAST} to {SECRET_MOST} bytes")
    return value


class Webhook(Params):
    """A webhook; its address is in the answer."""

    path: str = Field(
        "", max_length=200, pattern=f"^({_PART}(/{_PART}){{0,3}})?$",
        description="Its address is /hook/AGENT/PATH then: one to four parts joined by `/`, each of"
        " a-z, 0-9, `.`, `_` and `-`, beginning with a letter or digit. An id when absent.",
    )  # fmt: skip
    methods: list[Method] = Field(["POST"], min_length=1, max_length=5, description="Taken.")
    strict: bool = Field(
        default=False,
        description="Whether only signatures over method, path, time, key and body will do; all"
        " methods but POST need one anyway.",
    )
    secret: Annotated[SecretStr, AfterValidator(_secret)] | None = Field(
        None, description="What deliveries are signed with; made, and told once, when absent."
    )


class When(Params):
    """When: exactly one of `cron`, `every`, `at` and `webhook`."""

    cron: str | None = Field(
        None, max_length=200, pattern=r"^[A-Za-z0-9*,/#\- ]+$",
        description="Five fields as in crontab(5), or six with seconds in front.",
    )  # fmt: skip
    zone: str | None = Field(
        None, max_length=64, pattern=r"^[A-Za-z][A-Za-z0-9_+/-]*$",
        validation_alias=also("zone", "timezone"),
        description="Time zone of `cron` or `at`, such as Europe/Berlin; UTC when absent."
        " Also `timezone`.",
    )  # fmt: skip
    every: float | None = Field(
        None, ge=1, le=_LONGEST, validation_alias=also("every", "interval"),
        description="Seconds between two fires. Also `interval`.",
    )  # fmt: skip
    at: str | None = Field(
        None, max_length=40, description="Once: ISO 8601, or seconds since 1970."
    )
    webhook: Webhook | None = Field(None, description="When somebody calls an address.")


class NewAgent(Params):
    """The agent that a fire makes, as `spawn` takes it; its name gets the number of the fire."""

    name: AgentName = Field(description="What it is called: NAME-1, NAME-2 and so on.")
    role: Literal["agent", "architect", "lead", "worker", "task"] = Field(
        "task", description="What it is for."
    )
    tier: Literal["strategic", "tactical", "operational"] = Field(
        "operational", description="At most that of who set the trigger."
    )
    title: str = Field("", max_length=200, description="Free text.")
    image: str | None = Field(None, max_length=64, description="Name of an image of this host.")
    boot: bool = Field(default=False, description="Whether an init runs inside.")
    command: list[str] = Field([], max_length=256, description="What it runs.")
    capabilities: list[str] | None = Field(None, max_length=64, description="As for `spawn`.")


class Then(Params):
    """What is done, with the rights that who set the trigger has at that moment."""

    kind: Literal["message", "wake", "task", "spawn"] = Field(
        description="A message to the agent; the same, and it is woken; a task for it; a new agent"
        " below it with a task."
    )
    text: Text = Field(min_length=1, description="The message, or what the task is.")
    priority: int = Field(2, ge=0, le=3, description="Of the message: 0 (critical) to 3 (low).")
    deadline: float | None = Field(
        None, gt=0, le=30 * 86_400, description="Seconds that the task may take."
    )
    agent: NewAgent | None = Field(None, description="For `spawn`: the new agent.")


class FireRow(Result):
    id: str = Field(description="The fire; its event has this id too.")
    at: float = Field(description="When it fired, in seconds since 1970.")
    due: float = Field(description="The time that it is for.")
    count: int = Field(description="How many times of the rule it stands for; 100: or more.")
    state: str = Field(description="open, done, skipped, refused or waits.")
    detail: str = Field(description="Why it was skipped or refused, or what it waits for.")
    ref: str = Field(description="The message or the task; empty: none.")
    agent: str = Field(description="Name of the agent it made; empty: none that lives.")
    status: str = Field(description="How the task came out.")
    exit: int | None = Field(description="Exit status of the agent it made; null: none.")
    output: str = Field(description="The last 4,000 characters of what it reported.")
    duration: float | None = Field(description="Seconds it took; null while it goes on.")


class TriggerRow(Result):
    id: str = Field(description="The trigger.")
    name: str = Field(description="What it is called.")
    agent: str = Field(description="Name of the agent it fires for.")
    owner: str = Field(description="Who set it, with whose rights it acts; empty: who is gone.")
    kind: str = Field(description="cron, every, at or webhook.")
    when: str = Field(description="The rule, as it was set.")
    explained: str = Field(description="The rule in words.")
    zone: str = Field(description="Its time zone.")
    action: str = Field(description="message, wake, task or spawn.")
    text: str = Field(description="The message or the task.")
    missed: str = Field(description="skip, latest or all.")
    enabled: bool = Field(description="Whether it is on.")
    next: float | None = Field(description="When it fires next; null: not by the clock.")
    path: str = Field(description="Of a webhook, behind the address of the server.")
    fires: int = Field(description="How often it has fired or was skipped.")
    last: FireRow | None = Field(description="Its last fire; null before the first.")


def rule_of(when: When, now: float) -> TriggerRule:
    """The rule, or InvalidArgument that names what is wrong."""
    said = [key for key in ("cron", "every", "at", "webhook") if getattr(when, key) is not None]
    if len(said) != 1:
        raise InvalidArgument("say one of cron, every, at and webhook", field="when")
    zone = when.zone or "UTC"
    if when.zone is not None and said[0] not in ("cron", "at"):
        raise InvalidArgument(f"{said[0]} has no time zone", field="when.zone")
    zone_of(zone)
    if when.cron is not None:
        check_cron(when.cron, zone, now)
        return TriggerRule(TriggerKind.CRON, cron=" ".join(when.cron.split()), zone=zone)
    if when.every is not None:
        return TriggerRule(TriggerKind.EVERY, every=when.every)
    if when.at is not None:
        return TriggerRule(TriggerKind.AT, at=_parse_moment(when.at, zone, now), zone=zone)
    return _webhook_rule(when.webhook or Webhook())


def _webhook_rule(said: Webhook) -> TriggerRule:
    methods = tuple(dict.fromkeys(said.methods))
    return TriggerRule(TriggerKind.WEBHOOK, methods=methods, path=said.path, strict=said.strict)


def webhook_path(call: Call, trigger: Trigger) -> str:
    """Where a webhook is called; empty: it is none."""
    if not trigger.hook:
        return ""
    name, path = call.hive.name(trigger.agent), trigger.rule.path
    return f"/hook/{name}/{path}" if name and path else f"/hook/{trigger.hook}"


def _parse_moment(text: str, zone: str, now: float) -> float:
    try:
        found = float(text)
    except ValueError:
        try:
            said = datetime.fromisoformat(text)
            found = (said if said.tzinfo else said.replace(tzinfo=zone_of(zone))).timestamp()
        except (ValueError, OverflowError, OSError):
            raise InvalidArgument(f"{text!r} is no moment", field="when.at") from None
    if not now < found < now + _LONGEST:  # also for a number that is none
        raise InvalidArgument(f"{text!r} is not in the next ten years", field="when.at")
    return found


def party_name(call: Call, party: str) -> str:
    """The name of a party that lives."""
    return OPERATOR if party == OPERATOR else call.hive.name(party) or ""


def trigger_row(call: Call, trigger: Trigger) -> TriggerRow:
    rule = trigger.rule
    text = {
        TriggerKind.CRON: rule.cron,
        TriggerKind.EVERY: f"{rule.every:g}",
        TriggerKind.AT: f"{rule.at:.3f}",
    }
    last = call.ledger.triggers.runs.of(trigger.number, None, 1)
    path = webhook_path(call, trigger)
    return TriggerRow(
        id=trigger.id, name=trigger.name, agent=party_name(call, trigger.agent),
        owner=party_name(call, trigger.owner), kind=rule.kind.value,
        when=text.get(rule.kind, " ".join(rule.methods)), explained=rule_text(rule, path),
        zone=rule.zone, action=trigger.act.value,
        text=str(trigger.action.get("text", "")), missed=trigger.missed.value,
        enabled=trigger.enabled, next=None if trigger.parked else trigger.due, path=path,
        fires=trigger.fired,
        last=run_row(call, last[0]) if last else None,
    )  # fmt: skip


def run_row(call: Call, fire: TriggerRun) -> FireRow:
    return FireRow(
        id=fire.id, at=fire.at, due=fire.due, count=fire.count, state=fire.state,
        detail=fire.detail, ref=fire.ref, agent=call.hive.name(fire.spawned) or "",
        status=fire.status, exit=fire.code, output=fire.output,
        duration=None if fire.ended is None else fire.ended - fire.at,
    )  # fmt: skip
