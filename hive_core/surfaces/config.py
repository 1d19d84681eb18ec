"""`docs/reference/agent-toml.md` and its JSON schema, generated from the model."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from pydantic.fields import FieldInfo

from hive_core.model.agents.agent import Value
from hive_core.model.config.agent_config import AgentConfig
from hive_core.model.config.written_values import SIZES

_HEAD = """\
# agent.toml

Generated from the model by `python -m hive_core.surfaces`; do not edit.

The file is at the top of an agent's configuration. Every key has a default, so an absent file is
valid. An unknown key or an invalid value is refused with its name.
[agent.schema.json](agent.schema.json) is the same for editors (`hive config schema` prints it);
`hive config template` prints the initial file of an agent, and `hive config lint` checks a file.
See also [How to write a configuration](../how-to/write-a-config.md).

Limits: 64 KiB, tables at most 16 deep, finite numbers up to 2^53.
"""


_SIZE: Final = {"type": "string", "pattern": r"^[0-9]{1,18} ?([KMGTkmgt]?(i?[Bb])?)$"}


def config_page() -> str:
    """The whole page: a section for each table."""
    return "\n".join([_HEAD, *_sections(AgentConfig, "")])


def config_schema() -> str:
    """JSON Schema, draft 2020-12."""
    schema: dict[str, Any] = AgentConfig.model_json_schema()
    for name in SIZES:  # the model has the converted values
        schema["$defs"]["Limits"]["properties"][name]["anyOf"].append(_SIZE)
    schema["$defs"]["ConfigRequest"]["properties"]["command"]["anyOf"].append({"type": "string"})
    about = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "agent.toml"}
    return json.dumps({**schema, **about}, indent=2, sort_keys=True) + "\n"


def _sections(model: type[Value], above: str) -> Iterator[str]:
    for name, field in model.model_fields.items():
        below = _table(field)
        if below is None and above:
            continue
        about = field.description or _words(below)
        yield f"## [{above}{name}]\n\n{about}\n"
        if below is not None:
            yield from _rows(below)
            yield from _sections(below, f"{above}{name}.")


def _rows(model: type[Value]) -> Iterator[str]:
    yield "| Key | Default | |\n| --- | --- | --- |"
    for name, field in model.model_fields.items():
        if _table(field) is None:
            default = "" if field.default is None else f"`{json.dumps(field.default)}`"
            yield f"| `{name}` | {default} | {field.description or ''} |"
    yield ""


def _table(field: FieldInfo) -> type[Value] | None:
    kind = field.annotation
    return kind if isinstance(kind, type) and issubclass(kind, Value) else None


def _words(model: type[Value] | None) -> str:
    return " ".join(((model and model.__doc__) or "").split())
