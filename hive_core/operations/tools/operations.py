"""Tools of execution: asked for one use at a time. What runs is the container's affair.

The grant is what the daemon knows and decides: who, which tool, with what argument, for which task.
A program that runs something without asking is bounded by its container alone.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal
from uuid import uuid4

from pydantic import Field

from hive_core.broker.call import Call, Record
from hive_core.broker.operation import Mutation, Params, Result, operation
from hive_core.broker.timers import due
from hive_core.errors import LimitReached, NotAllowed, NotFound
from hive_core.ledger.audit.events import AuditEntry as Line
from hive_core.ledger.tools.storage import ToolGrant
from hive_core.model.agents.agent import AgentSpec
from hive_core.model.agents.roles import ROLE_DEFAULTS, RoleBehaviour
from hive_core.model.wire.record import DAEMON
from hive_core.model.work.tools import (
    TOOLS,
    WORDS_MOST,
    Tool,
    ToolEntry,
    check_argument,
    find_tool,
    parse_entry,
)
from hive_core.operations.budgets.spending import check_tool_budget, count_tool_call
from hive_core.operations.fields import Agent, bounded_text
from hive_core.operations.tasks.begin import begin, lock_of
from hive_core.policy.rules import ANCESTOR, OPERATOR, SELF

OPEN_MOST: Final = 16
SPARE: Final = 30.0  # seconds that a grant outlives what it was asked for
SHOWN: Final = 200
_A_TURN: Final = 100

Word = Annotated[str, bounded_text(16 << 10)]


class UseToolParams(Mutation):
    tool: str = Field(max_length=64, description="Its name or one of its aliases.")
    argument: list[Word] = Field(
        max_length=WORDS_MOST * 4,
        description="The words of the command, or one path below the workspace.",
    )
    task: str = Field("", max_length=64, description="For which task; empty: for none.")
    seconds: float = Field(30.0, gt=0, le=3600, description="How long it may take.")


class GrantResult(Result):
    grant: str = Field(description="Good for this one use; give it back with `end_tool`.")
    tool: str = Field(description="The tool by its one name.")
    expires: float = Field(description="Seconds since 1970.")


class EndToolParams(Mutation):
    grant: str = Field(max_length=64, description="The grant.")
    status: Literal["ok", "failed", "timeout", "killed"] = Field("ok", description="How it ended.")
    detail: Annotated[str, bounded_text(1000)] = Field("", description="In words.")


class Ended(Result):
    grant: str = Field(description="The grant; it cannot be used again.")


class ListToolsParams(Params):
    agent: Agent | None = Field(None, description="Whose; the caller's own when absent.")


class ToolRow(Result):
    tool: str = Field(description="Its name.")
    kind: str = Field(description="execution, planning or conversation.")
    aliases: list[str] = Field(description="Other names for it.")
    summary: str = Field(description="What it does.")
    allowed: bool = Field(description="Whether it may be used now.")
    entries: list[str] = Field(description="With which arguments; empty: with none.")
    why: str = Field(description="Why not; empty when it may.")


class Tools(Result):
    behaviour: str = Field(description="manager or worker, by the role.")
    tools: list[ToolRow] = Field(description="All tools of execution.")


@operation(action="work", allow=SELF)
def use_tool(call: Call, params: UseToolParams) -> Record[GrantResult]:
    """Ask for one use of a tool of execution, with exactly this argument.

    The role must have the tool, the agent's own list must have an entry that matches, and no plan
    of the agent may be waiting for approval. `hive-agent tool` asks, runs and gives back.
    """
    wanted = find_tool(params.tool)
    words = check_argument(wanted, params.argument)
    _check_task(call, params)
    _check(call, wanted, words, params.task)
    check_tool_budget(call, call.uuid, params.task)
    held = call.ledger.tools.open_grants(call.uuid)
    if len(held) >= OPEN_MOST:
        raise LimitReached(f"cannot use {wanted.name}: {OPEN_MOST} grants are open")
    expires = call.now + params.seconds + SPARE
    shown = _hidden(call, words)
    grant = ToolGrant(uuid4().hex, call.uuid, wanted.name, (shown,), params.task, call.now, expires)
    call.ledger.tools.add(grant)
    topics = frozenset[str]()
    count_tool_call(call, call.uuid, params.task)
    if params.task:
        topics = begin(call, call.ledger.tasks.require(params.task), "a tool was used for it")[1]
    return Record(
        GrantResult(grant=grant.id, tool=wanted.name, expires=expires),
        topics | {"grant"}, _fields(grant),
    )  # fmt: skip


@operation(action="work", allow=SELF)
def end_tool(call: Call, params: EndToolParams) -> Record[Ended]:
    """Give a grant back and say how the use of it ended. It cannot be used again."""
    grant = call.ledger.tools.get(params.grant)
    if grant is None or grant.agent != call.uuid or grant.expires <= call.now:
        raise NotFound(f"no grant {params.grant}")
    call.ledger.tools.delete(grant.id)
    fields = {**_fields(grant), "status": params.status, "detail": params.detail}
    return Record(Ended(grant=grant.id), frozenset({"grant"}), fields)


@operation(action="read", allow=SELF | ANCESTOR | OPERATOR, target="agent", preposition="of")
def list_tools(call: Call, params: ListToolsParams) -> Tools:
    """List the tools of execution: which an agent may use now, with what, and why not others."""
    if params.agent is None and call.by_operator:
        rows = [_row(each, tuple(map(parse_entry, (each.name,))), "") for each in TOOLS.values()]
        return Tools(behaviour="operator", tools=rows)
    spec = call.hive.spec(params.agent or call.caller)
    rows = []
    for each in TOOLS.values():
        found, why = allowed(spec, each)
        rows.append(_row(each, found, why or lock_of(call.ledger, spec.id)))
    return Tools(behaviour=ROLE_DEFAULTS[spec.role].behaviour.value, tools=rows)


@due(at=lambda ledger: ledger.tools.next_expiry(), topics=frozenset({"grant"}))
def grants_expire(call: Call) -> Record[Result]:
    """Grants that nobody gave back: what used them ended without a word."""
    for grant in call.ledger.tools.expired_grants(call.now, _A_TURN):
        call.ledger.tools.delete(grant.id)
        call.ledger.events.append(_expired(call, grant))
    return Record(Result(), frozenset({"events"}), audited=True)


def allowed(spec: AgentSpec, wanted: Tool) -> tuple[tuple[ToolEntry, ...], str]:
    """With which arguments an agent may use a tool; without any, why not."""
    habit = ROLE_DEFAULTS[spec.role]
    if wanted.name not in habit.tools:
        manages = habit.behaviour is RoleBehaviour.MANAGER
        return (), "you plan and delegate" if manages else f"the role {spec.role} has no such tool"
    if spec.tools is None:
        return (ToolEntry(wanted.name),), ""
    found = tuple(each for each in map(parse_entry, spec.tools) if each.tool == wanted.name)
    return found, "" if found else "it is not on your list"


def _check_task(call: Call, params: UseToolParams) -> None:
    """A task that is named is one of the caller's own, and open."""
    if not params.task:
        return
    task = call.ledger.tasks.get(params.task)
    if task is None or task.assignee != call.uuid or not task.open:
        raise NotFound(f"no open task {params.task} of yours")


