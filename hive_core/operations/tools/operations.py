"""Grants for single uses of a tool of execution. The container runs the program.

The daemon decides each grant: which agent, which tool, with which argument, for which task. A
program that an agent runs without a grant is limited by its container alone.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal
from uuid import uuid4

from pydantic import Field

from hive_core.broker.call import Call, Record
from hive_core.broker.operation import Mutation, Params, Result, operation
from hive_core.broker.timers import due
from hive_core.errors import LimitReached, NotAllowed, NotFound
from hive_core.ledger.audit.events import AuditEntry
from hive_core.ledger.tools.storage import ToolGrant
from hive_core.model.agents.agent import AgentSpec
from hive_core.model.agents.phase import QueenPhase
from hive_core.model.agents.roles import ROLE_DEFAULTS, RoleBehaviour
from hive_core.model.agents.toolset import execution_tools
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
from hive_core.operations.credentials.missing import unusable_tools
from hive_core.operations.fields import Agent, bounded_text
from hive_core.operations.tasks.steps import begin_work, execution_lock
from hive_core.policy.phase_guard import phase_reason
from hive_core.policy.rules import ANCESTOR, OPERATOR, SELF

OPEN_MOST: Final = 16
SPARE: Final = 30.0  # seconds that a grant is valid beyond the requested time
SHOWN: Final = 200
_AT_ONCE: Final = 100

Word = Annotated[str, bounded_text(16 << 10)]


class UseToolParams(Mutation):
    tool: str = Field(max_length=64, description="Name of the tool, or one of its aliases.")
    argument: list[Word] = Field(
        max_length=WORDS_MOST * 4,
        description="Words of the command, or one path below the workspace.",
    )
    task: str = Field(
        "", max_length=64, description="Task that the tool is used for; default: none."
    )
    seconds: float = Field(30.0, gt=0, le=3600, description="Seconds that the use may take.")


class GrantResult(Result):
    grant: str = Field(description="Id of the grant for this one use; return it with `end_tool`.")
    tool: str = Field(description="Name of the tool.")
    expires: float = Field(description="Seconds since 1970.")


class EndToolParams(Mutation):
    grant: str = Field(max_length=64, description="Id of the grant.")
    status: Literal["ok", "failed", "timeout", "killed"] = Field(
        "ok", description="How the use ended."
    )
    detail: Annotated[str, bounded_text(1000)] = Field("", description="Details in words.")


class ToolEnded(Result):
    grant: str = Field(description="Id of the grant; it cannot be used again.")


class ListToolsParams(Params):
    agent: Agent | None = Field(None, description="Agent that has the tools; default: the caller.")


class ToolRow(Result):
    tool: str = Field(description="Name of the tool.")
    kind: str = Field(description="execution, planning or conversation.")
    aliases: list[str] = Field(description="Other names of the tool.")
    summary: str = Field(description="What the tool does.")
    allowed: bool = Field(description="Whether the agent may use it now.")
    entries: list[str] = Field(
        description="Allowed arguments, as entries of the agent's list; empty: not allowed."
    )
    why: str = Field(description="Why it is not allowed; empty when it is.")


class ToolRows(Result):
    behaviour: str = Field(description="manager or worker, by the role of the agent; or operator.")
    tools: list[ToolRow] = Field(description="All tools of execution.")


@operation(action="work", allow=SELF)
def use_tool(call: Call, params: UseToolParams) -> Record[GrantResult]:
    """Request one use of a tool of execution, with exactly this argument.

    The role must have the tool, an entry of the agent's own list must match, and no plan of the
    agent may wait for approval. `hive-agent tool` requests a grant, runs the tool and returns the
    grant.
    """
    tool = find_tool(params.tool)
    words = check_argument(tool, params.argument)
    _check_task(call, params)
    _check_permission(call, tool, words, params.task)
    check_tool_budget(call, call.uuid, params.task)
    if len(call.ledger.tools.open_grants(call.uuid)) >= OPEN_MOST:
        raise LimitReached(f"cannot use {tool.name}: {OPEN_MOST} grants are open")
    expires = call.now + params.seconds + SPARE
    text = _masked_text(call, words)
    grant = ToolGrant(uuid4().hex, call.uuid, tool.name, (text,), params.task, call.now, expires)
    call.ledger.tools.add(grant)
    count_tool_call(call, call.uuid, params.task)
    call.notify("grant")
    if params.task:
        begin_work(call, call.ledger.tasks.require(params.task), "a tool was used for it")
    return Record(
        GrantResult(grant=grant.id, tool=tool.name, expires=expires), fields=_event_fields(grant)
    )


@operation(action="work", allow=SELF)
def end_tool(call: Call, params: EndToolParams) -> Record[ToolEnded]:
    """Return a grant and report how the use ended. The grant cannot be used again."""
    grant = call.ledger.tools.get(params.grant)
    if grant is None or grant.agent != call.uuid or grant.expires <= call.now:
        raise NotFound(f"no grant {params.grant}")
    call.ledger.tools.delete(grant.id)
    call.notify("grant")
    fields = {**_event_fields(grant), "status": params.status, "detail": params.detail}
    return Record(ToolEnded(grant=grant.id), fields=fields)


@operation(action="read", allow=SELF | ANCESTOR | OPERATOR, target="agent", preposition="of")
def list_tools(call: Call, params: ListToolsParams) -> ToolRows:
    """List the tools of execution.

    Which an agent may use now, with which arguments, and why not.
    """
    if params.agent is None and call.by_operator:
        rows = [_tool_row(tool, (parse_entry(tool.name),), "") for tool in TOOLS.values()]
        return ToolRows(behaviour="operator", tools=rows)
    spec = call.hive.spec(params.agent or call.caller)
    rows = []
    for tool in TOOLS.values():
        entries, why = allowed_entries(spec, tool, phase_of(call, spec))
        rows.append(_tool_row(tool, entries, why or execution_lock(call.ledger, spec.id)))
    return ToolRows(behaviour=ROLE_DEFAULTS[spec.role].behaviour.value, tools=rows)


@due(at=lambda ledger: ledger.tools.next_expiry(), topics=frozenset({"grant"}))
def expire_grants(call: Call) -> Record[Result]:
    """Delete expired grants, whose programs ended without a report."""
    for grant in call.ledger.tools.expired_grants(call.now, _AT_ONCE):
        call.ledger.tools.delete(grant.id)
        call.ledger.events.append(_expiry_event(call, grant))
    call.notify("events")
    return Record(Result(), audited=True)


def phase_of(call: Call, spec: AgentSpec) -> QueenPhase:
    """The phase of a queen; other agents have none, and it changes nothing for them."""
    state = call.ledger.phases.get(spec.id) if spec.has_phases else None
    return QueenPhase.INDEPENDENT if state is None else state.phase


def agent_tools(call: Call, spec: AgentSpec) -> list[str]:
    """The tools of execution that an agent may use, by name."""
    phase = phase_of(call, spec)
    return [tool.name for tool in TOOLS.values() if allowed_entries(spec, tool, phase)[0]]


def allowed_entries(
    spec: AgentSpec, tool: Tool, phase: QueenPhase = QueenPhase.INDEPENDENT
) -> tuple[tuple[ToolEntry, ...], str]:
    """The entries that allow an agent a tool, or, without any, the reason."""
    profile = spec.profile if spec.has_phases else None
    if tool.name not in execution_tools(spec.role, profile, phase):
        return (), _absence_reason(spec, tool, phase)
    if spec.tools is None:
        return (ToolEntry(tool.name),), ""
    entries = tuple(entry for entry in map(parse_entry, spec.tools) if entry.tool == tool.name)
    return entries, "" if entries else "it is not on your list"


def _absence_reason(spec: AgentSpec, tool: Tool, phase: QueenPhase) -> str:
    """Why an agent does not have a tool of execution."""
    if spec.has_phases:
        return phase_reason(phase, tool.name)
    if ROLE_DEFAULTS[spec.role].behaviour is RoleBehaviour.MANAGER:
        return "you plan and delegate"
    return f"the role {spec.role} has no such tool"


def _check_task(call: Call, params: UseToolParams) -> None:
    """Refuse a task that is not an open task of the caller."""
    if not params.task:
        return
    task = call.ledger.tasks.get(params.task)
    if task is None or task.assignee != call.uuid or not task.open:
        raise NotFound(f"no open task {params.task} of yours")


def _check_permission(call: Call, tool: Tool, words: tuple[str, ...], task: str) -> None:
    """Raise NotAllowed, which is recorded, when the agent may not use the tool so or now."""
    if call.by_operator:
        raise NotAllowed(f"cannot use {tool.name}: tools are for agents", rule="tools")
    spec = call.hive.spec(call.caller)
    entries, why = allowed_entries(spec, tool, phase_of(call, spec))
    if call.sub is not None and tool.name not in call.sub.tools:
        why = "it is none of the tools of this sub-agent"
    if not why and not any(entry.matches(words) for entry in entries):
        why = f"{_masked_text(call, words)!r} is not on your list"
    if not why and task and _tool_name(tool, words) in _dropped_tools(call, spec, task):
        why = "this task goes without it, as a credential for it is missing"
    if not why:
        lock = call.ledger.tasks.require(task).locked if task else ""
        why = lock or execution_lock(call.ledger, call.uuid)
    if why:
        raise NotAllowed(f"cannot use {tool.name}: {why}", rule="tools")


def _dropped_tools(call: Call, spec: AgentSpec, task: str) -> set[str]:
    """The tools that the task was assigned without, and that still lack a credential."""
    without = call.ledger.tasks.require(task).request.without_tools
    return {*without} & {*unusable_tools(call, spec)} if without else set()


def _tool_name(tool: Tool, words: tuple[str, ...]) -> str:
    """The name of a tool in the toolset of a model; one of a server has that of the server."""
    return "__".join((tool.name, *words)) if tool.name == "mcp" else tool.name


def _tool_row(tool: Tool, entries: tuple[ToolEntry, ...], why: str) -> ToolRow:
    return ToolRow(
        tool=tool.name, kind=tool.kind.value, aliases=list(tool.aliases), summary=tool.summary,
        allowed=not why, entries=[] if why else [str(entry) for entry in entries], why=why,
    )  # fmt: skip


def _event_fields(grant: ToolGrant) -> dict[str, object]:
    return {
        "tool": grant.tool, "argument": " ".join(grant.argument)[:SHOWN], "grant": grant.id,
        "task": grant.task,
    }  # fmt: skip


def _masked_text(call: Call, words: tuple[str, ...]) -> str:
    """The beginning of the argument, without secrets.

    Secrets are hidden before the text is cut: half a secret would not be recognized.
    """
    return call.ledger.events.masks.hide(" ".join(words), SHOWN)


def _expiry_event(call: Call, grant: ToolGrant) -> AuditEntry:
    name = call.hive.name(grant.agent) or ""
    return AuditEntry(
        "tool", DAEMON, "grants_expire", grant.agent, None, "", "its time is over",
        call.hive.commit, call.request, call.now, {**_event_fields(grant), "target_name": name},
    )  # fmt: skip
