"""The parameters of triggers on the wire, and the rows that show triggers and their fires."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Final, Literal, assert_never

from pydantic import AfterValidator, Field, SecretStr

from hive_core.broker.call import Call
from hive_core.broker.operation import Params, Result
from hive_core.errors import InvalidArgument
from hive_core.model.agents.agent import AgentName
from hive_core.model.wire.record import OPERATOR
from hive_core.model.work.trigger import (
    Trigger,
    TriggerFire,
    TriggerKind,
    TriggerRule,
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
    """A webhook; the result shows its address."""

    path: str = Field(
        "", max_length=200, pattern=f"^({_PART}(/{_PART}){{0,3}})?$",
        description="The path in its address /hook/AGENT/PATH: one to four parts joined by `/`,"
        " each of a-z, 0-9, `.`, `_` and `-`, beginning with a letter or digit. Absent: an id.",
    )  # fmt: skip
    methods: list[Method] = Field(
        ["POST"], min_length=1, max_length=5, description="HTTP methods that it accepts."
    )
    strict: bool = Field(
        default=False,
        description="Whether signatures must cover method, path, time, key and body; methods other"
        " than POST always need such a signature.",
    )
    secret: Annotated[SecretStr, AfterValidator(_secret)] | None = Field(
        None,
        description="The secret that deliveries are signed with; absent: the daemon makes one and"
        " shows it once.",
    )


class When(Params):
    """When it fires: exactly one of `cron`, `every`, `at` and `webhook`."""

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
        None, max_length=40, description="Time of the only fire: ISO 8601, or seconds since 1970."
    )
    webhook: Webhook | None = Field(None, description="Fire when a request comes to its address.")


class NewAgent(Params):
    """The agent that a fire creates, as for `spawn`; its name gets the number of the fire."""

    name: AgentName = Field(description="The beginning of the name: NAME-1, NAME-2 and so on.")
    role: Literal["agent", "architect", "lead", "worker", "task"] = Field(
        "task", description="The role of the agent."
    )
    tier: Literal["strategic", "tactical", "operational"] = Field(
        "operational", description="The tier, at most that of the trigger's owner."
    )
    title: str = Field("", max_length=200, description="Free text.")
    image: str | None = Field(None, max_length=64, description="Name of an image of this host.")
    boot: bool = Field(default=False, description="Whether an init system runs in the container.")
    command: list[str] = Field([], max_length=256, description="The command that it runs.")
    capabilities: list[str] | None = Field(None, max_length=64, description="As for `spawn`.")


class Then(Params):
    """The action of a fire, with the rights that the trigger's owner has at that time."""

    kind: Literal["message", "wake", "task", "spawn"] = Field(
        description="`message`: send a message to the agent; `wake`: send a message that also"
        " wakes it; `task`: assign it a task; `spawn`: create an agent below it, with a task."
    )
    text: Text = Field(min_length=1, description="The message, or the description of the task.")
    priority: int = Field(
        2, ge=0, le=3, description="Priority of the message: 0 (critical) to 3 (low)."
    )
    deadline: float | None = Field(
        None, gt=0, le=30 * 86_400, description="Seconds that the task may take."
    )
    agent: NewAgent | None = Field(None, description="For `spawn`: the new agent.")


class FireRow(Result):
    id: str = Field(description="The id of the fire; its event has this id too.")
    at: float = Field(description="When the trigger fired, in seconds since 1970.")
    due: float = Field(description="The due time that it is for, in seconds since 1970.")
    count: int = Field(
        description="The number of due times that it stands for; 100 means 100 or more."
    )
    state: str = Field(description="open, done, skipped, refused or waits.")
    detail: str = Field(description="Why it was skipped or refused, or what it waits for.")
    ref: str = Field(description="The id of the message or task; empty: none.")
    agent: str = Field(description="The name of the agent it created, if that agent is alive.")
    status: str = Field(description="The result status of its task.")
    exit: int | None = Field(description="Exit status of the agent it created; null: none.")
    output: str = Field(description="The last 4,000 characters of its report.")
    duration: float | None = Field(description="Seconds that it took; null while it is open.")


class TriggerRow(Result):
    id: str = Field(description="The id of the trigger.")
    name: str = Field(description="The name of the trigger.")
    agent: str = Field(description="The name of the agent that it fires for.")
    owner: str = Field(
        description="The agent that set it and whose rights it has; empty: destroyed."
    )
    kind: str = Field(description="cron, every, at or webhook.")
    when: str = Field(description="The rule as it was set.")
    explained: str = Field(description="The rule in words.")
    zone: str = Field(description="The time zone.")
    action: str = Field(description="message, wake, task or spawn.")
    text: str = Field(description="The message, or the description of the task.")
    missed: str = Field(description="skip, latest or all.")
    enabled: bool = Field(description="Whether it is on.")
    next: float | None = Field(
        description="When it fires next, in seconds since 1970; null: not at a known time."
    )
    path: str = Field(description="For a webhook: its path, appended to the address of the server.")
    fires: int = Field(description="How often it fired or was skipped.")
    last: FireRow | None = Field(description="Its last fire; null before the first.")


