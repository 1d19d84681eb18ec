"""What the operator gives an agent beside its place: whom it may write to, what it may do."""

from __future__ import annotations

from collections.abc import Sized
from typing import Final
from uuid import UUID

from pydantic import Field

from hive_core.broker.call import Call, Change
from hive_core.broker.operation import Mutation, Result, operation
from hive_core.errors import InvalidArgument, LimitReached
from hive_core.model.agents.agent import AgentSpec
from hive_core.model.agents.capability import capability_fault, check_capabilities, check_grantable
from hive_core.model.agents.hive import Hive
from hive_core.operations.fields import Agent
from hive_core.policy.rules import OPERATOR

# Of each; the spec stays within what the meta repo reads back.
MOST: Final = 128


class AllowParams(Mutation):
    agent: Agent = Field(description="Who may write.")
    other: Agent = Field(description="To whom; not the other way round.")


class Allowed(Result):
    agent: str = Field(description="The agent.")
    allow: list[str] = Field(description="Names of those living that it may write to by this.")


class CapabilityParams(Mutation):
    agent: Agent = Field(description="The agent.")
    capability: str = Field(max_length=128, description="One of the closed list.")


class RevokeParams(CapabilityParams):
    recursive: bool = Field(default=False, description="From all its descendants too.")


class Capabilities(Result):
    agent: str = Field(description="The agent.")
    capabilities: list[str] = Field(description="What it holds now.")


@operation(action="administer", allow=OPERATOR, target="agent", second="other")
def allow(call: Call, params: AllowParams) -> Change[Allowed] | Allowed:
    """Let an agent write to another one that its place does not let it write to."""
    spec, other = call.hive.spec(params.agent), call.hive.spec(params.other)
    if params.agent == params.other:
        raise InvalidArgument("an agent may write to itself anyway", field="other")
    if other.uuid in spec.allow:
        return _allow_result(call.hive, params.agent)
    known = _existing_or_archived(call, spec)
    _check_count(params.agent, known)
    allowed = spec.model_copy(update={"allow": (*known, other.uuid)})
    return _set_allow_list(
        call, params, allowed, f"allow {params.agent} to write to {params.other}"
    )


@operation(action="administer", allow=OPERATOR, target="agent", second="other")
def disallow(call: Call, params: AllowParams) -> Change[Allowed] | Allowed:
    """Take back what `allow` gave. A reply to a message already received stays possible."""
    spec, other = call.hive.spec(params.agent), call.hive.spec(params.other)
    if other.uuid not in spec.allow:
        return _allow_result(call.hive, params.agent)
    left = tuple(each for each in _existing_or_archived(call, spec) if each != other.uuid)
    return _set_allow_list(
        call, params, spec.model_copy(update={"allow": left}),
        f"disallow {params.agent} to write to {params.other}",
    )  # fmt: skip


@operation(action="administer", allow=OPERATOR, target="agent", preposition="to")
def grant_capability(call: Call, params: CapabilityParams) -> Change[Capabilities] | Capabilities:
    """Give an agent a capability. It may hand it on to agents that it creates from now on.

    One that nothing reads on this host is refused: a right that has no effect is none.
    """
    check_grantable((params.capability,), field="capability")
    spec = call.hive.spec(params.agent)
    held = check_capabilities((*spec.capabilities, params.capability))
    if held == spec.capabilities:
        return _capability_result(call.hive, params.agent)
    _check_count(params.agent, spec.capabilities)
    hive = call.hive.with_spec(params.agent, spec.model_copy(update={"capabilities": held}))
    return Change(
        _capability_result(hive, params.agent), hive, f"grant {params.agent} {params.capability}",
        fields={"capability": params.capability},
    )  # fmt: skip


@operation(action="administer", allow=OPERATOR, target="agent", preposition="of")
def revoke_capability(call: Call, params: RevokeParams) -> Change[Capabilities] | Capabilities:
    """Take a capability from an agent, and with `recursive` from everyone below it.

    One that loses `meta.read` or `applied.read` is restarted: what it opened there is gone.
    """
    _check_capability(params.capability)
    tree = call.hive.topology
    names = tree.subtree(params.agent) if params.recursive else (params.agent,)
    hive, losing = call.hive, []
    for name in names:
        spec = call.hive.spec(name)
        if params.capability in spec.capabilities:
            left = tuple(each for each in spec.capabilities if each != params.capability)
            hive = hive.with_spec(name, spec.model_copy(update={"capabilities": left}))
            losing.append(name)
    if not losing:
        return _capability_result(hive, params.agent)
    return Change(
        _capability_result(hive, params.agent),
        hive,
        f"revoke {params.capability} from {', '.join(losing)}",
        fields={"capability": params.capability, "agents": losing},
    )


def _existing_or_archived(call: Call, spec: AgentSpec) -> tuple[UUID, ...]:
    """Its list without those who are gone for good, who took up room in it."""
    archives = call.ledger.archives
    return tuple(
        each for each in spec.allow
        if call.hive.name(str(each)) is not None or archives.get(str(each)) is not None
    )  # fmt: skip


def _check_capability(capability: str) -> None:
    if reason := capability_fault(capability):
        raise InvalidArgument(f"{capability!r} {reason}", field="capability")


def _check_count(agent: str, given: Sized) -> None:
    if len(given) >= MOST:
        raise LimitReached(f"cannot give {agent} more: limit ({MOST}) reached")


def _set_allow_list(
    call: Call, params: AllowParams, spec: AgentSpec, message: str
) -> Change[Allowed]:
    hive = call.hive.with_spec(params.agent, spec)
    return Change(_allow_result(hive, params.agent), hive, message, fields={"other": params.other})


def _allow_result(hive: Hive, agent: str) -> Allowed:
    names = (hive.name(str(each)) for each in hive.spec(agent).allow)
    return Allowed(agent=agent, allow=sorted(name for name in names if name is not None))


def _capability_result(hive: Hive, agent: str) -> Capabilities:
    return Capabilities(agent=agent, capabilities=list(hive.spec(agent).capabilities))