def _check(call: Call, wanted: Tool, words: tuple[str, ...], task: str) -> None:
    """NotAllowed, which is recorded, when the agent may not use it so, or not now."""
    if call.by_operator:
        raise NotAllowed(f"cannot use {wanted.name}: tools are for agents", rule="tools")
    found, why = allowed(call.hive.spec(call.caller), wanted)
    if not why and not any(each.matches(words) for each in found):
        why = f"{_hidden(call, words)!r} is not on your list"
    if not why:
        named = call.ledger.tasks.require(task).locked if task else ""
        why = named or lock_of(call.ledger, call.uuid)
    if why:
        raise NotAllowed(f"cannot use {wanted.name}: {why}", rule="tools")


def _row(each: Tool, found: tuple[ToolEntry, ...], why: str) -> ToolRow:
    return ToolRow(
        tool=each.name, kind=each.kind.value, aliases=list(each.aliases), summary=each.summary,
        allowed=not why, entries=[] if why else [str(one) for one in found], why=why,
    )  # fmt: skip


def _fields(grant: ToolGrant) -> dict[str, object]:
    return {
        "tool": grant.tool, "argument": _shown(grant.argument), "grant": grant.id,
        "task": grant.task,
    }  # fmt: skip


def _hidden(call: Call, words: tuple[str, ...]) -> str:
    """The beginning, without secrets: one that was cut in two would not be found any more."""
    return call.ledger.events.masks.hide(" ".join(words), SHOWN)


def _shown(words: tuple[str, ...]) -> str:
    return " ".join(words)[:SHOWN]


def _expired(call: Call, grant: ToolGrant) -> Line:
    name = call.hive.name(grant.agent) or ""
    return Line(
        "tool", DAEMON, "grants_expire", grant.agent, None, "", "its time is over",
        call.hive.commit, call.request, call.now, {**_fields(grant), "target_name": name},
    )  # fmt: skip