def rule_of(when: When, now: float) -> TriggerRule:
    """The rule of these parameters; InvalidArgument names the wrong field."""
    kinds = [kind for kind in TriggerKind if getattr(when, kind) is not None]
    if len(kinds) != 1:
        raise InvalidArgument("set one of cron, every, at and webhook", field="when")
    (kind,) = kinds
    zone = when.zone or "UTC"
    if when.zone is not None and kind.clock != "wall clock":
        raise InvalidArgument(f"{kind} has no time zone", field="when.zone")
    zone_of(zone)
    match kind:
        case TriggerKind.CRON:
            cron = " ".join(str(when.cron).split())
            check_cron(cron, zone, now)
            return TriggerRule(kind, cron=cron, zone=zone)
        case TriggerKind.EVERY:
            return TriggerRule(kind, every=when.every or 0.0)
        case TriggerKind.AT:
            return TriggerRule(kind, at=_parse_moment(str(when.at), zone, now), zone=zone)
        case TriggerKind.WEBHOOK:
            return _webhook_rule(when.webhook or Webhook())
        case _:
            assert_never(kind)


def _webhook_rule(webhook: Webhook) -> TriggerRule:
    methods = tuple(dict.fromkeys(webhook.methods))
    return TriggerRule(
        TriggerKind.WEBHOOK, methods=methods, path=webhook.path, strict=webhook.strict
    )


def webhook_path(call: Call, trigger: Trigger) -> str:
    """The path of a webhook, appended to the address of the server; empty for other triggers."""
    if not trigger.hook:
        return ""
    name, path = call.hive.name(trigger.agent), trigger.rule.path
    return f"/hook/{name}/{path}" if name and path else f"/hook/{trigger.hook}"


def _parse_moment(text: str, zone: str, now: float) -> float:
    try:
        moment = float(text)
    except ValueError:
        try:
            date = datetime.fromisoformat(text)
            moment = (date if date.tzinfo else date.replace(tzinfo=zone_of(zone))).timestamp()
        except (ValueError, OverflowError, OSError):
            raise InvalidArgument(f"{text!r} is not a time", field="when.at") from None
    if not now < moment < now + _LONGEST:  # also refuses NaN
        raise InvalidArgument(f"{text!r} is not in the next ten years", field="when.at")
    return moment


def party_name(call: Call, party: str) -> str:
    """The name of the operator or of a living agent; empty for a destroyed one."""
    return OPERATOR if party == OPERATOR else call.hive.name(party) or ""


def _when_text(rule: TriggerRule) -> str:
    match rule.kind:
        case TriggerKind.CRON:
            return rule.cron
        case TriggerKind.EVERY:
            return f"{rule.every:g}"
        case TriggerKind.AT:
            return f"{rule.at:.3f}"
        case TriggerKind.WEBHOOK:
            return " ".join(rule.methods)
        case _:
            assert_never(rule.kind)


def trigger_row(call: Call, trigger: Trigger) -> TriggerRow:
    rule = trigger.rule
    last = call.ledger.triggers.fires.of(trigger.number, None, 1)
    path = webhook_path(call, trigger)
    return TriggerRow(
        id=trigger.id, name=trigger.name, agent=party_name(call, trigger.agent),
        owner=party_name(call, trigger.owner), kind=rule.kind.value,
        when=_when_text(rule), explained=rule_text(rule, path),
        zone=rule.zone, action=trigger.act.value,
        text=str(trigger.action.get("text", "")), missed=trigger.missed.value,
        enabled=trigger.enabled, next=None if trigger.parked else trigger.due, path=path,
        fires=trigger.fired,
        last=fire_row(call, last[0]) if last else None,
    )  # fmt: skip


def fire_row(call: Call, fire: TriggerFire) -> FireRow:
    return FireRow(
        id=fire.id, at=fire.at, due=fire.due, count=fire.count, state=fire.state,
        detail=fire.detail, ref=fire.ref, agent=call.hive.name(fire.spawned) or "",
        status=fire.status, exit=fire.code, output=fire.output,
        duration=None if fire.ended is None else fire.ended - fire.at,
    )  # fmt: skip
