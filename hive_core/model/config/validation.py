"""Faults in a file that people write, in hive's own words.

One validator for `hive.toml` and `agent.toml`, and so for the daemon, `hive doctor`, `hive config
check` and `hive config lint`: each fault names its key, the value, and what is allowed; an unknown
key is answered with the one that was probably meant.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Final, get_args

from annotated_types import Ge, Gt, Le, Lt
from pydantic import ValidationError
from pydantic.fields import FieldInfo

from hive_core.model.agents.agent import Value

Place = tuple[int | str, ...]

_BARE: Final = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)
_SHOWN_MOST: Final = 60
_BITS_MOST: Final = 128
_FEW: Final = 12
# What is expected, by the prefix of the kind that pydantic gives the fault.
_WANTED: Final = (
    ("bool", "true or false"), ("int", "a whole number"), ("float", "a number"),
    ("finite_number", "a finite number"), ("string_type", "a text in quotes"),
    ("path", "a path in quotes"), ("tuple_type", "a list in brackets"),
    ("list_type", "a list in brackets"), ("dict_type", "a table"), ("model", "a table"),
    ("date", "a date"), ("none_required", "nothing"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Fault:
    """`place` is the path to the value from the top of the file; empty: the whole file."""

    place: Place
    reason: str

    @property
    def key(self) -> str:
        """As `request.mounts[0]`; a name with unusual characters is quoted."""
        parts = [
            f"[{part}]" if isinstance(part, int) else f".{_toml_key(part)}" for part in self.place
        ]
        return "".join(parts).removeprefix(".")


def find_faults(model: type[Value], data: Mapping[str, object]) -> list[Fault]:
    """All faults of a parsed file."""
    try:
        model.model_validate(data)
    except ValidationError as error:
        return faults_of(model, error)
    return []


def faults_of(model: type[Value], error: ValidationError) -> list[Fault]:
    """The faults of a pydantic error; one for each place."""
    rows = error.errors(include_url=False)
    faults = [Fault(_place(row["loc"]), _reason(model, row)) for row in rows]
    return list({fault.place: fault for fault in reversed(faults)}.values())[::-1]


def _place(location: Place) -> Place:
    """Where a table's own key is invalid, the key itself is the place."""
    return location[:-1] if location[-1:] == ("[key]",) else location


def _toml_key(name: str) -> str:
    text = name if len(name) <= _SHOWN_MOST else name[:_SHOWN_MOST] + "..."
    return text if _BARE.fullmatch(text) else ascii(text)


def _reason(model: type[Value], row: Mapping[str, Any]) -> str:
    kind, place = str(row["type"]), tuple(row["loc"])
    if kind == "extra_forbidden":
        return _unknown_key_text(place, _keys(model, place[:-1]))
    if kind == "missing":
        return "is missing"
    if kind in ("value_error", "fault"):
        return str(row["msg"]).removeprefix("Value error, ")
    value = _toml_text(row.get("input"))
    wanted = _range_text(kind, _field(model, place)) or _expected_text(kind, row.get("ctx", {}))
    return f"{value} does not fit; allowed is {wanted}" if wanted else f"{value}: {row['msg']}"


def _unknown_key_text(place: Place, keys: Iterable[str]) -> str:
    known = sorted(keys)
    if near := get_close_matches(str(place[-1])[:_SHOWN_MOST], known, 1, 0.6):
        return f"unknown key; did you mean {near[0]}?"
    if 0 < len(known) <= _FEW:
        return f"unknown key; there are {', '.join(known)}"
    return "unknown key"


def _toml_text(value: object) -> str:
    """The value as TOML would write it, shortened."""
    match value:
        case bool():
            text = "true" if value else "false"
        case dict():
            text = "a table"
        case list():
            text = "a list"
        case int() if value.bit_length() > _BITS_MOST:  # Python does not format 4300 digits
            text = "a number of that size"
        case _:
            text = json.dumps(value) if isinstance(value, str) else ascii(str(value)).strip("'")
    return text if len(text) <= _SHOWN_MOST else text[:_SHOWN_MOST] + "..."


def _expected_text(kind: str, context: Mapping[str, object]) -> str:
    match kind:
        case "literal_error" | "enum":
            return str(context.get("expected", "")).replace("'", '"')
        case "string_pattern_mismatch":
            return f"a text that matches {context.get('pattern')}"
        case "string_too_long" | "string_too_short" | "too_long" | "too_short":
            most = context.get("max_length")
            unit = "characters" if kind.startswith("string") else "entries"
            return f"at {'most' if most else 'least'} {most or context.get('min_length')} {unit}"
        case _:
            return next((text for start, text in _WANTED if kind.startswith(start)), "")


def _range_text(kind: str, field: FieldInfo | None) -> str:
    """The whole range of a number, whichever bound was broken, or if it was not a number."""
    numeric = kind.startswith(("int", "float", "greater", "less", "finite"))
    if field is None or not numeric:
        return ""
    kinds = {field.annotation, *get_args(field.annotation)}
    words = "a whole number" if int in kinds else "a number"
    for bound in field.metadata:
        match bound:
            case Ge(ge=least):
                words += f" from {least:g}" if isinstance(least, float) else f" from {least}"
            case Gt(gt=least):
                words += f" above {least}"
            case Le(le=most):
                words += f" to {most}"
            case Lt(lt=most):
                words += f" below {most}"
            case _:
                continue
    return words


def _field(model: type[Value], place: Place) -> FieldInfo | None:
    """The declaration of the key at this place, through tables of tables."""
    field: FieldInfo | None = None
    table: type[Value] | None = model
    for part in place:
        if table is None:
            table = _value_of(field)  # a key that the user chose, with a table below it
            continue
        field = table.model_fields.get(str(part))
        if field is None:
            return None
        kind = field.annotation
        table = kind if isinstance(kind, type) and issubclass(kind, Value) else None
    return field


def _keys(model: type[Value], place: Place) -> Iterator[str]:
    """The keys of the table at this place."""
    table: type[Value] | None = model
    field: FieldInfo | None = None
    for part in place:
        if table is None:
            table = _value_of(field)
            continue
        field = table.model_fields.get(str(part))
        kind = field.annotation if field is not None else None
        table = kind if isinstance(kind, type) and issubclass(kind, Value) else None
    yield from table.model_fields if table is not None else ()


def _value_of(field: FieldInfo | None) -> type[Value] | None:
    kinds = get_args(field.annotation) if field is not None else ()
    return next((k for k in kinds if isinstance(k, type) and issubclass(k, Value)), None)
