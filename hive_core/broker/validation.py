"""Errors for invalid parameters: the place, the expected value, the given value."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from hive_core.broker.operation import Confidential, Params
from hive_core.errors import HiveError, InvalidArgument, InvalidParameter

_At = tuple[tuple[str, ...], ErrorDetails]

NAMED: Final = 200
_OWN_WORDS: Final = frozenset({"value_error", "assertion_error"})
# What a value of the right shape can be; everything else that pydantic reports is a wrong shape.
_SENSELESS: Final = _OWN_WORDS | {
    "greater_than", "greater_than_equal", "less_than", "less_than_equal", "multiple_of",
    "finite_number", "string_too_short", "string_too_long", "string_pattern_mismatch",
    "too_short", "too_long",
}  # fmt: skip
_EXPECTED: Final[Mapping[str, str]] = {
    "string_type": "text", "bool_type": "true or false", "float_type": "a number",
    "int_type": "a whole number", "int_from_float": "a whole number", "none_required": "null",
    "list_type": "a list", "tuple_type": "a list", "dict_type": "an object",
    "model_type": "an object", "model_attributes_type": "an object",
}  # fmt: skip
_SHOWN: Final = 40
_WAYS: Final = 3  # in which a value could fit, of one that may be several things
_LISTED: Final = 24  # names of parameters
_UNSAID: Final = frozenset({"idempotency_key"})
_READ: Final = 64  # faults of one call; the first one is reported


def validation_error(
    error: ValidationError, parameters: Mapping[str, object], model: type[Params]
) -> HiveError:
    """The error: a wrong shape first, then a value that is out of its range."""
    faults = [
        (_path(detail, parameters), detail) for detail in error.errors(include_url=False)[:_READ]
    ]
    senseless = [(path, detail) for path, detail in faults if detail["type"] in _SENSELESS]
    # Of several shapes the best match was meant: report the fault in that shape, not the mismatches
    # with the others.
    meant = {path for path, _ in senseless}
    meant |= {path[:at] for path, _ in faults for at in range(len(path))}
    shapes = [(path, detail) for path, detail in faults if path not in meant]
    path, first = _worst(shapes) if shapes else senseless[0]
    place = ".".join(path)[:NAMED]
    quiet = issubclass(model, Confidential) or "secret" in place
    value = (
        _kind(first["input"])
        if quiet and isinstance(first["input"], str)
        else shown_value(first["input"])
    )
    if not shapes:
        return InvalidArgument(_sense(first, value), field=place)
    if first["type"] == "missing":
        return InvalidParameter(place, "it is missing")
    if first["type"] == "extra_forbidden":
        return InvalidParameter(place, f"there is none of this name{_known_names(first, model)}")
    ways = dict.fromkeys(_ways([detail for its, detail in shapes if its == path]))
    expected = " or ".join(list(ways)[:_WAYS])
    return InvalidParameter(place, f"expected {expected}, not {value}")


def _worst(shapes: Sequence[_At]) -> _At:
    """The first fault; but an unknown name first, as it explains a missing one."""
    unknown = (fault for fault in shapes if fault[1]["type"] == "extra_forbidden")
    return next(unknown, shapes[0])


def _path(detail: ErrorDetails, parameters: object) -> tuple[str, ...]:
    """The path to the faulty value, as the caller wrote it.

    Marks of pydantic's own lead nowhere in what was given, and are left out.
    """
    path, here = list[str](), parameters
    for part in detail["loc"]:
        try:
            here = here[part]  # type: ignore[index]
        except (TypeError, LookupError):
            continue
        path.append(str(part))
    if detail["type"] == "missing":
        path.append(str(detail["loc"][-1]))
    return tuple(path)


def _sense(detail: ErrorDetails, value: str) -> str:
    if detail["type"] in _OWN_WORDS:
        return detail["msg"].removeprefix("Value error, ").removeprefix("Assertion failed, ")
    return f"{detail['msg'].removeprefix('Input ')}, not {value}"


def _known_names(detail: ErrorDetails, model: type[Params]) -> str:
    """The known names, for a parameter of an unknown name."""
    within: type[BaseModel] | None = model
    for part in detail["loc"][:-1]:
        field = within.model_fields.get(str(part)) if within else None
        within = _only_model(field.annotation) if field else None
    fields = {} if within is None else within.model_fields
    names = [str(info.alias or name) for name, info in fields.items() if name not in _UNSAID]
    more = ", ..." if len(names) > _LISTED else ""
    return f", only {', '.join(names[:_LISTED])}{more}" if names else ""


def _only_model(annotation: object) -> type[BaseModel] | None:
    """The object that a field takes, if there is one kind of it."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    models = {model for part in get_args(annotation) if (model := _only_model(part))}
    return models.pop() if len(models) == 1 else None


def _ways(details: Sequence[ErrorDetails]) -> Iterator[str]:
    """The expected values, one for each possible shape."""
    for detail in details:
        if detail["type"] == "literal_error":
            yield str(detail.get("ctx", {}).get("expected", ""))
        else:
            message = detail["msg"].removeprefix("Input should be ").partition(", ")[0]
            yield _EXPECTED.get(detail["type"], message)


def shown_value(value: object) -> str:
    """A value in a few characters, without characters that act on a terminal."""
    if value is None or isinstance(value, bool | int | float):
        return json.dumps(value)
    if isinstance(value, str) and len(value) <= _SHOWN:
        return json.dumps(value)
    if isinstance(value, str):
        return f"{json.dumps(value[:_SHOWN])}... ({len(value)} characters)"
    return _kind(value)


def _kind(value: object) -> str:
    match value:
        case str():
            return f"a text of {len(value)} characters"
        case list():
            return f"a list of {len(value)}"
        case dict():
            return "an object"
        case _:
            return "this"
