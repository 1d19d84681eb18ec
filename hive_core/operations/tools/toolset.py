"""The toolset of an agent: the tools that its model sees, with their schemas."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from typing import Final, Literal

from pydantic import Field

from hive_core.broker.call import Call
from hive_core.broker.operation import REGISTRY, Operation, Params, Result, operation
from hive_core.errors import InvalidArgument
from hive_core.model.agents.agent import AgentSpec
from hive_core.model.agents.phase import QueenPhase
from hive_core.model.agents.roles import ROLE_DEFAULTS
from hive_core.model.agents.toolset import HIDDEN_PARAMETERS, toolset
from hive_core.model.work.tools import LOCAL_TOOLS, SESSION_TOOLS, TOOLS, Tool, ToolEntry
from hive_core.operations.fields import Agent
from hive_core.operations.tools.operations import allowed_entries, phase_of
from hive_core.operations.tools.schemas import parameters_schema
from hive_core.policy.rules import ANCESTOR, OPERATOR, SELF


class ListToolsetParams(Params):
    agent: Agent | None = Field(None, description="Agent that has the tools; default: the caller.")
    known: str = Field(
        "", max_length=64, description="Digest of the tools that the caller has read before."
    )


class ToolHints(Result):
    read_only: bool = Field(description="It changes nothing.")
    destructive: bool = Field(description="It may end, replace or remove something.")
    idempotent: bool = Field(description="A second call with the same values has no effect.")
    open_world: bool = Field(description="It may reach something outside the hive.")


class ToolsetRow(Result):
    name: str = Field(description="Name of the tool.")
    kind: Literal["operation", "execution", "session"] = Field(
        description="operation: a call of this name at the daemon; execution: `hive-agent tool`"
        " runs it in the container, with a grant where it executes anything; session: the"
        " session of the agent runs it itself."
    )
    description: str = Field(description="What the tool does, for a model.")
    parameters: dict[str, object] = Field(
        serialization_alias="schema", description="JSON schema of the parameters that a model sets."
    )
    hints: ToolHints = Field(
        description="What a call may do, for programs that ask before a call; they grant nothing."
    )


class Toolset(Result):
    role: str = Field(description="Role of the agent.")
    profile: str = Field(description="queen or maid; empty for all other agents.")
    phase: str = Field(description="Phase of a queen; empty for all other agents.")
    behaviour: str = Field(description="manager (plans and delegates) or worker (uses tools).")
    tools: list[ToolsetRow] = Field(
        description="The tools, always in the same order; none where `digest` is that of `known`."
    )
    digest: str = Field(description="Digest of the tools: equal while they are.")
    server_tools: list[str] = Field(
        description="Entries of its list for tools of its own MCP servers: `mcp` for all,"
        " `mcp(SERVER *)` for all of one server. Its session adds the tools of the servers."
    )


# By operation: they never change, and making one takes a tenth of a millisecond.
_rows: Final[dict[str, ToolsetRow]] = {}
# By tool: the digest of what never changes in its row, which is all but the description.
_fixed_digests: Final[dict[str, bytes]] = {}


@operation(action="read", allow=SELF | ANCESTOR | OPERATOR, target="agent", preposition="of")
def list_toolset(call: Call, params: ListToolsetParams) -> Toolset:
    """List the tools that the model of an agent sees: operations and tools of execution.

    Role, profile and capabilities of the agent decide, and for tools of execution also its own
    list. The rights of the agent are those of its place, role and capabilities; this list never
    adds to them. A queen has those of her phase, and the daemon refuses her all others.
    """
    if params.agent is None and call.by_operator:
        raise InvalidArgument("the operator has no toolset: name an agent", field="agent")
    spec = call.hive.spec(params.agent or call.caller)
    phase = phase_of(call, spec)
    rows = list(toolset_rows(spec, phase))
    if call.sub is not None:
        own = call.sub.tools
        rows = [row for row in rows if row.name in own]
    digest = _digest(rows)
    return Toolset(
        role=spec.role.value, profile=spec.profile.value if spec.profile else "",
        phase=phase.value if spec.has_phases else "",
        behaviour=ROLE_DEFAULTS[spec.role].behaviour.value,
        tools=[] if digest == params.known else rows, digest=digest,
        server_tools=_server_entries(call, spec),
    )  # fmt: skip


def _digest(rows: Iterable[ToolsetRow]) -> str:
    """The digest of the tools: a session has read their 30 KB once, and asks at each turn."""
    digest = sha256()
    for row in rows:
        if row.name not in _fixed_digests:
            fixed = row.model_copy(update={"description": ""}).model_dump_json()
            _fixed_digests[row.name] = sha256(fixed.encode()).digest()
        digest.update(_fixed_digests[row.name])
        digest.update(sha256(row.description.encode()).digest())
    return digest.hexdigest()


def _server_entries(call: Call, spec: AgentSpec) -> list[str]:
    """The entries for tools of its own servers; a sub-agent has no servers."""
    if call.sub is not None:
        return []
    return [str(entry) for entry in allowed_entries(spec, TOOLS["mcp"], phase_of(call, spec))[0]]


def toolset_rows(
    spec: AgentSpec, phase: QueenPhase = QueenPhase.INDEPENDENT
) -> Iterator[ToolsetRow]:
    """The rows of this agent; `phase` is that of a queen."""
    for name in toolset(spec.role, spec.profile, spec.capabilities, phase):
        if (local := LOCAL_TOOLS.get(name)) is not None:
            yield _execution_row(local, ())
        elif (own := SESSION_TOOLS.get(name)) is not None:
            yield _execution_row(own, (), "session")
        elif (tool := TOOLS.get(name)) is None:
            yield _operation_row(REGISTRY[name])
        elif entries := allowed_entries(spec, tool, phase)[0]:
            yield _execution_row(tool, entries)


def _operation_row(declared: Operation) -> ToolsetRow:
    row = _rows.get(declared.name)
    if row is None:
        hidden = HIDDEN_PARAMETERS.get(declared.name, frozenset())
        schema = parameters_schema(declared.params.model_json_schema(mode="validation"), hidden)
        row = ToolsetRow(
            name=declared.name, kind="operation", description=_joined_lines(declared.doc),
            parameters=schema,
            hints=ToolHints(
                read_only=not declared.mutates, destructive=declared.is_destructive,
                idempotent=declared.is_idempotent, open_world=declared.open_world,
            ),
        )  # fmt: skip
        _rows[declared.name] = row
    return row


def _execution_row(
    tool: Tool, entries: tuple[ToolEntry, ...], kind: Literal["execution", "session"] = "execution"
) -> ToolsetRow:
    text = tool.summary
    if entries and all(entry.words is not None for entry in entries):
        text += f" Only: {', '.join(map(str, entries))}."
    return ToolsetRow(
        name=tool.name, kind=kind, description=text, parameters=_execution_schema(tool),
        # A command may do anything that its container may; a path stays in the workspace.
        hints=ToolHints(
            read_only=tool.reads, destructive=not tool.reads, idempotent=tool.reads,
            open_world=not (tool.path or tool.reads),
        ),
    )  # fmt: skip


def _execution_schema(tool: Tool) -> dict[str, object]:
    properties: Mapping[str, object] = {
        name: dict(schema) for name, schema in tool.parameters.items()
    }
    return {
        "type": "object", "properties": properties, "required": list(tool.required),
        "additionalProperties": False,
    }  # fmt: skip


def _joined_lines(doc: str) -> str:
    """A docstring without the line breaks inside its paragraphs."""
    return "\n\n".join(" ".join(part.split()) for part in doc.split("\n\n"))
