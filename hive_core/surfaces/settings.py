"""`docs/reference/settings.md`, written from the model of the settings."""

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

`/etc/hive/hive.toml` is read when the daemon starts; `systemctl reload hived` starts it anew, which
stops no agent. Every setting has a default, so an absent file is a valid one. `hive setup` writes
the file with every table and every default in a comment. Where bytes are meant a number or a text
such as `"512M"` may stand, where a command is meant a list of words or a text that is split as a
shell splits it.

An unknown key, or a value that does not fit, is refused with file, line and key and with what is
allowed, by `hive config check` and `hive doctor` as by the daemon: that does not start, its log
says why, and one that runs keeps the settings that it has when it is told to reload.
"""


def settings_page() -> str:
    """The whole page: plain keys first, then a section for each table."""
    fields = Settings.model_fields
    tables = {name: field for name, field in fields.items() if table_type(field) is not None}
    plain = {name: field for name, field in fields.items() if name not in tables}
    parts = [_HEAD, *_table(plain)]
    for name, field in tables.items():
        model = table_type(field)
        assert model is not None  # noqa: S101 - chosen by it just now
        about = field.description or " ".join((model.__doc__ or "").split())
        parts += [f"## [{name}]\n", about + "\n", *_table(model.model_fields)]
        for key, each in model.model_fields.items():
            if below := subtable_type(each):
                doc = " ".join((below.__doc__ or "").split())
                parts += [f"## [{name}.{key}.NAME]\n", doc + "\n", *_table(below.model_fields)]
    return "\n".join(parts)


def table_type(field: FieldInfo) -> type[Value] | None:
    kind = field.annotation
    return kind if isinstance(kind, type) and issubclass(kind, Value) else None


def subtable_type(field: FieldInfo) -> type[Value] | None:
    """What each table of a table of tables is."""
    kinds = get_args(field.annotation) if get_origin(field.annotation) is dict else ()
    kind = kinds[-1] if kinds else None
    return kind if isinstance(kind, type) and issubclass(kind, Value) else None


def _table(fields: dict[str, FieldInfo]) -> Iterator[str]:
    yield "| Key | Default | |\n| --- | --- | --- |"
    for name, field in fields.items():
        yield f"| `{name}` | {_default(field)} | {field.description or ''} |"
    yield ""


def _default(field: FieldInfo) -> str:
    """As it would stand in the file; what is absent by default, or has to be said, has none."""
    value = field.get_default(call_default_factory=False)
    if value is None or value is PydanticUndefined:
        return ""
    if isinstance(value, dict):
        shown = ", ".join(f"{key} = {json.dumps(path or '')}" for key, path in value.items())
        return f"`{{ {shown} }}`"
    return f"`{json.dumps(str(value) if isinstance(value, Path) else value)}`"
