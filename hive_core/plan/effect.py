"""What a proposal would make of an agent: its next spec, what it gains, what a deploy does. Pure.

The daemon writes to the spec what was approved and nothing else, so everything here is a function
of two specs and of what stands in `[request]`.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from hive_core.model.agents.agent import AgentSpec, Limits
from hive_core.model.agents.capability import check_capabilities, check_grantable, no_effect_reason
from hive_core.model.config.agent_config import AgentConfig, Reload, Wishes
from hive_core.model.config.approval import Effect
from hive_core.model.config.settings import NIX_IMAGE

# Of the spec: what a deploy may change, what a machine has from its start on, what tells files.
FIELDS: Final = (
    "config", "nar", "system", "capabilities", "limits", "command", "boot", "harness",
)  # fmt: skip
_AT_START: Final = ("image", "boot", "command")
_LIVE_LIMITS: Final = frozenset({"disk", "inodes"})  # the kernel's quota; the unit has the others
_CONTENT: Final = ("config", "nar", "system")
_NETWORK: Final = "network:"
_ORDER: Final = tuple(Effect)
MODULE: Final = "agent.nix"
HELD, NEW, LOST, NONE, USELESS = "held", "new", "taken", "none", "refused: it has no effect"


@dataclass(frozen=True, slots=True)
class Shown:
    """An agent with one configuration: its spec, and what `agent.toml` says."""

    spec: AgentSpec
    config: AgentConfig


@dataclass(frozen=True, slots=True)
class Mark:
    """One value of `[request]`. `gives`: the agent could not do that, or not so much, before.

    `kind` and `name` are hive's own words; `before` and `after` may be what an agent wrote.
    """

    kind: str
    name: str
    before: str
    after: str
    gives: bool


def apply(spec: AgentSpec, wishes: Wishes) -> AgentSpec:
    """The spec once the wishes are granted; InvalidArgument for what is on no closed list, and for
    a right that it does not hold and that has no effect.

    More than its creator holds is possible here and only here: it is the operator who approves.
    """
    wanted: dict[str, object] = {
        "capabilities": check_grantable(
            wishes.capabilities_over(spec.capabilities), spec.capabilities
        )
    }
    if named := wishes.limits.model_dump(exclude_none=True):
        wanted["limits"] = Limits(**{**spec.limits.model_dump(), **named})
    for field in ("command", "boot", "harness"):
        if (value := getattr(wishes, field)) is not None:
            wanted[field] = value
    return spec.model_copy(update=wanted)


def fields(spec: AgentSpec) -> dict[str, Any]:
    """What a deploy may change, as JSON: for the record of a generation."""
    return {name: value for name, value in spec.model_dump(mode="json").items() if name in FIELDS}


def back(now: AgentSpec, before: Mapping[str, object], after: Mapping[str, object]) -> AgentSpec:
    """The spec as it was `before` a deploy made it `after`, and keeping what others did since.

    A capability that the operator took away meanwhile is not given back.
    """
    old, new = (AgentSpec.model_validate({"uuid": now.uuid, **each}) for each in (before, after))
    given = set(new.capabilities) - set(old.capabilities)
    taken = set(old.capabilities) - set(new.capabilities)
    wanted: dict[str, object] = {
        "capabilities": check_capabilities((set(now.capabilities) - given) | taken),
        "limits": Limits(**{
            name: getattr(old.limits, name) if value == getattr(new.limits, name) else value
            for name, value in now.limits.model_dump().items()
        }),
        **{name: getattr(old, name) for name in _CONTENT},
    }  # fmt: skip
    for name in ("command", "boot", "harness"):
        if getattr(now, name) == getattr(new, name):
            wanted[name] = getattr(old, name)
    return now.model_copy(update=wanted)


def rolled_back(
    now: AgentSpec, then: Mapping[str, object], current: Mapping[str, object]
) -> AgentSpec:
    """The spec with the generation `then` in place of the `current` one.

    It gives no capability: what was approved once may have been taken away since.
    """
    found = back(now, then, current)
    kept = tuple(each for each in found.capabilities if each in now.capabilities)
    return found.model_copy(update={"capabilities": kept})


def effect(before: Shown, after: Shown, changed: Collection[str]) -> Effect:
    """What a deploy does to the agent while it runs; `changed` are the paths that differ."""
    found = (_by_spec(before.spec, after.spec), _by_files(before, after, changed))
    return max(found, key=_ORDER.index)


def _by_spec(before: AgentSpec, after: AgentSpec) -> Effect:
    moved = set(before.capabilities) ^ set(after.capabilities)
    bounds = {name for name, value in before.limits if value != getattr(after.limits, name)}
    if (
        any(getattr(before, name) != getattr(after, name) for name in _AT_START)
        or any(each.startswith(_NETWORK) for each in moved)
        or bounds - _LIVE_LIMITS
    ):
        return Effect.RESTART
    if before.system != after.system:
        return Effect.SWITCH
    return Effect.LIVE if moved or bounds else Effect.NOTHING


def _by_files(before: Shown, after: Shown, changed: Collection[str]) -> Effect:
    """A module of the system is switched to; other files are the harness's to take up.

    It does so while it runs if it said so already when it was started, and still says so.
    """
    module = after.spec.image == NIX_IMAGE and MODULE in changed
    if not set(changed) - {MODULE} if module else not changed:
        return Effect.SWITCH if module else Effect.NOTHING
    live = before.config.harness.reload is after.config.harness.reload is Reload.LIVE
    if not live:
        return Effect.RESTART
    return Effect.SWITCH if module else Effect.LIVE


def marks(spec: AgentSpec, wishes: Wishes) -> tuple[Mark, ...]:
    """Every value that is asked for, and everything that the agent would lose by asking."""
    return (
        *_capabilities(spec, wishes),
        *_limits(spec.limits, wishes.limits),
        *_plain(spec, wishes),
    )


def _capabilities(spec: AgentSpec, wishes: Wishes) -> Iterator[Mark]:
    held, after = set(spec.capabilities), set(wishes.capabilities_over(spec.capabilities))
    named = _named(wishes)
    for each in sorted(after & (named | (after - held))):
        new = each not in held
        if new and no_effect_reason(each):
            yield Mark(*_kind(each), "", USELESS, gives=False)
            continue
        yield Mark(*_kind(each), "" if new else HELD, NEW if new else HELD, gives=new)
    for each in sorted(held - after):
        yield Mark(*_kind(each), HELD, LOST, gives=False)
    for kind, values in (
        ("capability", wishes.capabilities), ("mount", wishes.mounts), ("secret", wishes.secrets),
    ):  # fmt: skip
        if values == ():
            yield Mark(kind, NONE, "", NONE, gives=False)
    if wishes.network == NONE:
        yield Mark("network", NONE, "", NONE, gives=False)


def _named(wishes: Wishes) -> set[str]:
    """The capabilities that the wishes spell out, one way or another."""
    only = wishes.model_copy(update={"capabilities": wishes.capabilities or ()})
    return set(only.capabilities_over(()))


def _kind(capability: str) -> tuple[str, str]:
    """How a capability is called to those who decide."""
    word, _, argument = capability.partition(":")
    match word:
        case "network" | "secret":
            return word, argument
        case "meta.read" | "applied.read":
            return "mount", word.removesuffix(".read")
        case _:
            return "capability", capability


def _limits(before: Limits, wanted: Limits) -> Iterator[Mark]:
    for name, value in wanted.model_dump(exclude_none=True).items():
        old = getattr(before, name)
        # Without a limit of its own it has the host's default, which is not known here.
        more = old is None or value > old
        shown = "" if old is None else str(old)
        yield Mark("limit", name, shown, str(value), gives=more)


def _plain(spec: AgentSpec, wishes: Wishes) -> Iterator[Mark]:
    for name in ("command", "boot", "harness"):
        if (value := getattr(wishes, name)) is not None:
            old = getattr(spec, name)
            yield Mark(name, name, _words(old), _words(value), gives=old != value)


def _words(value: bool | Sequence[str]) -> str:  # noqa: FBT001 - a value to be shown
    return json.dumps(value)
