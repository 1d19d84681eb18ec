"""A definition of agents as people write it: Markdown with front matter.

The top-level fields are those that Claude, Gemini and other tools read; hive's own fields are under
`hive`, named as in `spawn`. What hive does not have gives a warning with the reason, and an unknown
field one with the nearest known one: it never gives an agent more. A wrong value is refused.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from hive_core.errors import InvalidArgument
from hive_core.model.agents.agent import Limits, Role, SubtreeLimits
from hive_core.model.agents.definition_tools import ToolListReader, split_words
from hive_core.model.agents.foreign_words import MISSING_FIELDS, is_foreign_model
from hive_core.model.config.sizes import parse_percent
from hive_core.model.wire.egress import network_fault

NAME: Final = re.compile(r"[a-z]([a-z0-9-]{0,62}[a-z0-9])?", re.ASCII)
STANDARD_FIELDS: Final = (
    "name", "description", "tools", "disallowedTools", "model", "maxTurns", "permissionMode",
    "permission", "kind", "sandbox_mode", "hive",
)  # fmt: skip
# Other programs' spellings of standard fields.
STANDARD_ALIASES: Final = {
    "disallowed_tools": "disallowedTools", "max_turns": "maxTurns", "maxSteps": "maxTurns",
    "steps": "maxTurns",
}  # fmt: skip
HIVE_FIELDS: Final = (
    "role", "tier", "title", "image", "boot", "command", "capabilities", "limits", "subtree",
    "max_children", "max_depth", "after_task", "wakes", "parallel", "require_plan",
    "network", "funds", "runtime", "profile",
)  # fmt: skip
# Other spellings of hive's fields.
FIELD_ALIASES: Final = {"requirePlan": "require_plan", "brain": "runtime"}
UNSUPPORTED_HIVE_FIELDS: Final = ("revoke",)
NO_NETWORK: Final = "none"
# A size as people write it: 2G.
_SIZE: Final = re.compile(r"([0-9]+)([KMGT])i?B?", re.ASCII | re.IGNORECASE)
_POWERS: Final = {"K": 10, "M": 20, "G": 30, "T": 40}
_BYTES: Final = ("memory_max", "memory_high", "disk")
# Short names in `limits`: of a limit of the machine, or of another field of the agent.
_SHORT: Final = {"memory": "memory_max", "cpu": "cpu_quota", "tasks": "tasks_max"}
_BUDGET, _DEPTH = "budgetUsd", "depth"
# A file of another program, without a word of ours: an agent that works, with a model.
_FOREIGN: Final = {"role": Role.WORKER.value, "runtime": "builtin"}
_INHERITED: Final = (None, "", "inherit", "inherited")
DESCRIPTION_MOST: Final = 1024


@dataclass(frozen=True, slots=True)
class ParsedDefinition:
    """The result. `agent` has parameters of `spawn`; `warnings` are for people."""

    name: str
    description: str = ""
    agent: Mapping[str, object] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


def parse_definition(
    front: Mapping[str, object], name: str = "", aliases: Collection[str] | None = None
) -> ParsedDefinition:
    """The definition in this front matter; InvalidArgument names what is wrong.

    `aliases`: the models of this host; None where they are not known.
    """
    warnings: list[str] = []
    front = _standard_spelling(front)
    chosen_name = _name(front.get("name") or name, warnings)
    ours = front.get("hive")
    if ours is not None and not isinstance(ours, Mapping):
        raise InvalidArgument("hive: must be a table", field="hive")
    agent: dict[str, object] = {**_FOREIGN} if ours is None else _own_fields(ours)
    warnings += _field_warnings(front, ours or {})
    if front.get("maxTurns") is not None:
        agent["max_turns"] = front["maxTurns"]
    _check_role(agent)
    _check_network(agent)
    _apply_modes(front, agent, warnings)
    reader = ToolListReader(Role(str(agent.get("role", Role.AGENT))))
    tools = reader.read(_without_writing(front))
    if tools is not None:
        agent["tools"] = list(tools)
    if model := _model(front.get("model"), aliases, warnings):
        agent["model"] = model
    text = _description(front.get("description"), warnings)
    return ParsedDefinition(chosen_name, text, agent, (*warnings, *reader.warnings))


def _standard_spelling(front: Mapping[str, object]) -> dict[str, object]:
    fields = {str(key): value for key, value in front.items()}
    for other, ours in STANDARD_ALIASES.items():
        if other in fields:
            fields.setdefault(ours, fields.pop(other))
    return fields


def _name(value: object, warnings: list[str]) -> str:
    """The name; one with capitals, spaces or underscores is written as hive writes names."""
    name = str(value)
    if NAME.fullmatch(name):
        return name
    plain = "-".join(name.lower().replace("_", " ").split())
    if not isinstance(value, str) or not NAME.fullmatch(plain):
        raise InvalidArgument(
            f"name: {name[:64]!r} must be lower case words joined by hyphens", field="name"
        )
    warnings.append(f"name: {name!r} becomes {plain}")
    return plain


def _description(value: object, warnings: list[str]) -> str:
    text = " ".join(str(value or "").split())
    if len(text) > DESCRIPTION_MOST:
        warnings.append(f"description: cut at {DESCRIPTION_MOST} characters")
        text = text[: DESCRIPTION_MOST - 1].rstrip() + "…"
    return text


def _own_fields(ours: Mapping[object, object]) -> dict[str, object]:
    """The fields under `hive`, as parameters of `spawn`."""
    known = {FIELD_ALIASES.get(str(key), str(key)): value for key, value in ours.items()}
    agent = {key: known[key] for key in HIVE_FIELDS if known.get(key) is not None}
    _convert_limits(agent)
    return agent


def _model(value: object, aliases: Collection[str] | None, warnings: list[str]) -> str:
    """The alias of the model; empty for the model of the tier."""
    name = "" if value in _INHERITED else str(value)
    # The daemon refuses an alias that it does not have.
    if not is_foreign_model(name) or name in (aliases or ()):
        return name
    if aliases is None:
        warnings.append(
            f"model: {name}: used where models.toml has this alias, else the model of the tier"
        )
        return name
    warnings.append(
        f"model: {name}: no alias of this host: such agents have the model of their tier"
    )
    return ""


def _apply_modes(
    front: Mapping[str, object], agent: dict[str, object], warnings: list[str]
) -> None:
    """What other programs' modes of permission mean here. None of them gives a right."""
    mode = front.get("permissionMode")
    if mode == "plan":
        agent.setdefault("require_plan", True)
    elif mode not in (None, "default"):
        warnings.append(f"permissionMode: {mode}: role, tools and plans decide, no mode does")
    if front.get("kind") not in (None, "local"):
        raise InvalidArgument(f"kind: {front['kind']}: only local agents are run", field="kind")
    sandbox = front.get("sandbox_mode")
    if sandbox not in (None, "read-only", "workspace-write"):
        warnings.append(f"sandbox_mode: {sandbox}: the container of the agent is its sandbox")


