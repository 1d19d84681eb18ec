"""Creating agents."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Final
from uuid import UUID, uuid4

from pydantic import Field

from hive_core.broker.call import Call, Change, EventTarget
from hive_core.broker.login_rule import Level, LoginRule
from hive_core.broker.operation import Result, operation
from hive_core.errors import InvalidArgument, LimitReached, NotAllowed, NotFound
from hive_core.model.agents.agent import (
    AfterTask,
    AgentName,
    AgentSpec,
    Limits,
    Profile,
    Role,
    Runtime,
    SubtreeLimits,
    Tier,
)
from hive_core.model.agents.capability import check_capabilities
from hive_core.model.agents.machine import DesiredState
from hive_core.model.agents.model_catalog import check_spec
from hive_core.model.agents.roles import ROOT_AGENT_EXTRA, ROOT_EXTRA, default_capabilities
from hive_core.model.config.seed import seed_for
from hive_core.model.names import short
from hive_core.model.work.budget import BudgetKind
from hive_core.operations.agents.spawn_params import Traits
from hive_core.operations.budgets.initial_budgets import give_initial_budgets
from hive_core.operations.budgets.spending import charge_one
from hive_core.operations.fields import Agent, WaitParams
from hive_core.operations.host.jobs import create_job
from hive_core.operations.lifecycle.zombies import living_names
from hive_core.operations.notices import send_notice
from hive_core.policy import grants
from hive_core.policy.rules import SPAWN

# What says which program a new agent runs.
_PROGRAM: Final = frozenset({"command", "definition", "runtime"})
_WANTED: Final = {True: DesiredState.RUNNING, False: DesiredState.STOPPED}
# The kind of an agent's first message.
DEFINITION = "definition"


class SpawnParams(Traits, WaitParams):
    name: AgentName = Field(
        description="Name of the agent: not used by another living agent of this hive."
    )
    parent: Agent | None = Field(
        None,
        description="Parent of the agent. Absent: the caller, or the root agent when the operator"
        " calls; empty: none, so the agent is a root, which only the operator creates.",
    )
    definition: str | None = Field(
        None,
        max_length=64,
        description="Name of a definition: it sets the parameters that the call does not set, and"
        " its text is the agent's first message.",
    )
    add_capabilities: list[str] = Field(
        [],
        max_length=64,
        description="Capabilities in addition to `capabilities`, or, when that is absent, to the"
        " defaults of the role.",
    )


class SpawnResult(Result):
    name: str = Field(description="Name of the agent.")
    uuid: str = Field(description="UUID of the agent; never used again.")
    job: str = Field(description="The job; it ends when the agent runs.")


def confirmation_of_spawn(call: Call, params: SpawnParams) -> Level | None:
    """Which confirmation a new agent takes: each for more than its role has, fresh for a budget."""
    merged, _ = _apply_definition(call, params)
    usual = set(_usual_capabilities(call, merged, merged.parent))
    has_more = not usual.issuperset((*(merged.capabilities or ()), *merged.add_capabilities))
    has_network = merged.network not in (None, "none")
    if has_more or has_network or "/" in (merged.image or "") or merged.profile is not None:
        return "each"
    return "fresh" if merged.funds is not None else None


@operation(
    action="spawn",
    allow=SPAWN,
    target="parent",
    preposition="under",
    aliases=("request_spawn", "request_init_config"),
    login=LoginRule(confirm=confirmation_of_spawn),
)
def spawn(call: Call, params: SpawnParams) -> Change[SpawnResult]:
    """Create an agent under the caller or one of its descendants, and start it.

    The creator cannot give more than it has: capabilities are a subset of its own, limits fit into
    what it has left, and its role may create the new role. The call reveals one thing about agents
    that the caller cannot see: that a name is taken.
    """
    return create_agent(call, params)


def create_agent(call: Call, params: SpawnParams, *, starts: bool = True) -> Change[SpawnResult]:
    """Create an agent; where it does not start, no job is made for it."""
    params, text = _apply_definition(call, params)
    parent = _spawn_parent(call, params)
    spec = _spec(call, params, parent)
    _check_profile(call, spec)
    hive = call.hive.with_agent(params.name, parent, spec)
    _check_host_limit(call, params.name)
    grants.check_spawn(call.hive, call.caller, parent, spec, call.settings.image_names)
    _check_model(call, spec)
    if parent is not None and not call.by_operator:
        besides = living_names(call, call.ledger.lives.zombies())
        grants.check_child_quota(call.hive, parent, besides=besides)
    charge_one(call, call.uuid, BudgetKind.CHILDREN)
    ledger = call.ledger
    ledger.ranges.allocate(spec.id, call.settings.uid_start, call.now)
    ledger.runs.want(spec.id, _WANTED[starts], call.now)
    give_initial_budgets(replace(call, hive=hive), params.name, params.funds)
    job = create_job(call, "spawn", {spec.id: "running"}) if starts else ""
    if text:
        send_notice(call, hive, params.name, DEFINITION, text)
    call.notify(f"run:{spec.id}")
    under = f" under {parent}" if parent else " as a root"
    return Change(
        SpawnResult(name=params.name, uuid=spec.id, job=job),
        hive,
        f"spawn {params.name}{under}",
        fields={"uuid": spec.id, "role": spec.role.value, **_definition_field(params)},
        target=EventTarget(spec.id, params.name),
    )


def _apply_definition(call: Call, params: SpawnParams) -> tuple[SpawnParams, str]:
    """The parameters with those of the definition where the call sets none, and its text."""
    if params.definition is None:
        return params, ""
    definition = call.ledger.tools.definitions.get(params.definition)
    if definition is None:
        raise NotFound(f"no definition {params.definition}")
    parameters = params.model_dump(exclude_unset=True)
    return SpawnParams.model_validate({**definition.fields, **parameters}), definition.body


def _definition_field(params: SpawnParams) -> dict[str, object]:
    return {} if params.definition is None else {"definition": params.definition}


def inherited_runtime(call: Call, fields: Collection[str]) -> str | None:
    """The runtime of a new agent for which nothing says what it runs: that of its creator."""
    spec = call.hive.specs.get(call.caller)
    if spec is None or spec.runtime is None or not _PROGRAM.isdisjoint(fields):
        return None
    return spec.runtime.value


def _check_profile(call: Call, spec: AgentSpec) -> None:
    """Only the operator creates a queen or a maid; both are of the role daemon."""
    if spec.profile is None:
        return
    if spec.role is not Role.DAEMON:
        raise InvalidArgument(f"a {spec.profile} has the role daemon", field="profile")
    if not call.by_operator:
        raise NotAllowed(f"cannot spawn a {spec.profile}: only the operator may create one")


def _check_model(call: Call, spec: AgentSpec) -> None:
    """Refuse a model or a runtime that the host lacks, or that the creator may not give."""
    check_spec(call.models, spec)
    if spec.model is not None and not call.by_operator:
        call.models.check_given(call.hive.spec(call.caller), spec.model)


def _check_host_limit(call: Call, name: str) -> None:
    """Refuse agents beyond the host's limit on agents, and on uid ranges.

    Destroyed agents keep their uids while they are archived, and all agents share the uids (attack
    4). The last of them are reserved for the operator.
    """
    most = call.settings.limits.agents
    if len(call.hive.specs) >= most:
        raise LimitReached(f"cannot spawn {name}: host agent limit ({most}) reached")
    if not call.by_operator and call.ledger.ranges.count_ranges() >= most:
        raise LimitReached(
            f"cannot spawn {name}: host agent limit ({most}) reached, with the destroyed agents"
            " that are still kept"
        )


def _spawn_parent(call: Call, params: SpawnParams) -> str | None:
    """The caller by default; for the operator the root agent, if there is one."""
    if params.parent is not None:
        return params.parent or None
    if not call.by_operator:
        return call.caller
    root = call.settings.root.name
    return root if root in call.hive.topology else None


def _usual_capabilities(call: Call, params: SpawnParams, parent: str | None) -> tuple[str, ...]:
    """The default capabilities; a second root cannot see other roots, as they cannot see it."""
    role = Role(params.role)
    if parent is not None:
        return default_capabilities(role)
    is_root_agent = params.name == call.settings.root.name
    return default_capabilities(role, ROOT_AGENT_EXTRA if is_root_agent else ROOT_EXTRA)


def _spec(call: Call, params: SpawnParams, parent: str | None) -> AgentSpec:
    role = Role(params.role)
    usual = _usual_capabilities(call, params, parent)
    held = grants.initial_capabilities(call.hive, call.caller, usual, params.capabilities)
    quota = call.settings.limits.children
    image = params.image or call.settings.default_image
    config, nar = seed_for(image)
    spec = AgentSpec(
        uuid=_new_uuid(call),
        role=role,
        tier=Tier(params.tier),
        title=params.title,
        capabilities=grants.with_network(
            check_capabilities((*held, *params.add_capabilities)), params.network
        ),
        image=image,
        config=config,
        nar=nar,
        boot=params.boot,
        command=tuple(params.command),
        limits=Limits(**params.limits.model_dump()),
        subtree=SubtreeLimits(**params.subtree.model_dump()) if params.subtree else None,
        max_children=grants.initial_max_children(
            call.hive, call.caller, params.max_children, quota
        ),
        after_task=AfterTask(params.after_task) if params.after_task else None,
        wakes=params.wakes,
        parallel=params.parallel,
        require_plan=params.require_plan,
        max_turns=params.max_turns,
        max_depth=params.max_depth,
        tools=grants.initial_tools(call.hive, call.caller, params.tools),
        profile=Profile(params.profile) if params.profile else None,
        runtime=Runtime(params.runtime) if params.runtime else None,
        model=params.model,
        egress=() if call.by_operator else call.hive.spec(call.caller).egress,
    )
    return grants.inherit_limits(call.hive, call.caller, parent, spec, call.settings.agent_limits)


def _new_uuid(call: Call) -> UUID:
    """A UUID that was never used, with a short id that no directory on disk has.

    Every agent has a uid range until its last file is deleted, so the table of ranges has all of
    these agents.
    """
    while call.ledger.ranges.has_short_id(short(str(uuid := uuid4()))):
        pass
    return uuid
