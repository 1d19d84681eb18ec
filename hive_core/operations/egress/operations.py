"""Decides whether an agent may connect to a host now, and records how the connection ended."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final, Literal

from pydantic import Field

from hive_core.broker.call import Call, Record
from hive_core.broker.operation import Params, Result, Whose, operation
from hive_core.broker.quarantine import RULE, quarantine_holder, quarantine_reason
from hive_core.broker.subagents import RULE as SUBAGENT_RULE
from hive_core.errors import InvalidArgument
from hive_core.ledger.audit.events import AuditEntry
from hive_core.model.agents.capability import covers
from hive_core.model.agents.subagent import CAPABILITY, INHERIT
from hive_core.model.wire.egress import EgressTarget, parse_target
from hive_core.policy.egress import EgressDecision, decide_egress, decide_subagent_egress
from hive_core.policy.rules import EGRESS

EGRESS_EVENT: Final = "egress"
REFUSED: Final = "refused"
_BYTES_MOST: Final = 1 << 60
Host = Annotated[str, Field(max_length=300, description="Name or address of the target.")]
Port = Annotated[int, Field(ge=1, le=65_535, description="Port of the target.")]
Size = Annotated[int, Field(ge=0, le=_BYTES_MOST)]
_AGENT: Final = Whose("agent", "agent", lambda call, params: call.hive.name(params.agent))


class OpenEgressParams(Params):
    agent: str = Field(max_length=64, description="UUID of the agent that connects.")
    sub: str = Field("", max_length=64, description="Its sub-agent; empty: itself.")
    host: Host
    port: Port


class EgressPermitResult(Result):
    allowed: bool = Field(description="Whether the agent may connect.")
    rule: str = Field(
        description="The rule that allows it; `any`: the profile `host`. Otherwise what refuses it:"
        " `profile`, `allow-list`, `quarantine` or, for a sub-agent that is closed, `subagent`."
    )
    reason: str = Field(description="Why it is refused; empty where it is allowed.")
    idle: float = Field(description="Seconds without a byte after which the connection ends.")
    longest: float = Field(description="Seconds after which it ends in any case.")
    bytes: int = Field(description="Bytes in both directions after which it ends.")


class CloseEgressParams(Params):
    agent: str = Field(max_length=64, description="UUID of the agent that connected.")
    sub: str = Field("", max_length=64, description="Its sub-agent; empty: itself.")
    connection: str = Field(max_length=64, description="Id of the connection.")
    host: Host
    port: Port
    status: Literal["done", "idle", "longest", "bytes", "ended", "refused", "failed"] = Field(
        description="How the connection ended. `idle`, `longest`, `bytes`: by that limit. `ended`:"
        " hive-egress stopped, or the agent may connect no longer. `refused`: no address of the"
        " name may be connected to. `failed`: the connection could not be made."
    )
    rule: str = Field("", max_length=300, description="The rule that allowed or refused it.")
    address: str = Field("", max_length=64, description="Address of the target.")
    sent: Size = Field(0, description="Bytes that the agent sent.")
    received: Size = Field(0, description="Bytes that the agent received.")
    seconds: float = Field(
        0.0, ge=0, le=1e9, description="Seconds from the request of the agent to the end."
    )
    reason: str = Field("", max_length=1000, description="Why the connection could not be made.")


class EgressRecorded(Result):
    connection: str = Field(description="The connection.")


@operation(action="connect", allow=EGRESS, whose=_AGENT, preposition="for")
def open_egress(
    call: Call, params: OpenEgressParams
) -> Record[EgressPermitResult] | EgressPermitResult:
    """Decide whether an agent may connect to a host and port now; record a refusal as an event.

    Names are resolved by the caller, which connects to addresses of the internet only.
    """
    target = _target(params.host, params.port)
    decision, limits = _decide(call, params, target), call.settings.egress
    result = EgressPermitResult(
        allowed=decision.allowed, rule=decision.rule, reason=decision.reason, idle=limits.idle,
        longest=limits.longest, bytes=limits.bytes,
    )  # fmt: skip
    fields = {"sub": params.sub, "host": target.host, "port": target.port, "status": REFUSED}
    if decision.allowed or not _log(call, params.agent, decision, fields):
        return result
    return Record(result)


@operation(action="connect", allow=EGRESS)
def close_egress(call: Call, params: CloseEgressParams) -> Record[EgressRecorded] | EgressRecorded:
    """Record one connection of an agent, at its end, as an event of kind `egress`."""
    fields = params.model_dump(exclude={"agent", "rule", "reason"})
    was_allowed = params.status != REFUSED
    decision = EgressDecision(allowed=was_allowed, rule=params.rule, reason=params.reason)
    recorded = EgressRecorded(connection=params.connection)
    return Record(recorded) if _log(call, params.agent, decision, fields) else recorded


def _target(host: str, port: int) -> EgressTarget:
    try:
        return parse_target(f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
    except ValueError as error:
        raise InvalidArgument(f"cannot connect to {host}: {error}", field="host") from error


def _decide(call: Call, params: OpenEgressParams, target: EgressTarget) -> EgressDecision:
    uuid = params.agent
    name = call.hive.name(uuid)
    if name is None:
        return EgressDecision(allowed=False, rule="profile", reason="no such agent")
    if holder := quarantine_holder(call, uuid):
        reason = quarantine_reason(name, holder)
        return EgressDecision(allowed=False, rule=RULE, reason=reason)
    spec = call.hive.spec(name)
    decision = decide_egress(name, spec, call.settings.egress.allow, target)
    if not params.sub or not decision.allowed:
        return decision
    return _narrow(call, params, decision, target)


def _narrow(
    call: Call, params: OpenEgressParams, decision: EgressDecision, target: EgressTarget
) -> EgressDecision:
    """The decision for a sub-agent, whose agent may connect to the target."""
    sub = call.ledger.subagents.get(params.agent, params.sub)
    capabilities = call.hive.spec(str(call.hive.name(params.agent))).capabilities
    if sub is None or sub.deadline <= call.now or not covers(capabilities, CAPABILITY):
        reason = f"sub-agent {params.sub} is closed, or its agent may have none"
        return EgressDecision(allowed=False, rule=SUBAGENT_RULE, reason=reason)
    narrowed = decide_subagent_egress(call.ledger.subagents.line(sub), target)
    return decision if narrowed.rule == INHERIT else narrowed


def _log(call: Call, uuid: str, decision: EgressDecision, fields: Mapping[str, object]) -> bool:
    """Record a connection, or a refusal up to the rate of the agent; whether it is recorded.

    A program that is refused all day must not displace the connections that were made.
    """
    dropped = call.ledger.unrecorded_egress
    if not decision.allowed:
        if call.ledger.egress_refusals.take(uuid, call.now) > 0:
            dropped[uuid] += 1
            return False
        fields = {**fields, "not_kept": dropped.pop(uuid, 0)}
    shown = {"caller_name": call.hive.name(uuid) or "", **fields}
    call.ledger.events.append(
        AuditEntry(
            EGRESS_EVENT, uuid, "connect", "", decision.allowed, decision.rule, decision.reason,
            call.hive.commit, call.request, call.now,
            {key: value for key, value in shown.items() if value},
        )
    )  # fmt: skip
    call.notify("events")
    return True
