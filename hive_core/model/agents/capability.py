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
OPERATOR_ONLY: Final = frozenset({"network:host"})

# On the list, and read by nothing: specs that hold one are loaded, and nobody is given one.
_WITHOUT_EFFECT: Final = {
    "network": "this host has no network profile, agents have the loopback device alone",
    "subagents": "there are no sub-agents inside of a container",
}

_ARGUMENT: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)


def capability_fault(capability: str) -> str | None:
    """Say why `capability` is none of the closed list, or None when it is."""
    word, colon, argument = capability.partition(":")
    if not colon:
        return None if word in PLAIN else "is not a capability"
    if word not in WITH_ARGUMENT:
        return "is not a capability"
    return None if _ARGUMENT.fullmatch(argument) else "has an argument that is not a plain word"


def check_capabilities(capabilities: Iterable[str], field: str = "capabilities") -> tuple[str, ...]:
    """The capabilities sorted and without repetition, or InvalidArgument naming the odd one."""
    found = sorted(set(capabilities))
    for each in found:
        if reason := capability_fault(each):
            raise InvalidArgument(f"{each!r} {reason}", field=field)
    return tuple(found)


def no_effect_reason(capability: str) -> str | None:
    """Say why holding the capability would change nothing, or None when something reads it."""
    return _WITHOUT_EFFECT.get(capability.partition(":")[0])


def check_grantable(
    capabilities: Iterable[str], held: Iterable[str] = (), field: str = "capabilities"
) -> tuple[str, ...]:
    """`checked`, of what somebody gives: InvalidArgument too for a right that has no effect.

    `held`: what the agent has already, which may be of a time when that was not refused.
    """
    found, owned = check_capabilities(capabilities, field), frozenset(held)
    for each in found:
        if each not in owned and (reason := no_effect_reason(each)):
            raise InvalidArgument(f"{each!r} has no effect: {reason}", field=field)
    return found


def covers(held: Iterable[str], wanted: str) -> bool:
    """Whether someone who holds `held` holds `wanted` too."""
    owned = held if isinstance(held, tuple | frozenset) else tuple(held)
    if wanted in owned:
        return True
    word, colon, _ = wanted.partition(":")
    return bool(colon) and word == "meta.update" and word in owned


def missing_capabilities(held: Iterable[str], wanted: Iterable[str]) -> tuple[str, ...]:
    """What of `wanted` is not covered by `held`; empty for a subset."""
    owned = frozenset(held)
    return tuple(each for each in wanted if not covers(owned, each))
