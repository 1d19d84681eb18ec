"""Builds a dataclass from decoded JSON, with a strict check of every field.

A field names its check in its annotation: `Annotated[int, check]`. The check returns the reason of
a refusal, or None. Standard library only: the root helper checks every request with this module.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import StrEnum
from types import UnionType
from typing import Annotated, Any, Final, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from hive_core.model.names import is_short

Check = Callable[[Any], str | None]
T = TypeVar("T")
COMMAND_MAX: Final = 65536


class Malformed(ValueError):
    """A value that is not a valid action: `field` says where, `reason` why."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field}: {reason}")
        self.field, self.reason = field, reason


def matcher(pattern: str, reason: str) -> Check:
    """Check text against a whole pattern."""
    compiled = re.compile(pattern, re.ASCII)
    return lambda value: None if compiled.fullmatch(value) else reason


def between(low: int, high: int) -> Check:
    """Check a number against its bounds, both included."""
    return lambda value: None if low <= value <= high else f"must be {low} to {high}"


def start_of(bases: range) -> Check:
    """Check a number against the starts of uid ranges."""
    return lambda value: None if value in bases else "is not the start of a range for this use"


def path(least: int, most: int) -> Check:
    """Check a path of short ids; no id may occur twice, so no node can lie below itself."""

    def fault(value: tuple[str, ...]) -> str | None:
        if not least <= len(value) <= most or len(set(value)) != len(value):
            return f"must hold {least} to {most} different short ids"
        return None if all(map(is_short, value)) else "must hold short ids of 8 hex digits"

    return fault


def command(value: tuple[str, ...]) -> str | None:
    """Say why the words are not a command that can be executed."""
    if re.search("[\0\ud800-\udfff]", "".join(value)) or (value and not value[0]):
        return "must start with a program and hold neither NUL nor half characters"
    return None if sum(map(len, value)) <= COMMAND_MAX else f"must be within {COMMAND_MAX} letters"


def build(kind: type[T], value: object, where: str = "") -> T:
    """Build one dataclass from a decoded object; refuse unknown and missing fields."""
    if not isinstance(value, Mapping):
        raise Malformed(where, "must be an object")
    hints, prefix = get_type_hints(kind, include_extras=True), f"{where}." if where else ""
    needed = {field.name for field in fields(kind) if field.default is MISSING}  # type: ignore[arg-type]
    if unknown := value.keys() - hints.keys():
        raise Malformed(f"{prefix}{min(unknown)}", "is unknown")
    if missing := needed - value.keys():
        raise Malformed(f"{prefix}{min(missing)}", "is missing")
    return kind(**{key: _value(hints[key], item, f"{prefix}{key}") for key, item in value.items()})


def _value(hint: Any, value: object, where: str) -> object:  # noqa: ANN401 - an annotation
    """Turn one decoded JSON value into what the annotation asks for."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Annotated:
        built = _value(inner[0], value, where)
        if (reason := inner[1](built)) is not None:
            raise Malformed(where, reason)
        return built
    if origin in (UnionType, Union):  # only `X | None`
        return None if value is None else _value(inner[0], value, where)
    if origin is tuple:  # only `tuple[X, ...]`
        if not isinstance(value, list | tuple):
            raise Malformed(where, "must be a list")
        return tuple(_value(inner[0], item, where) for item in value)
    return (build if is_dataclass(hint) else _scalar)(hint, value, where)


def _scalar(kind: type[T], value: object, where: str) -> T:
    if issubclass(kind, StrEnum) and value in tuple(kind):
        return kind(cast("str", value))
    if type(value) is not kind:  # exact, since True is an int in Python
        raise Malformed(where, f"must be of type {kind.__name__}")
    return value
