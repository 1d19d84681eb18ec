"""The closed list of capabilities, how they are written, and which one covers which.

A capability is a word, or a word with an argument after a colon. `meta.update` without an argument
covers every `meta.update:INPUT`; nothing else covers more than itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from hive_core.errors import InvalidArgument

PLAIN: Final = (
    "spawn", "kill", "message.operator", "config.propose", "meta.read", "applied.read",
    "meta.update", "subagents", "artifact.write", "artifact.global", "broadcast", "escalate",
    "trigger", "budget",
)  # fmt: skip
WITH_ARGUMENT: Final = ("meta.update", "network", "secret")
HANDED_ON_BY_NOBODY: Final = frozenset({"network:host"})

_ARGUMENT: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)


def fault(capability: str) -> str | None:
    """Say why `capability` is none of the closed list, or None when it is."""
    word, colon, argument = capability.partition(":")
    if not colon:
        return None if word in PLAIN else "is not a capability"
    if word not in WITH_ARGUMENT:
        return "is not a capability"
    return None if _ARGUMENT.fullmatch(argument) else "has an argument that is not a plain word"


def checked(capabilities: Iterable[str]) -> tuple[str, ...]:
    """The capabilities sorted and without repetition, or InvalidArgument naming the odd one."""
    found = sorted(set(capabilities))
    for each in found:
        if reason := fault(each):
            raise InvalidArgument(f"{each!r} {reason}", field="capabilities")
    return tuple(found)


def covers(held: Iterable[str], wanted: str) -> bool:
    """Whether someone who holds `held` holds `wanted` too."""
    owned = held if isinstance(held, tuple | frozenset) else tuple(held)
    if wanted in owned:
        return True
    word, colon, _ = wanted.partition(":")
    return bool(colon) and word == "meta.update" and word in owned


def missing(held: Iterable[str], wanted: Iterable[str]) -> tuple[str, ...]:
    """What of `wanted` is not covered by `held`; empty for a subset."""
    owned = frozenset(held)
    return tuple(each for each in wanted if not covers(owned, each))