def _without_writing(front: Mapping[str, object]) -> Mapping[str, object]:
    """With the tools removed that Codex's read-only sandbox does not let write, or that may."""
    if front.get("sandbox_mode") != "read-only":
        return front
    removed = split_words(front.get("disallowedTools"), "disallowedTools") or []
    return {**front, "disallowedTools": [*removed, "bash", "edit", "mcp", "undo"]}


def _field_warnings(front: Mapping[str, object], ours: Mapping[object, object]) -> Iterator[str]:
    own = {str(key): value for key, value in ours.items()}
    yield from _unknown_field_warnings(front, STANDARD_FIELDS, MISSING_FIELDS, "")
    yield from _unknown_field_warnings(
        own, (*HIVE_FIELDS, *FIELD_ALIASES), UNSUPPORTED_HIVE_FIELDS, "hive."
    )
    for key in UNSUPPORTED_HIVE_FIELDS:
        if key in own:
            yield f"hive.{key}: without effect in this version"
    for key, reason in MISSING_FIELDS.items():
        if front.get(key) is not None:
            yield f"{key}: without effect: {reason}"


def _unknown_field_warnings(
    front: Mapping[str, object], known: Iterable[str], later: Iterable[str], place: str
) -> Iterator[str]:
    words = (*known, *later)
    for key in map(str, front):
        if key in words:
            continue
        near = difflib.get_close_matches(key, words, 1, 0.5) or difflib.get_close_matches(
            key.lower().replace("-", "_"), words, 1, 0.5
        )
        hint = f"; did you mean {place}{near[0]}?" if near else ""
        if not place and key in HIVE_FIELDS:
            hint = f"; did you mean hive.{key}?"
        yield f"{place}{key}: unknown field{hint}"


