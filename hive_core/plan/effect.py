"""What a proposal changes for an agent: its next spec, its gains, the effect of a deploy. Pure.

The daemon writes only what was approved to the spec, so everything here is a function of two specs
and of the `[request]` table.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from hive_core.model.agents.agent import AgentSpec, Limits
from hive_core.model.agents.capability import check_capabilities, check_grantable, no_effect_reason
from hive_core.model.config.agent_config import AgentConfig, ConfigRequest, Reload
from hive_core.model.config.approval import Effect
from hive_core.model.config.settings import NIX_IMAGE

# Fields of the spec: those that a deploy may change, that apply at the start only, that name files.
FIELDS: Final = (
    "config", "nar", "system", "capabilities", "limits", "command", "boot", "harness", "runtime",
    "model", "egress",
)  # fmt: skip
# Those that `[request]` sets one by one.
_PLAIN: Final = ("command", "boot", "harness", "runtime", "model", "egress")
_AT_START: Final = ("image", "boot", "command", "runtime", "model")
_LIVE_LIMITS: Final = frozenset({"disk", "inodes"})  # the kernel's quota; the unit has the others
_CONTENT: Final = ("config", "nar", "system")
_NETWORK: Final = "network:"
_ORDER: Final = tuple(Effect)
MODULE: Final = "agent.nix"
HELD, NEW, LOST, NONE, USELESS = "held", "new", "taken", "none", "refused: it has no effect"


@dataclass(frozen=True, slots=True)
class ConfiguredAgent:
    """An agent with one configuration: its spec and its `agent.toml`."""

    spec: AgentSpec
    config: AgentConfig


@dataclass(frozen=True, slots=True)
class RequestedChange:
    """One value of `[request]`. `gives`: the agent gains something by it.

    `kind` and `name` are hive's own words; `before` and `after` may contain text of an agent.
    """

    kind: str
    name: str
    before: str
    after: str
    gives: bool


def grant(spec: AgentSpec, request: ConfigRequest) -> AgentSpec:
    """The spec with the requested values granted.

    Raises InvalidArgument for an unknown value, and for a capability that the agent does not hold
    and that would have no effect. Only here can an agent get more than its creator holds: the
    operator approves it.
    """
    wanted: dict[str, object] = {
        "capabilities": check_grantable(
            request.capabilities_after(spec.capabilities), spec.capabilities
        )
    }
    if named := request.limits.model_dump(exclude_none=True):
        wanted["limits"] = Limits(**{**spec.limits.model_dump(), **named})
    for field in _PLAIN:
        if (value := getattr(request, field)) is not None:
            wanted[field] = value
    return spec.model_copy(update=wanted)


def fields(spec: AgentSpec) -> dict[str, Any]:
    """The fields that a deploy may change, as JSON: for the record of a generation."""
    return {name: value for name, value in spec.model_dump(mode="json").items() if name in FIELDS}


def undo(now: AgentSpec, before: Mapping[str, object], after: Mapping[str, object]) -> AgentSpec:
    """The spec with the deploy that changed `before` to `after` undone; later changes stay.

    A capability that the operator revoked meanwhile is not given back.
    """
    old, new = (
        AgentSpec.model_validate({"uuid": now.uuid, **values}) for values in (before, after)
    )
    added = set(new.capabilities) - set(old.capabilities)
    taken = set(old.capabilities) - set(new.capabilities)
    wanted: dict[str, object] = {
        "capabilities": check_capabilities((set(now.capabilities) - added) | taken),
        "limits": Limits(**{
            name: getattr(old.limits, name) if value == getattr(new.limits, name) else value
            for name, value in now.limits.model_dump().items()
        }),
        **{name: getattr(old, name) for name in _CONTENT},
    }  # fmt: skip
    for name in _PLAIN:
        if getattr(now, name) == getattr(new, name):
            wanted[name] = getattr(old, name)
    return now.model_copy(update=wanted)


def roll_back(
    now: AgentSpec, then: Mapping[str, object], current: Mapping[str, object]
) -> AgentSpec:
    """The spec with the generation `then` in place of the `current` one.

    It adds no capability: one that was approved once may have been revoked since.
    """
    spec = undo(now, then, current)
    capabilities = tuple(
        capability for capability in spec.capabilities if capability in now.capabilities
    )
    return spec.model_copy(update={"capabilities": capabilities})


def effect(before: ConfiguredAgent, after: ConfiguredAgent, changed: Collection[str]) -> Effect:
    """What a deploy does to the running agent; `changed` are the paths that differ."""
    effects = (_by_spec(before.spec, after.spec), _by_files(before, after, changed))
    return max(effects, key=_ORDER.index)


def _by_spec(before: AgentSpec, after: AgentSpec) -> Effect:
    moved = set(before.capabilities) ^ set(after.capabilities)
    bounds = {name for name, value in before.limits if value != getattr(after.limits, name)}
    if (
        any(getattr(before, name) != getattr(after, name) for name in _AT_START)
        or any(capability.startswith(_NETWORK) for capability in moved)
        or bounds - _LIVE_LIMITS
    ):
        return Effect.RESTART
    if before.system != after.system:
        return Effect.SWITCH
    return Effect.LIVE if moved or bounds else Effect.NOTHING


def _by_files(before: ConfiguredAgent, after: ConfiguredAgent, changed: Collection[str]) -> Effect:
    """The effect of changed files: a system module needs a switch, others go to the harness.

    The harness reloads files while it runs if both the old and the new `agent.toml` say so.
    """
    module = after.spec.image == NIX_IMAGE and MODULE in changed
    if not set(changed) - {MODULE} if module else not changed:
        return Effect.SWITCH if module else Effect.NOTHING
    live = before.config.harness.reload is after.config.harness.reload is Reload.LIVE
    if not live:
        return Effect.RESTART
    return Effect.SWITCH if module else Effect.LIVE


def requested_changes(spec: AgentSpec, request: ConfigRequest) -> tuple[RequestedChange, ...]:
    """Every requested value, and everything that the agent would lose by the request."""
    return (
        *_capabilities(spec, request),
        *_limits(spec.limits, request.limits),
        *_plain(spec, request),
    )


def _capabilities(spec: AgentSpec, request: ConfigRequest) -> Iterator[RequestedChange]:
    held, after = set(spec.capabilities), set(request.capabilities_after(spec.capabilities))
    named = _named_capabilities(request)
    for capability in sorted(after & (named | (after - held))):
        new = capability not in held
        if new and no_effect_reason(capability):
            yield RequestedChange(*_kind(capability), "", USELESS, gives=False)
            continue
        yield RequestedChange(
            *_kind(capability), "" if new else HELD, NEW if new else HELD, gives=new
        )
    for capability in sorted(held - after):
        yield RequestedChange(*_kind(capability), HELD, LOST, gives=False)
    for kind, values in (
        ("capability", request.capabilities), ("mount", request.mounts),
        ("secret", request.secrets),
    ):  # fmt: skip
        if values == ():
            yield RequestedChange(kind, NONE, "", NONE, gives=False)
    if request.network == NONE:
        yield RequestedChange("network", NONE, "", NONE, gives=False)


def _named_capabilities(request: ConfigRequest) -> set[str]:
    """The capabilities that the request names, directly or by another key."""
    only = request.model_copy(update={"capabilities": request.capabilities or ()})
    return set(only.capabilities_after(()))


def _kind(capability: str) -> tuple[str, str]:
    """The kind and the name of a capability, as the approver sees them."""
    word, _, argument = capability.partition(":")
    match word:
        case "network" | "secret" | "model" if argument:
            return word, argument
        case "meta.read" | "applied.read":
            return "mount", word.removesuffix(".read")
        case _:
            return "capability", capability


def _limits(before: Limits, wanted: Limits) -> Iterator[RequestedChange]:
    for name, value in wanted.model_dump(exclude_none=True).items():
        old = getattr(before, name)
        # An agent without a limit of its own has the host's default, which is not known here.
        more = old is None or value > old
        shown = "" if old is None else str(old)
        yield RequestedChange("limit", name, shown, str(value), gives=more)


def _plain(spec: AgentSpec, request: ConfigRequest) -> Iterator[RequestedChange]:
    for name in _PLAIN:
        if (value := getattr(request, name)) is not None:
            old = getattr(spec, name)
            yield RequestedChange(name, name, _words(old), _words(value), gives=old != value)


def _words(value: bool | str | Sequence[str] | None) -> str:  # noqa: FBT001 - a value to be shown
    return "" if value is None else json.dumps(value)
