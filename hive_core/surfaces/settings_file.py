"""`hive.toml` as `hive setup` writes it, from the model of the settings: all of them, switched off.

Each key stands in a comment with its default, below what it is; taking the `#` away changes it.
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
# shows a default; take the `#` away to change it. A size is a number of bytes, or "512M".
#
#     hive config check         says what is wrong in this file
#     systemctl reload hived    puts it in force; no agent is stopped by it
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
    for key, each in model.model_fields.items():
        if below := subtable_type(each):
            yield from _example(f"{name}.{key}.NAME", below)


def _example(heading: str, model: type[Value]) -> Iterator[str]:
    """A table of which there may be several, none by default: only described."""
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
    """As TOML; None for what is absent by default, or has to be said."""
    value = field.get_default(call_default_factory=False)
    return None if value is None or value is PydanticUndefined else _toml(value)


def _toml(value: object) -> str:
    match value:
        case dict():
            pairs = ", ".join(f"{key} = {_toml(each)}" for key, each in value.items())
            return f"{{ {pairs} }}" if pairs else "{}"
        case list() | tuple():
            return f"[{', '.join(map(_toml, value))}]"
        case Enum():
            value = value.value
        case Path() | None:
            value = str(value or "")  # no path: an image of the machine itself
        case _:
            pass
    return json.dumps(value)
