"""`hive.toml` as `hive setup` writes it: all settings of the model, in comments.

Each key is a comment with its default, below its description; remove the `#` to change it.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator, Mapping
from enum import Enum
from pathlib import Path

from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from hive_core.model.agents.agent import Value
from hive_core.model.config.settings import Settings
from hive_core.surfaces.settings import subtable_type, table_type

_WIDTH = 96
_HEAD = """\
# Settings of this hive: every table and every key, generated from their declaration. Each line
# shows a default; remove the `#` to change it. A size is a number of bytes, or "512M".
#
#     hive config check         check this file
#     systemctl reload hived    put it in force; this stops no agent
"""


def settings_file() -> str:
    """The whole file."""
    fields = Settings.model_fields
    tables = {name: field for name, field in fields.items() if _is_table(field)}
    keys = {name: field for name, field in fields.items() if name not in tables}
    lines = [_HEAD, *_keys(keys)]
    for name, field in tables.items():
        lines += _table(name, field)
    return "\n".join(lines).rstrip() + "\n"


def _is_table(field: FieldInfo) -> bool:
    return table_type(field) is not None or isinstance(field.default, dict)


def _table(name: str, field: FieldInfo) -> Iterator[str]:
    model = table_type(field)
    yield from _comment(field.description or " ".join(((model and model.__doc__) or "").split()))
    yield f"[{name}]"
    if model is None:
        default = field.default if isinstance(field.default, dict) else {}
        yield from (f"#{key} = {_toml(value)}" for key, value in default.items())
        yield ""
        return
    yield from _keys(model.model_fields)
    for key, key_field in model.model_fields.items():
        if below := subtable_type(key_field):
            yield from _example(f"{name}.{key}.NAME", below)


def _example(heading: str, model: type[Value]) -> Iterator[str]:
    """A table that may exist several times, by default never: it is only described."""
    yield from _comment(" ".join((model.__doc__ or "").split()))
    yield f"# [{heading}]"
    for key, field in model.model_fields.items():
        value = _default(field)
        yield f"# {key} = {'...' if value is None else value}  {field.description or ''}".rstrip()
    yield ""


def _keys(fields: Mapping[str, FieldInfo]) -> Iterator[str]:
    for name, field in fields.items():
        if subtable_type(field):
            continue
        value = _default(field)
        absent = "" if value is not None else f"`{name}`, absent by default: "
        yield from _comment(absent + (field.description or ""))
        if value is not None:
            yield f"#{name} = {value}"
    yield ""


def _comment(text: str) -> Iterator[str]:
    yield from textwrap.wrap(
        text, _WIDTH, initial_indent="# ", subsequent_indent="# ", break_on_hyphens=False,
        break_long_words=False,
    )  # fmt: skip


def _default(field: FieldInfo) -> str | None:
    """The default as TOML; None for an absent or required value."""
    value = field.get_default(call_default_factory=False)
    return None if value is None or value is PydanticUndefined else _toml(value)


def _toml(value: object) -> str:
    match value:
        case dict():
            pairs = ", ".join(f"{key} = {_toml(item)}" for key, item in value.items())
            return f"{{ {pairs} }}" if pairs else "{}"
        case list() | tuple():
            return f"[{', '.join(map(_toml, value))}]"
        case Enum():
            value = value.value
        case Path() | None:
            value = str(value or "")  # no path: the image of the machine itself
        case _:
            pass
    return json.dumps(value)
