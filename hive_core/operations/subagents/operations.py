"""Sub-agents: an agent opens and closes temporary helpers inside its own container."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated, Final, Literal
from uuid import uuid4

from pydantic import AfterValidator, Field

from hive_core.broker.call import Call, Later, Ready, Record, SlowReadSources
from hive_core.broker.operation import Mutation, Params, Result, operation
from hive_core.errors import Conflict, InvalidArgument, LimitReached, NotAllowed, NotFound
from hive_core.model.agents.subagent import (
    CAPABILITY,
    CLONE,
    INHERIT,
    SubAgent,
    SubAgentKind,
    address,
)
from hive_core.model.wire.egress import canonical_rule, network_profile
from hive_core.operations.fields import Agent, Reason
from hive_core.operations.models.reserve import own_task
from hive_core.operations.subagents.closing import EVENT, SubAgentEnd, close_tree, event_fields
from hive_core.operations.tools.toolset import toolset_rows
from hive_core.policy.rules import ANCESTOR, OPERATOR, SELF, holds

RULE: Final = "subagents"
SECONDS_MOST: Final = 86_400.0
# Where the agent sees the sockets of its sub-agents.
FOLDER: Final = "/run/hive/sub"
_SHOWN: Final = 20
_COST_MOST: Final = 1_000_000.0


def _canonical(text: str) -> str:
    return text if text == INHERIT else canonical_rule(text)


EgressRuleText = Annotated[str, Field(max_length=300), AfterValidator(_canonical)]
Tool = Annotated[str, Field(min_length=1, max_length=64)]
Count = Annotated[int, Field(ge=0, le=1 << 40)]


class OpenSubagentParams(Mutation):
    kind: SubAgentKind = Field(
        description="clone: a copy of the session of its parent; named: one with a definition."
    )
    name: str = Field(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$",
        description="Name of the definition; of a clone: clone.",
    )
    tools: list[Tool] = Field(
        max_length=256, description="Names of its tools: a part of those of the caller."
    )
    timeout_seconds: float = Field(
        gt=0, le=SECONDS_MOST, description="Seconds after which the daemon ends it."
    )
    network: list[EgressRuleText] = Field(
        [], max_length=64,
        description="Rules of its network, as NAME:PORT; `inherit`: those of its parent. They and"
        " the rules of all above it have to allow a connection. Empty: it has no network.",
    )  # fmt: skip
    task: str | None = Field(
        None, max_length=64,
        description="The task of the agent that it works for; its calls of models are charged to"
        " this task.",
    )  # fmt: skip


class OpenedSubagent(Result):
    id: str = Field(description="Id of the sub-agent; never used again.")
    party: str = Field(description="Its party: UUID/ID.")
    uid: int = Field(description="The uid in the container that its sockets accept, and no other.")
    inbox: str = Field(description="Address of its inbox: NAME/ID.")
    broker_socket: str = Field(description="Its socket to the daemon, as the container sees it.")
    model_socket: str = Field(description="Its socket for calls of models.")
    egress_socket: str = Field(description="Its socket to hosts; empty: it has no network.")
    depth: int = Field(description="Its depth; 1 where the agent itself opened it.")
    clone_depth: int = Field(description="Number of clones in its line, itself included.")
    deadline: float = Field(
        description="When the daemon ends it, in seconds since 1970; at most that of its parent."
    )


class TokenUse(Params):
    """Tokens that a sub-agent says it has used; the daemon counts those of its calls itself."""

    input_tokens: Count = Field(0, description="Tokens that it read.")
    output_tokens: Count = Field(0, description="Tokens that it wrote.")


class SubagentMetadata(Params):
    """What a session says about the run of a sub-agent."""

    agent: str = Field("", max_length=64, description="Name of the definition, or clone.")
    model: str = Field("", max_length=128, description="Model that it called.")
    provider: str = Field("", max_length=128, description="Provider of the model.")
    latency_ms: Count = Field(0, description="Milliseconds that it took.")
    usage: TokenUse = Field(TokenUse(), description="Tokens that it used.")
    cost: float | None = Field(
        None, ge=0, le=_COST_MOST, description="Price, in the host's currency; null: unknown."
    )


class CloseSubagentParams(Mutation):
    id: str = Field(max_length=64, description="Id of the sub-agent.")
    status: Literal["success", "error", "timeout", "cancelled"] = Field(description="How it ended.")
    metadata: SubagentMetadata = Field(
        SubagentMetadata(), description="What the session says about its run; it is recorded."
    )
    reason: Reason = Field("", description="Why it ended so, in words.")


class ChargedCalls(Result):
    """What the calls of models of a sub-agent used, as the daemon charged them."""

    model_calls: int = Field(description="Number of its calls of models.")
    tokens_in: int = Field(description="Tokens of input that were charged for them so far.")
    tokens_out: int = Field(description="Tokens of output that were charged for them so far.")
    cost: int = Field(description="Money that was charged for them so far, in millionths.")


class ClosedSubagent(ChargedCalls):
    id: str = Field(description="Id of the sub-agent.")
    seconds: float = Field(description="Seconds for which it was open.")


class ListSubagentsParams(Params):
    agent: Agent | None = Field(
        None, description="Agent that has them; absent: the caller, or all of the operator."
    )


class SubagentRow(ChargedCalls):
    agent: str = Field(description="Name of its agent.")
    id: str = Field(description="Id of the sub-agent.")
    kind: str = Field(description="clone or named.")
    name: str = Field(description="Name of its definition; of a clone: clone.")
    parent: str = Field(description="Its parent: the name of the agent, or NAME/ID.")
    uid: int = Field(description="Its uid in the container.")
    depth: int = Field(description="Its depth.")
    clone_depth: int = Field(description="Number of clones in its line, itself included.")
    tools: list[str] = Field(description="Names of its tools.")
    network: list[str] = Field(description="Rules of its network; empty: it has none.")
    task: str = Field(description="The task that it works for; empty: none.")
    opened: float = Field(description="When it was opened, in seconds since 1970.")
    deadline: float = Field(description="When the daemon ends it, in seconds since 1970.")


class SubagentRows(Result):
    subagents: list[SubagentRow] = Field(description="The open sub-agents, the oldest first.")


@dataclass(frozen=True, slots=True)
class NewSubAgent:
    """Id and uid of a sub-agent whose sockets are open already."""

    id: str
    uid: int


@operation(action="work", allow=SELF & holds(CAPABILITY))
def open_subagent(
    call: Call, params: OpenSubagentParams
) -> Record[OpenedSubagent] | Later[OpenedSubagent]:
    """Open a sub-agent of the caller: a helper in its container, with its own sockets and inbox.

    The daemon writes its depth and ends it at its deadline, or with the agent. Only processes of
    its uid can use its sockets, and they cannot use those of the agent. The session of the agent
    starts its program. A sub-agent may open others; the bounds are [subagents] of hive.toml.
    """
    if call.by_operator:
        raise Conflict("cannot open subagent: the operator is not an agent")
    depth, clone_depth = check_limits(call, params)
    tools = _check_tools(call, params.tools)
    network = _check_network(call, params.network)
    task = own_task(call, call.uuid, params.task)
    new = call.read_result
    if not isinstance(new, NewSubAgent):
        return _open_sockets(call, has_network=bool(network))
    deadline = call.now + params.timeout_seconds
    opener = ""
    if call.sub is not None:
        opener, task = call.sub.id, task or call.sub.task
        deadline = min(deadline, call.sub.deadline)
    sub = SubAgent(
        call.uuid, new.id, params.kind, params.name, opener, new.uid, depth, clone_depth, tools,
        task, call.now, deadline, network,
    )  # fmt: skip
    call.ledger.subagents.add(sub)
    call.notify(f"{EVENT}:{call.uuid}")
    fields = {**event_fields(sub), "tools": sorted(tools)[:_SHOWN], "seconds": deadline - call.now}
    if network:
        fields["network"] = list(network)[:_SHOWN]
    return Record(_open_result(call, sub), fields=fields, kind=EVENT)


@operation(action="work", allow=SELF & holds(CAPABILITY))
def close_subagent(call: Call, params: CloseSubagentParams) -> Record[ClosedSubagent]:
    """Close a sub-agent of the caller, with all that it opened: sockets, inbox and calls end.

    The metadata are recorded as the session states them, beside what the daemon has measured.
    """
    sub = call.ledger.subagents.get(call.uuid, params.id)
    if sub is None or (call.sub is not None and sub.opener != call.sub.id):
        raise NotFound(f"no open sub-agent {params.id} of yours")
    used = call.ledger.models.use_of_subagent(sub.id)
    end = SubAgentEnd(params.status, params.reason)
    said = params.metadata.model_dump(exclude_none=True)
    close_tree(call, sub, end, records_first=False)
    fields = {**event_fields(sub), **end.fields, **used._asdict(), "metadata": said}
    closed = ClosedSubagent(id=sub.id, seconds=max(0.0, call.now - sub.opened), **used._asdict())
    return Record(closed, fields={key: value for key, value in fields.items() if value}, kind=EVENT)


@operation(action="read", allow=SELF | ANCESTOR | OPERATOR, target="agent", preposition="of")
def list_subagents(call: Call, params: ListSubagentsParams) -> SubagentRows:
    """List the open sub-agents of an agent, or of all agents for the operator."""
    store = call.ledger.subagents
    if call.by_operator and params.agent is None:
        subs = store.all()
    else:
        subs = store.of(call.hive.spec(params.agent or call.caller).id)
    return SubagentRows(subagents=[_row(call, sub) for sub in subs])


def check_limits(call: Call, params: OpenSubagentParams) -> tuple[int, int]:
    """Depth and clone depth of a new sub-agent; LimitReached names the bound of the host."""
    if (params.kind == CLONE) != (params.name == CLONE):
        raise InvalidArgument("the name of a clone, and of no other, is clone", field="name")
    bounds, sub = call.settings.subagents, call.sub
    depth, clone_depth = (0, 0) if sub is None else (sub.depth, sub.clone_depth)
    if depth >= bounds.max_depth:
        raise _limit("max_depth", f"your depth is {depth}, and the most is {bounds.max_depth}")
    if params.kind == CLONE and clone_depth >= bounds.max_clone_fork_depth:
        most = bounds.max_clone_fork_depth
        raise _limit("max_clone_fork_depth", f"your clone depth is {clone_depth} of {most}")
    if len(call.ledger.subagents.of(call.uuid)) >= bounds.most:
        raise _limit("most", f"{call.caller} has {bounds.most} open sub-agents")
    return depth + 1, clone_depth + (params.kind == CLONE)


def _limit(setting: str, reason: str) -> LimitReached:
    return LimitReached(
        f"cannot open a sub-agent: {reason}; the bound is [subagents] {setting}",
        rule=RULE, setting=f"subagents.{setting}",
    )  # fmt: skip


def _check_tools(call: Call, wanted: list[str]) -> frozenset[str]:
    """The tools of a new sub-agent; NotAllowed names those that the caller does not have."""
    tools = frozenset(wanted)
    if call.sub is not None:
        own = call.sub.tools
    else:
        own = frozenset(row.name for row in toolset_rows(call.hive.spec(call.caller)))
    if missing := sorted(tools - own):
        names = ", ".join(missing[:_SHOWN])
        raise NotAllowed(f"cannot open a sub-agent with {names}: no tool of yours", rule=RULE)
    return tools


def _check_network(call: Call, wanted: list[str]) -> tuple[str, ...]:
    """The rules of a new sub-agent; NotAllowed where its parent has no network itself."""
    if not wanted:
        return ()
    profile = network_profile(call.hive.spec(call.caller).capabilities)
    if profile is None or (call.sub is not None and not call.sub.network):
        raise NotAllowed("cannot open a sub-agent with a network: you have none", rule=RULE)
    return tuple(dict.fromkeys(wanted))


def _open_sockets(call: Call, *, has_network: bool) -> Later[OpenedSubagent]:
    """Make the sockets first: when the reply arrives, they listen."""
    new = NewSubAgent(uuid4().hex[:12], call.ledger.subagents.next_uid(call.uuid))

    async def open_sockets(sources: SlowReadSources) -> Ready:
        sockets = sources.subagent_sockets
        await sockets.open(call.uuid, new.id, new.uid, has_network=has_network)
        settle = partial(sources.subagent_sockets.settle, call.uuid, new.id)
        return Ready(value=new, over=settle)

    return Later(open_sockets)


def _open_result(call: Call, sub: SubAgent) -> OpenedSubagent:
    folder = f"{FOLDER}/{sub.id}"
    return OpenedSubagent(
        id=sub.id, party=sub.party, uid=sub.uid, inbox=address(call.caller, sub.id),
        broker_socket=f"{folder}/broker.sock", model_socket=f"{folder}/model.sock",
        egress_socket=f"{folder}/egress.sock" if sub.network else "",
        depth=sub.depth, clone_depth=sub.clone_depth, deadline=sub.deadline,
    )  # fmt: skip


def _row(call: Call, sub: SubAgent) -> SubagentRow:
    name = call.hive.name(sub.agent) or sub.agent
    return SubagentRow(
        agent=name, id=sub.id, kind=sub.kind, name=sub.name,
        parent=address(name, sub.opener) if sub.opener else name,
        uid=sub.uid, depth=sub.depth, clone_depth=sub.clone_depth, tools=sorted(sub.tools),
        network=list(sub.network),
        task=sub.task, opened=sub.opened, deadline=sub.deadline,
        **call.ledger.models.use_of_subagent(sub.id)._asdict(),
    )  # fmt: skip
