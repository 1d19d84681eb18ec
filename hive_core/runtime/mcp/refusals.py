"""What a model reads of a call that failed: the error, the reason, and what to do next."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from hive_core.errors import (
    AlreadyExists,
    BadFrame,
    Busy,
    Conflict,
    Expired,
    HiveError,
    InboxFull,
    InvalidArgument,
    InvalidParameter,
    LimitReached,
    MethodNotFound,
    NotAllowed,
    NotFound,
    NotRunning,
    StorageFull,
)
from hive_core.varlink import Message

# Of a fault, of a daemon that does not answer, and of every error that is not known here.
_UNKNOWN_EFFECT: Final = (
    "It is unknown whether the call had an effect. Read the present state before you repeat it."
)
_ASKING: Final = ("ask", "escalate")


@dataclass(frozen=True, slots=True)
class CalledTool:
    """The tool that was called, as far as advice needs it, and the tools that the caller has."""

    name: str
    schema: Mapping[str, object] = field(default_factory=dict)
    available: Collection[str] = ()

    @property
    def properties(self) -> Mapping[str, object]:
        """The schemas of its parameters, by name."""
        properties = self.schema.get("properties")
        return properties if isinstance(properties, dict) else {}

    def first_of(self, *names: str) -> str:
        """The first of these tools that the caller has; empty without any."""
        return next((name for name in names if name in self.available), "")


def refusal(error: HiveError, tool: CalledTool) -> Message:
    """The result of a call that failed."""
    facts = {
        "error": type(error).__name__, "reason": _reason(error), "next": next_step(error, tool),
    }  # fmt: skip
    return {**facts, **{key: value for key, value in error.fields.items() if key not in facts}}


def _reason(error: HiveError) -> str:
    if isinstance(error, MethodNotFound):
        return f"tool {error.reason[:64]!r} does not exist"
    return str(error) or error.wire


def next_step(error: HiveError, tool: CalledTool) -> str:
    """What the caller should do about an error."""
    advice = _NEXT.get(type(error), _UNKNOWN_EFFECT)
    return advice if isinstance(advice, str) else advice(error, tool)


def _choice(_error: HiveError, tool: CalledTool) -> str:
    return f"Call one of {', '.join(tool.available)}."


def _correction(error: HiveError, tool: CalledTool) -> str:
    """How to correct a parameter: what it is, and for a wrong one which parameters there are."""
    place = error.parameters.get("field") or error.parameters.get("parameter") or ""
    # It may be a part of a parameter, such as `spawn.role`.
    name = str(place).partition(".")[0]
    parts = [f"Correct the arguments and call `{tool.name}` again."]
    schema = tool.properties.get(name)
    if isinstance(schema, dict):
        if isinstance(values := schema.get("enum"), list):
            parts.append(f"{name} is one of {', '.join(map(str, values))}.")
        if text := schema.get("description"):
            parts.append(f"{name}: {text}")
    elif tool.properties:
        required = tool.schema.get("required")
        needed = required if isinstance(required, list) else []
        rows = (f"{key} (required)" if key in needed else key for key in tool.properties)
        parts.append(f"Its parameters are {', '.join(rows)}.")
    else:
        parts.append("It has no parameters.")
    return " ".join(parts)


def _lookup(_error: HiveError, tool: CalledTool) -> str:
    looking = tool.first_of("list_agents", "whoami")
    hint = f" `{looking}` shows the agents that you may name." if looking else ""
    return f"Check the name or id.{hint}"


def _other_way(_error: HiveError, tool: CalledTool) -> str:
    asking = tool.first_of(*_ASKING)
    hint = f", or get a decision with `{asking}`" if asking else ""
    return f"Do not repeat this call. Do what is needed in another way{hint}."


def _room(error: HiveError, tool: CalledTool) -> str:
    """How to get below a limit: wait, or ask the party that can raise it."""
    wait = error.fields.get("retry_after")
    if isinstance(wait, int | float) and not isinstance(wait, bool):
        return f"Call again in {max(wait, 1):.0f} seconds."
    asking = tool.first_of(*reversed(_ASKING))
    hint = f", or ask for more with `{asking}`" if asking else ""
    return f"Do without it, give back what you no longer need{hint}."


def _start(error: HiveError, tool: CalledTool) -> str:
    starts = tool.first_of("start")
    return f"Start the agent first with `{starts}`." if starts else _other_way(error, tool)


_NEXT: Final[Mapping[type[HiveError], str | Callable[[HiveError, CalledTool], str]]] = {
    MethodNotFound: _choice,
    InvalidParameter: _correction,
    InvalidArgument: _correction,
    BadFrame: _correction,
    NotFound: _lookup,
    NotAllowed: _other_way,
    LimitReached: _room,
    NotRunning: _start,
    Conflict: "Read the present state, then decide again. Do not repeat this call unchanged.",
    InboxFull: "The recipient must read first. Go on with other work, and call again later.",
    StorageFull: "Nothing was recorded. Call again later.",
    AlreadyExists: "Choose another name, or use the one that exists.",
    Expired: "It has ended. Read the present state, and go on from there.",
    Busy: "Call again in a few seconds.",
}
