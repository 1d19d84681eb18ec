"""Values as people write them in `hive.toml` and `agent.toml`: sizes and commands as texts.

The wire and the meta repository have numbers and lists only.
"""

from __future__ import annotations

import shlex
from typing import Annotated, Final

from pydantic import BeforeValidator, ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError

from hive_core.model.agents.agent import Limits, SubtreeLimits
from hive_core.model.config.sizes import parse_size

SIZES: Final = ("memory_max", "memory_high", "disk")  # the limits that are bytes


def fault_at(place: tuple[int | str, ...], reason: str) -> ValidationError:
    """What a validator raises to report a fault at the key to change."""
    kind = PydanticCustomError("fault", "{reason}", {"reason": reason})
    details = InitErrorDetails(type=kind, loc=place, input=None)
    return ValidationError.from_exception_data("settings", [details])


def read_size(value: object) -> object:
    """`"512M"` as a number; other types are left to the next validator."""
    return parse_size(value) if isinstance(value, str) else value


def _read_limits(value: object) -> object:
    if not isinstance(value, dict):
        return value
    limits = dict(value)
    for key in SIZES:
        try:
            limits |= {key: read_size(limits[key])} if key in limits else {}
        except ValueError as error:
            raise fault_at((key,), str(error)) from error
    return limits


def split_command(value: object) -> object:
    """`"ls -l"` as its words, quoted as for a shell; no shell runs it."""
    if not isinstance(value, str):
        return value
    try:
        return tuple(shlex.split(value))
    except ValueError as error:
        raise ValueError(f"cannot split {value[:60]!r} into words: {error}") from error


Bytes = Annotated[int, BeforeValidator(read_size)]
WrittenLimits = Annotated[Limits, BeforeValidator(_read_limits)]
WrittenSubtree = Annotated[SubtreeLimits, BeforeValidator(_read_limits)]
Command = Annotated[tuple[str, ...], BeforeValidator(split_command)]
