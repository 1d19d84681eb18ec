"""Grants of the operator: allow-lists and capabilities."""

from __future__ import annotations

from collections.abc import Sized
from typing import Final
from uuid import UUID

from pydantic import Field

from hive_core.broker.call import Call, Change
from hive_core.broker.login_rule import EACH
from hive_core.broker.operation import Mutation, Result, operation
from hive_core.errors import InvalidArgument, LimitReached
from hive_core.model.agents.agent import AgentSpec
from hive_core.model.agents.capability import capability_fault, check_capabilities, check_grantable
from hive_core.model.agents.hive import Hive
from hive_core.operations.fields import Agent
from hive_core.policy.rules import OPERATOR

# For each agent, so that its spec stays within the size that the meta repo reads back.
MOST: Final = 128


class AllowParams(Mutation):
    agent: Agent = Field(description="The agent that may write.")
    other: Agent = Field(
        description="The agent that it may write to; this does not allow the other direction."
    )


class Allowed(Result):
    agent: str = Field(description="The agent.")
    allow: list[str] = Field(description="Names of the living agents on its allow-list.")


class CapabilityParams(Mutation):
    agent: Agent = Field(description="The agent.")
    capability: str = Field(max_length=128, description="A capability of the closed list.")


class RevokeParams(CapabilityParams):
    recursive: bool = Field(
        default=False, description="Whether to revoke it from all descendants too."
    )


class Capabilities(Result):
    agent: str = Field(description="The agent.")
    capabilities: list[str] = Field(description="The capabilities that it holds now.")


@operation(action="administer", allow=OPERATOR, target="agent", second="other", login=EACH)
def allow(call: Call, params: AllowParams) -> Change[Allowed] | Allowed:
    """Allow an agent to write to another one that its place in the tree does not permit."""
    spec, other = call.hive.spec(params.agent), call.hive.spec(params.other)
    if params.agent == params.other:
        raise InvalidArgument(
            "is the agent itself, and an agent may always write to itself", field="other"
        )
    if other.uuid in spec.allow:
        return _allow_result(call.hive, params.agent)
    listed = _restorable_agents(call, spec)
    _check_count(params.agent, listed)
    allowed = spec.model_copy(update={"allow": (*listed, other.uuid)})
    return _set_allow_list(
        call, params, allowed, f"allow {params.agent} to write to {params.other}"
    )


@operation(action="administer", allow=OPERATOR, target="agent", second="other")
def disallow(call: Call, params: AllowParams) -> Change[Allowed] | Allowed:
    """Undo `allow`. A reply to a message that was already received stays possible."""
    spec, other = call.hive.spec(params.agent), call.hive.spec(params.other)
    if other.uuid not in spec.allow:
        return _allow_result(call.hive, params.agent)
    left = tuple(uuid for uuid in _restorable_agents(call, spec) if uuid != other.uuid)
    return _set_allow_list(
        call, params, spec.model_copy(update={"allow": left}),
        f"disallow {params.agent} to write to {params.other}",
    )  # fmt: skip


@operation(action="administer", allow=OPERATOR, target="agent", preposition="to", login=EACH)
def grant_capability(call: Call, params: CapabilityParams) -> Change[Capabilities] | Capabilities:
    """Grant an agent a capability. It may give it to agents that it creates from now on.

    A capability without effect on this host is refused.
    """
    check_grantable((params.capability,), field="capability")
    call.models.check_capabilities((params.capability,), field="capability")
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
    """Revoke a capability from an agent, and with `recursive` from all its descendants.

    A running agent that loses `meta.read` or `applied.read` is restarted, so that it holds no open
    file there. The call returns before that restart ends.
    """
    _check_capability(params.capability)
    tree = call.hive.topology
    names = tree.subtree(params.agent) if params.recursive else (params.agent,)
    hive, losing = call.hive, []
    for name in names:
        spec = call.hive.spec(name)
        if params.capability in spec.capabilities:
            left = tuple(
                capability for capability in spec.capabilities if capability != params.capability
            )
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


def _restorable_agents(call: Call, spec: AgentSpec) -> tuple[UUID, ...]:
    """The allow-list without destroyed agents that cannot be restored.

    They would use up its limit.
    """
    archives = call.ledger.archives
    return tuple(
        uuid for uuid in spec.allow
        if call.hive.name(str(uuid)) is not None or archives.get(str(uuid)) is not None
    )  # fmt: skip


def _check_capability(capability: str) -> None:
    if reason := capability_fault(capability):
        raise InvalidArgument(f"{capability!r} {reason}", field="capability")


def _check_count(agent: str, entries: Sized) -> None:
    if len(entries) >= MOST:
        raise LimitReached(f"cannot grant {agent} more: limit ({MOST}) reached")


def _set_allow_list(
    call: Call, params: AllowParams, spec: AgentSpec, message: str
) -> Change[Allowed]:
    hive = call.hive.with_spec(params.agent, spec)
    return Change(_allow_result(hive, params.agent), hive, message, fields={"other": params.other})


def _allow_result(hive: Hive, agent: str) -> Allowed:
    names = (hive.name(str(uuid)) for uuid in hive.spec(agent).allow)
    return Allowed(agent=agent, allow=sorted(name for name in names if name is not None))


def _capability_result(hive: Hive, agent: str) -> Capabilities:
    return Capabilities(agent=agent, capabilities=list(hive.spec(agent).capabilities))
