"""The identity of the caller, and the agents that it can see."""

from __future__ import annotations

from itertools import islice
from typing import Final

from pydantic import Field

from hive_core.broker.call import Call
from hive_core.broker.operation import Params, Result, operation
from hive_core.broker.quarantine import quarantine_holder
from hive_core.errors import Conflict
from hive_core.model.wire.record import OPERATOR
from hive_core.operations.fields import Agent
from hive_core.operations.pages import Page, Paged, reply_bytes, take_fitting
from hive_core.policy.decide import visible_names
from hive_core.policy.rules import ANYONE, SELF

_AGENTS: Final = 500  # in a page: the rows need no query


class WhoamiParams(Params):
    """No parameters: the socket identifies the caller."""


class Identity(Result):
    name: str = Field(description="Name of the agent, or `operator`.")
    uuid: str = Field(description="UUID of the agent; never used again.")
    parent: str | None = Field(description="Name of the parent; null for a root.")
    role: str = Field(description="Role of the agent.")
    title: str = Field(description="Title of the agent: free text, such as Software Engineer.")
    tier: str = Field(description="strategic, tactical or operational.")
    model: str = Field(
        description="Alias of its model: that of its spec, of its tier, or the default of the host;"
        " empty: none."
    )
    models: list[str] = Field(
        description="Aliases of the models that it may use: its own first, then those of its"
        " capabilities `model:ALIAS`."
    )
    runtime: str = Field(description="What runs its model; empty: nothing, only its command runs.")
    capabilities: list[str] = Field(description="Capabilities that it holds.")
    children: list[str] = Field(description="Names of its children.")
    limits: dict[str, int] = Field(description="Limits of its machine; absent: the host's.")
    parallel: int | None = Field(
        description="Maximum number of tasks at once; null: the program of the agent decides."
    )
    subagent: str = Field(
        "", description="Id of the sub-agent of this agent that calls; empty: the agent itself."
    )


class ListAgentsParams(Paged):
    root: Agent | None = Field(None, description="Only this agent and its descendants.")
    limit: int = Field(
        500, ge=1, le=3000, description="Maximum number of agents in a page, at most 500."
    )


class AgentRow(Result):
    name: str = Field(description="Name of the agent.")
    uuid: str = Field(description="UUID of the agent.")
    parent: str | None = Field(
        description="Name of the parent; null for a root, and when the caller cannot see it."
    )
    role: str = Field(description="Role of the agent.")
    title: str = Field(description="Title of the agent: free text.")
    state: str = Field(description="State of the machine.")
    activity: str = Field(description="What the agent is doing: idle, running or blocked.")
    quarantine: str = Field(
        description="The agent whose quarantine holds it, itself or one above; empty: none."
    )


class AgentPage(Page):
    agents: list[AgentRow] = Field(description="The agents; each is followed by its descendants.")


@operation(action="read", allow=SELF)
def whoami(call: Call, _params: WhoamiParams) -> Identity:
    """Show the caller's identity: name, place in the tree, role and capabilities."""
    if call.by_operator:
        return Identity(
            name=OPERATOR, uuid=OPERATOR, parent=None, role=OPERATOR, title="", tier="",
            model="", models=[*call.models.aliases], runtime="", capabilities=[],
            children=list(call.hive.topology.roots), limits={},
            parallel=None,
        )  # fmt: skip
    # The answer depends on the snapshot alone; the request was authorized before.
    identity = call.hive.identity_cache.get(call.caller)
    if not isinstance(identity, Identity):
        identity = call.hive.identity_cache[call.caller] = _identity(call)
    if call.sub is not None:
        return identity.model_copy(update={"subagent": call.sub.id})
    return identity


def _identity(call: Call) -> Identity:
    spec = call.hive.spec(call.caller)
    return Identity(
        name=call.caller,
        uuid=spec.id,
        parent=call.hive.topology.parent(call.caller),
        role=spec.role.value,
        title=spec.title,
        tier=spec.tier.value,
        model=call.models.own_model(spec),
        models=[*call.models.allowed_models(spec)],
        runtime=spec.runtime or "",
        capabilities=list(spec.capabilities),
        children=list(call.hive.topology.children(call.caller)),
        limits=spec.limits.model_dump(exclude_none=True),
        parallel=spec.parallel,
    )


@operation(action="read", allow=ANYONE, target="root", preposition="below", aliases=("get_tree",))
def list_agents(call: Call, params: ListAgentsParams) -> AgentPage:
    """List the agents that the caller can see, in the order of the tree.

    An agent sees itself, its ancestors, its siblings, its descendants and the agents on its
    allow-list; the operator sees all. The daemon does not list other agents and answers calls about
    them as if they did not exist. The rows are flat, with `parent`, so that a tree of any depth
    fits in a reply.
    """
    seen = frozenset(visible_names(call.hive, call.caller))
    names = _names_in_tree_order(call, seen, params.root)
    start = _page_start(call, names, params.after)
    page = islice((_row(call, seen, name) for name in names[start:]), min(params.limit, _AGENTS))
    rows = list(take_fitting(page, lambda row: reply_bytes(row.title)))
    end = start + len(rows) >= len(names)
    return AgentPage(agents=rows, next=None if end else rows[-1].uuid)


def _names_in_tree_order(call: Call, seen: frozenset[str], root: str | None) -> list[str]:
    tree = call.hive.topology
    below = seen if root is None else seen.intersection(tree.subtree(root))
    return sorted(below, key=lambda name: tree.numbering[name])


def _page_start(call: Call, names: list[str], after: str | None) -> int:
    """Where a page starts. The last agent of the previous page may have been moved or destroyed."""
    if after is None:
        return 0
    name = call.hive.name(after)
    if name is None or name not in names:
        raise Conflict("the tree has changed since the previous page; list it again")
    return names.index(name) + 1


def _row(call: Call, seen: frozenset[str], name: str) -> AgentRow:
    spec, parent = call.hive.spec(name), call.hive.topology.parent(name)
    return AgentRow(
        name=name,
        uuid=spec.id,
        parent=parent if parent in seen else None,
        role=spec.role.value,
        title=spec.title,
        state=call.states.state(spec.id).value,
        activity=call.states.activity(spec.id),
        quarantine=quarantine_holder(call, spec.id),
    )
