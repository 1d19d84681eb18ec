"""`docs/reference/settings.md`, generated from the model of the settings."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import get_args, get_origin

from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from hive_core.model.agents.agent import Value
from hive_core.model.config.settings import Settings

_HEAD = """\
# Settings

Generated from the model by `python -m hive_core.surfaces`; do not edit.

The daemon reads `/etc/hive/hive.toml` when it starts; `systemctl reload hived` restarts the daemon,
which stops no agent. Every setting has a default, so an absent file is valid. `hive setup` writes
the file with every table and every default in a comment. A size is a number of bytes or a text such
as `"512M"`; a command is a list of words or a text that is split as a shell splits it.

`hive config check`, `hive doctor` and the daemon refuse an unknown key or an invalid value, with
file, line, key and what is allowed. The daemon does not start then, and logs the reason; a running
one keeps its settings when it is told to reload.
"""


def settings_page() -> str:
    """The whole page: plain keys first, then a section for each table."""
    fields = Settings.model_fields
    tables = {name: field for name, field in fields.items() if table_type(field) is not None}
    plain = {name: field for name, field in fields.items() if name not in tables}
    parts = [_HEAD, *field_table(plain)]
    for name, field in tables.items():
        model = table_type(field)
        assert model is not None  # noqa: S101 - chosen by it just now
        about = field.description or " ".join((model.__doc__ or "").split())
        parts += [f"## [{name}]\n", about + "\n", *field_table(model.model_fields)]
        for key, key_field in model.model_fields.items():
            if below := subtable_type(key_field):
                doc = " ".join((below.__doc__ or "").split())
                parts += [f"## [{name}.{key}.NAME]\n", doc + "\n", *field_table(below.model_fields)]
    return "\n".join(parts)


def table_type(field: FieldInfo) -> type[Value] | None:
    kind = field.annotation
    return kind if isinstance(kind, type) and issubclass(kind, Value) else None


def subtable_type(field: FieldInfo) -> type[Value] | None:
    """The model of each table in a table of tables."""
    kinds = get_args(field.annotation) if get_origin(field.annotation) is dict else ()
    kind = kinds[-1] if kinds else None
    return kind if isinstance(kind, type) and issubclass(kind, Value) else None


def field_table(fields: dict[str, FieldInfo]) -> Iterator[str]:
    """The keys of one table of a file with their defaults, as rows."""
    yield "| Key | Default | |\n| --- | --- | --- |"
    for name, field in fields.items():
        yield f"| `{name}` | {_default(field)} | {field.description or ''} |"
    yield ""


def _default(field: FieldInfo) -> str:
    """The default as it would be written in the file; empty for an absent or required value."""
    value = field.get_default(call_default_factory=False)
    if value is None or value is PydanticUndefined:
        return ""
    if isinstance(value, dict):
        shown = ", ".join(f"{key} = {json.dumps(path or '')}" for key, path in value.items())
        return f"`{{ {shown} }}`"
    return f"`{json.dumps(str(value) if isinstance(value, Path) else value)}`"
