"""A definition of agents as people write it: Markdown with front matter.

The top-level fields are those that Claude, Gemini and other tools read; hive's own fields are under
`hive`, named as in `spawn`. An unknown field gives a warning with the nearest known one, since
other tools ignore a typing error silently. A wrong value is refused.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from hive_core.errors import InvalidArgument
from hive_core.model.agents.agent import Limits, Role, SubtreeLimits
from hive_core.model.agents.capability import no_effect_reason
from hive_core.model.agents.roles import ROLE_DEFAULTS
from hive_core.model.work.tools import TOOLS, ToolEntry, normalized_entries, parse_entry

NAME: Final = re.compile(r"[a-z]([a-z0-9-]{0,62}[a-z0-9])?", re.ASCII)
STANDARD_FIELDS: Final = (
    "name",
    "description",
    "tools",
    "disallowedTools",
    "model",
    "maxTurns",
    "hive",
)
# Read by other programs, or by those that run models; the daemon does not store them.
UNSUPPORTED_FIELDS: Final = (
    "skills",
    "color",
    "permissionMode",
    "mcpServers",
    "hooks",
    "temperature",
)
HIVE_FIELDS: Final = (
    "role", "tier", "title", "image", "boot", "command", "capabilities", "limits", "subtree",
    "max_children", "max_depth", "after_task", "wakes", "parallel", "require_plan",
    "network", "funds", "runtime", "profile",
)  # fmt: skip
# Other spellings of hive's fields.
FIELD_ALIASES: Final = {"requirePlan": "require_plan", "brain": "runtime"}
UNSUPPORTED_HIVE_FIELDS: Final = ("revoke",)
NO_NETWORK: Final = "none"  # the only network profile that hosts have
# A size as people write it: 2G.
_SIZE: Final = re.compile(r"([0-9]+)([KMGT])i?B?", re.ASCII | re.IGNORECASE)
_POWERS: Final = {"K": 10, "M": 20, "G": 30, "T": 40}
_BYTES: Final = ("memory_max", "memory_high", "disk")
_PERCENT: Final = re.compile(r"([0-9]+)%", re.ASCII)
# Short names in `limits`: of a limit of the machine, or of another field of the agent.
_SHORT: Final = {"memory": "memory_max", "cpu": "cpu_quota", "tasks": "tasks_max"}
_BUDGET, _DEPTH = "budgetUsd", "depth"
# Claude's spelling of a prefix: Bash(git:*).
_COLON: Final = re.compile(r"\((.*?):\*\)\Z")
_PREFIX: Final = "hive_"


@dataclass(frozen=True, slots=True)
class ParsedDefinition:
    """The result. `agent` has parameters of `spawn`; `warnings` are for people."""

    name: str
    description: str = ""
    agent: Mapping[str, object] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


def parse_definition(front: Mapping[str, object], name: str = "") -> ParsedDefinition:
    """The definition in this front matter; InvalidArgument names what is wrong."""
    chosen_name = str(front.get("name") or name)
    if not NAME.fullmatch(chosen_name):
        raise InvalidArgument(
            f"name: {chosen_name!r} must be lower case words joined by hyphens", field="name"
        )
    ours = front.get("hive") or {}
    if not isinstance(ours, Mapping):
        raise InvalidArgument("hive: must be a table", field="hive")
    known = {FIELD_ALIASES.get(str(key), str(key)): value for key, value in ours.items()}
    agent = {key: known[key] for key in HIVE_FIELDS if known.get(key) is not None}
    _convert_limits(agent)
    if front.get("maxTurns") is not None:
        agent["max_turns"] = front["maxTurns"]
    warnings = [
        *_unknown_field_warnings(front, STANDARD_FIELDS, UNSUPPORTED_FIELDS, ""),
        *_unknown_field_warnings(
            ours, (*HIVE_FIELDS, *FIELD_ALIASES), UNSUPPORTED_HIVE_FIELDS, "hive."
        ),
        *_unsupported_warning(front, ours),
    ]
    _check_role(agent)
    _check_network(agent)
    tools, more = _tools(front, Role(str(agent.get("role", Role.AGENT))))
    if tools is not None:
        agent["tools"] = list(tools)
    if front.get("model") not in (None, "inherit"):
        agent["model"] = str(front["model"])
    text = " ".join(str(front.get("description") or "").split())
    return ParsedDefinition(chosen_name, text, agent, (*warnings, *more))


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


def _unsupported_warning(front: Mapping[str, object], ours: Mapping[str, object]) -> Iterator[str]:
    """One warning about all fields that have no effect yet."""
    unsupported = [f"hive.{key}" for key in UNSUPPORTED_HIVE_FIELDS if key in ours]
    unsupported += [key for key in UNSUPPORTED_FIELDS if key in front]
    if unsupported:
        yield f"{', '.join(unsupported)}: kept in the file, without effect in this version"


def _check_network(agent: Mapping[str, object]) -> None:
    """Every profile is refused: no host has one."""
    network = agent.get("network", NO_NETWORK)
    if network is None or network == NO_NETWORK:
        return
    reason = no_effect_reason(f"network:{network}") or f"there is {NO_NETWORK} alone"
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
    match = _PERCENT.fullmatch(value) if isinstance(value, str) else None
    return int(match[1]) if match else value


def _tools(front: Mapping[str, object], role: Role) -> tuple[tuple[str, ...] | None, list[str]]:
    """The allow-list, or None for the tools of the role. Operations of the broker are not tools."""
    listed, warnings = _words(front.get("tools")), list[str]()
    if listed == ["."]:
        listed = None  # the creator's own list
    allowed = (
        None
        if listed is None
        else [word for word in listed if not _warn_if_operation(word, warnings)]
    )
    dropped = [word for word in _words(front.get("disallowedTools")) or [] if word]
    dropped = [word for word in dropped if not _warn_if_operation(word, warnings)]
    if dropped:
        start = ROLE_DEFAULTS[role].tools or tuple(TOOLS)
        allowed = _remove_tools(start if allowed is None else allowed, dropped)
    return (None if allowed is None else normalized_entries(map(_hive_syntax, allowed))), warnings


def _remove_tools(allowed: Iterable[str], dropped: Iterable[str]) -> list[str]:
    gone = []
    for word in dropped:
        parsed = parse_entry(_hive_syntax(word))
        if parsed != ToolEntry(parsed.tool):
            raise InvalidArgument(
                f"disallowedTools: {word}: only whole tools can be removed; list the rest in tools",
                field="disallowedTools",
            )
        gone.append(parsed.tool)
    return [word for word in allowed if parse_entry(_hive_syntax(word)).tool not in gone]


def _warn_if_operation(name: str, warnings: list[str]) -> bool:
    """Whether it is an operation of the broker, which no list of tools restricts."""
    if not name.lower().startswith(_PREFIX):
        return False
    warnings.append(
        f"{name}: is an operation; place, role and capabilities restrict it, no list of tools does"
    )
    return True


def _words(value: object) -> list[str] | None:
    """A list of words: a YAML list, or words with commas on one line."""
    if value is None:
        return None
    if isinstance(value, str):
        return [word.strip() for word in value.split(",") if word.strip()]
    if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
        raise InvalidArgument("tools: must be a list of words", field="tools")
    return value


def _hive_syntax(text: str) -> str:
    return _COLON.sub(r"(\1 *)", text)
