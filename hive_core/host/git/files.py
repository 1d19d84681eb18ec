"""The files of the meta repository as bytes: writes the hive to them, and reads it back.

Reading is strict: an unknown key, a doubled key, a bad name or a surplus file is an InvalidArgument
that names the file. Nothing is guessed.
"""

from __future__ import annotations

from typing import Final

from pydantic import ValidationError

from hive_core.errors import BadFrame, InvalidArgument
from hive_core.model.agents.agent import AgentSpec
from hive_core.model.agents.topology import Parents
from hive_core.model.config.validation import faults_of
from hive_core.model.names import name_fault
from hive_core.varlink import decode

TOPOLOGY: Final = "topology.json"
AGENTS: Final = "agents"
SUFFIX: Final = ".json"
LIMIT: Final = 1 << 20
SPEC_LIMIT: Final = 64 << 10


def topology_bytes(parents: Parents) -> bytes:
    """`name: parent or null`, sorted, one line for each agent. Names need no escaping."""
    lines = [
        f'  "{name}": ' + ("null" if parent is None else f'"{parent}"')
        for name, parent in sorted(parents.items())
    ]
    return ("{\n" + ",\n".join(lines) + "\n}\n" if lines else "{}\n").encode()


def spec_bytes(spec: AgentSpec) -> bytes:
    """The spec without unset fields, so that a later change of a default changes no agent."""
    return (spec.model_dump_json(indent=2, exclude_none=True) + "\n").encode()


def read_topology(data: bytes) -> dict[str, str | None]:
    parents: dict[str, str | None] = {}
    for name, parent in _object(data, TOPOLOGY).items():
        if fault := name_fault(name):
            raise InvalidArgument(f"{TOPOLOGY}: the name {name!r} {fault}", field=TOPOLOGY)
        if parent is not None and not isinstance(parent, str):
            reason = f"{TOPOLOGY}: the parent of {name} is neither a name nor null"
            raise InvalidArgument(reason, field=TOPOLOGY)
        parents[name] = parent
    return parents


def read_spec(data: bytes, file: str) -> AgentSpec:
    if len(data) > SPEC_LIMIT:
        raise InvalidArgument(f"{file}: larger than {SPEC_LIMIT} bytes", field=file)
    try:
        return AgentSpec.model_validate(_object(data, file))
    except ValidationError as error:
        fault = faults_of(AgentSpec, error)[0]
        raise InvalidArgument(f"{file}: {fault.key}: {fault.reason}", field=file) from error


def spec_path(name: str) -> str:
    """Path in agents/ of the file of an agent."""
    return f"{AGENTS}/{name}{SUFFIX}"


def agent_name(file: str) -> str:
    """The name of the agent whose spec is in this file of agents/."""
    name = file.removesuffix(SUFFIX)
    if name == file or name_fault(name):
        raise InvalidArgument(f"{AGENTS}/{file!r} is not named AGENT{SUFFIX}", field=AGENTS)
    return name


def _object(data: bytes, file: str) -> dict[str, object]:
    try:
        return decode(data)
    except BadFrame as error:
        raise InvalidArgument(f"{file}: {error.reason}", field=file) from error
