"""The toolset of an agent: the tools that its model sees, with their schemas."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, Literal

from pydantic import Field

from hive_core.broker.call import Call
from hive_core.broker.operation import REGISTRY, Operation, Params, Result, operation
from hive_core.errors import InvalidArgument
from hive_core.model.agents.agent import AgentSpec
from hive_core.model.agents.roles import ROLE_DEFAULTS
from hive_core.model.agents.toolset import HIDDEN_PARAMETERS, toolset
from hive_core.model.work.tools import LOCAL_TOOLS, TOOLS, Tool, ToolEntry
from hive_core.operations.fields import Agent
from hive_core.operations.tools.operations import allowed_entries
from hive_core.operations.tools.schemas import parameters_schema
from hive_core.policy.rules import ANCESTOR, OPERATOR, SELF


class ListToolsetParams(Params):
    agent: Agent | None = Field(None, description="Agent that has the tools; default: the caller.")


class ToolsetRow(Result):
    name: str = Field(description="Name of the tool.")
    kind: Literal["operation", "execution"] = Field(
        description="operation: a call of this name at the daemon; execution: `hive-agent tool`"
        " runs it in the container, with a grant where it executes anything."
    )
    description: str = Field(description="What the tool does, for a model.")
    parameters: dict[str, object] = Field(
        serialization_alias="schema", description="JSON schema of the parameters that a model sets."
    )


class Toolset(Result):
    role: str = Field(description="Role of the agent.")
    profile: str = Field(description="queen or maid; empty for all other agents.")
    behaviour: str = Field(description="manager (plans and delegates) or worker (uses tools).")
    tools: list[ToolsetRow] = Field(description="The tools, always in the same order.")


# By operation: they never change, and making one takes a tenth of a millisecond.
_rows: Final[dict[str, ToolsetRow]] = {}


@operation(action="read", allow=SELF | ANCESTOR | OPERATOR, target="agent", preposition="of")
def list_toolset(call: Call, params: ListToolsetParams) -> Toolset:
    """List the tools that the model of an agent sees: operations and tools of execution.

    Role, profile and capabilities of the agent decide, and for tools of execution also its own
    list. The rights of the agent are those of its place, role and capabilities; this list never
    adds to them.
    """
    if params.agent is None and call.by_operator:
        raise InvalidArgument("the operator has no toolset: name an agent", field="agent")
    spec = call.hive.spec(params.agent or call.caller)
    return Toolset(
        role=spec.role.value, profile=spec.profile.value if spec.profile else "",
        behaviour=ROLE_DEFAULTS[spec.role].behaviour.value, tools=list(toolset_rows(spec)),
    )  # fmt: skip


def toolset_rows(spec: AgentSpec) -> Iterator[ToolsetRow]:
    """The rows of this agent."""
    for name in toolset(spec.role, spec.profile, spec.capabilities):
        if (local := LOCAL_TOOLS.get(name)) is not None:
            yield _execution_row(local, ())
        elif (tool := TOOLS.get(name)) is None:
            yield _operation_row(REGISTRY[name])
        elif entries := allowed_entries(spec, tool)[0]:
            yield _execution_row(tool, entries)


def _operation_row(declared: Operation) -> ToolsetRow:
    row = _rows.get(declared.name)
    if row is None:
        hidden = HIDDEN_PARAMETERS.get(declared.name, frozenset())
        schema = parameters_schema(declared.params.model_json_schema(mode="validation"), hidden)
        row = ToolsetRow(
            name=declared.name, kind="operation", description=_joined_lines(declared.doc),
            parameters=schema,
        )  # fmt: skip
        _rows[declared.name] = row
    return row


def _execution_row(tool: Tool, entries: tuple[ToolEntry, ...]) -> ToolsetRow:
    text = tool.summary
    if entries and all(entry.words is not None for entry in entries):
        text += f" Only: {', '.join(map(str, entries))}."
    return ToolsetRow(
        name=tool.name, kind="execution", description=text, parameters=_execution_schema(tool)
    )


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
