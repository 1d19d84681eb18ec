"""What an event tells of beside its target, for the tables that people read."""

from __future__ import annotations

from typing import Final

_NOUNS: Final = ("approval", "definition")


def subject_of(fields: object) -> tuple[str, object] | None:
    """The noun of the thing that the fields of an event name, and its name; None: there is none."""
    if not isinstance(fields, dict):
        return None
    return next(((noun, fields[noun]) for noun in _NOUNS if fields.get(noun)), None)
