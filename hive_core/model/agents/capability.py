"""The closed list of capabilities, their syntax, and which one covers which.

A capability is a word, or a word with an argument after a colon. `meta.update` without an argument
covers every `meta.update:INPUT`, and `network:host` covers `network:egress-allowlist`; any other
capability covers only itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from hive_core.errors import InvalidArgument
from hive_core.model.wire.egress import EGRESS_ALLOWLIST, HOST, NETWORK_PREFIX, network_fault

PLAIN: Final = (
    "spawn", "kill", "message.operator", "config.propose", "meta.read", "applied.read",
    "meta.update", "subagents", "artifact.write", "artifact.global", "broadcast", "escalate",
    "trigger", "budget",
)  # fmt: skip
WITH_ARGUMENT: Final = ("meta.update", "model", "network", "secret")
_ANY_HOST: Final = f"{NETWORK_PREFIX}{HOST}"
_ALLOWLIST: Final = f"{NETWORK_PREFIX}{EGRESS_ALLOWLIST}"
OPERATOR_ONLY: Final = frozenset({_ANY_HOST})

_UNKNOWN: Final = "is not a capability; there are " + ", ".join(
    (*PLAIN, *(f"{word}:NAME" for word in WITH_ARGUMENT))
)
_ARGUMENT: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)


def capability_fault(capability: str) -> str | None:
    """Why `capability` is not on the closed list, or None when it is."""
    word, colon, argument = capability.partition(":")
    if not colon:
        return None if word in PLAIN else _UNKNOWN
    if word not in WITH_ARGUMENT:
        return _UNKNOWN
    return None if _ARGUMENT.fullmatch(argument) else "has an argument that is not a plain word"


def check_capabilities(capabilities: Iterable[str], field: str = "capabilities") -> tuple[str, ...]:
    """The capabilities sorted and without duplicates; InvalidArgument names the first bad one."""
    chosen = sorted(set(capabilities))
    for capability in chosen:
        if reason := capability_fault(capability):
            raise InvalidArgument(f"{capability!r} {reason}", field=field)
    return tuple(chosen)


def no_effect_reason(capability: str) -> str | None:
    """Why holding the capability has no effect, or None when it has one.

    Specs that hold such a one are loaded, and no new grant of one is accepted.
    """
    word, colon, argument = capability.partition(":")
    return network_fault(argument) if colon and word == "network" else None


def check_grantable(
    capabilities: Iterable[str], held: Iterable[str] = (), field: str = "capabilities"
) -> tuple[str, ...]:
    """Like `check_capabilities`, for a grant: a right without effect is InvalidArgument too.

    `held`: what the agent has already, perhaps from a version that accepted such grants.
    """
    chosen, owned = check_capabilities(capabilities, field), frozenset(held)
    for capability in chosen:
        if capability not in owned and (reason := no_effect_reason(capability)):
            raise InvalidArgument(f"{capability!r} has no effect: {reason}", field=field)
    return chosen


def covers(held: Iterable[str], wanted: str) -> bool:
    """Whether a holder of `held` also holds `wanted`."""
    owned = held if isinstance(held, tuple | frozenset) else tuple(held)
    if wanted in owned:
        return True
    if wanted == _ALLOWLIST:
        return _ANY_HOST in owned
    word, colon, _ = wanted.partition(":")
    return bool(colon) and word == "meta.update" and word in owned


def missing_capabilities(held: Iterable[str], wanted: Iterable[str]) -> tuple[str, ...]:
    """Which of `wanted` are not covered by `held`; empty for a subset."""
    owned = frozenset(held)
    return tuple(capability for capability in wanted if not covers(owned, capability))