def _check_network(agent: Mapping[str, object]) -> None:
    network = agent.get("network", NO_NETWORK)
    if network is None or network == NO_NETWORK:
        return
    if reason := network_fault(str(network)):
        raise InvalidArgument(f"hive.network: {network!r} has no effect: {reason}", field="network")


def _check_role(agent: Mapping[str, object]) -> None:
    role = str(agent.get("role", Role.AGENT))
    if role not in set(Role):
        near = difflib.get_close_matches(role, list(Role), 1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(Role)}"
        if role == "manager":
            hint = "a manager is a daemon, an agent or a lead"
        raise InvalidArgument(f"hive.role: no role {role!r}; {hint}", field="role")


def _convert_limits(agent: dict[str, object]) -> None:
    """Convert limits to the names of `spawn`: of the machine, of the subtree, and of spending.

    A limit that is set by its short name and by its long one is refused: it is ambiguous.
    """
    for key in ("limits", "subtree"):
        if key in agent:
            agent[key] = _bounds(agent[key], key)
    limits = agent.get("limits")
    if not isinstance(limits, dict):
        return
    funds = agent.get("funds") or {}
    if not isinstance(funds, Mapping):
        raise InvalidArgument("hive.funds: must be a table", field="funds")
    if (budget := limits.pop(_BUDGET, None)) is not None:
        _check_not_repeated(funds, "usd", f"limits.{_BUDGET}")
        agent["funds"] = {**funds, "usd": budget}
    if (depth := limits.pop(_DEPTH, None)) is not None:
        _check_not_repeated(agent, "max_depth", f"limits.{_DEPTH}")
        agent["max_depth"] = depth
    if not limits:
        del agent["limits"]


def _bounds(table: object, key: str) -> dict[str, object]:
    if not isinstance(table, Mapping):
        raise InvalidArgument(f"hive.{key}: must be a table", field=key)
    bounds: dict[str, object] = {}
    for word, value in table.items():
        name = _SHORT.get(str(word), str(word))
        _check_bound(str(word), name, key)
        _check_not_repeated(bounds, name, f"{key}.{word}")
        bounds[name] = _percent(value) if name == "cpu_quota" else value
        if name in _BYTES:
            bounds[name] = _size(value)
    return bounds


def _check_bound(word: str, name: str, key: str) -> None:
    fields = Limits.model_fields if key == "limits" else SubtreeLimits.model_fields
    known = (*fields, *((_BUDGET, _DEPTH) if key == "limits" else ()))
    if name in known:
        return
    words = (*known, *(short for short, long in _SHORT.items() if long in fields))
    near = difflib.get_close_matches(word, words, 1, 0.5)
    hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(words)}"
    raise InvalidArgument(f"hive.{key}.{word}: unknown limit; {hint}", field=key)


def _check_not_repeated(fields: Mapping[str, object], name: str, said: str) -> None:
    if name in fields:
        raise InvalidArgument(f"hive.{said}: {name} is set too; set one of them", field=name)


def _size(value: object) -> object:
    match = _SIZE.fullmatch(value) if isinstance(value, str) else None
    return int(match[1]) << _POWERS[match[2].upper()] if match else value


def _percent(value: object) -> object:
    """A text with a percent sign as a number; anything else is left for the model to check."""
    if isinstance(value, str) and value.endswith("%"):
        with suppress(ValueError):
            return parse_percent(value)
    return value
