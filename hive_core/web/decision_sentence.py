"""One sentence about a call that is to be confirmed: what is decided, on whom, and what follows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from string import Formatter
from typing import Final, NamedTuple

_SENTENCES: Final[Mapping[str, str]] = {
    "approve": "You approve commit {commit} for {agent}, as {requester} asked: hived deploys it,"
    " watches the agent, and takes it back if the agent is not healthy.",
    "approve inputs": "You approve commit {commit} as the inputs of all agents, as {requester}"
    " asked: hived builds the agents that follow anew, and switches or restarts them.",
    "approve_plan": "You approve the plan of {agent} for the task {title}: the agent begins to"
    " carry it out.",
    "answer": "You answer {answers} to {asker}, whose budget is used up: what that gives counts at"
    " once, and its work goes on.",
    "destroy": "You destroy {agent}: its container is stopped, its tasks end, and its files are"
    " kept in the archive until that expires.",
    "destroy recursive": "You destroy {agent} with all agents below it: their containers are"
    " stopped, their tasks end, and their files are kept in the archive until that expires.",
    "move": "You move {agent} under {parent}: the agents above it from then on have all rights"
    " over it, and those that lose it are restarted.",
    "move to the top": "You make {agent} a root: no agent is above it from then on, and those that"
    " lose it are restarted.",
    "spawn": "You create the agent {name} with more than its role has: it starts at once.",
}
_OTHER: Final = "You call {operation}: hived does it at once, with the values below."


class SentencePart(NamedTuple):
    """A part of the sentence. `value` is a name or text that others may have written."""

    text: str
    value: str | None


def decision_sentence(
    operation: str, parameters: Mapping[str, object], facts: Mapping[str, object]
) -> list[SentencePart]:
    """The sentence in parts; `facts`: what hived says of the ids in the parameters."""
    values = {key: _words(value) for key, value in {**facts, **parameters}.items()}
    values["operation"] = operation
    template = _SENTENCES.get(_case(operation, parameters, facts), _OTHER)
    if not all(values.get(name) for name in _names(template)):
        template = _OTHER
    return [
        SentencePart(text, None if name is None else values[name])
        for text, name, _, _ in Formatter().parse(template)
    ]


def _case(operation: str, parameters: Mapping[str, object], facts: Mapping[str, object]) -> str:
    """Which sentence tells about the call."""
    if operation == "approve" and facts and not facts.get("agent"):
        return "approve inputs"
    if operation == "destroy" and parameters.get("recursive"):
        return "destroy recursive"
    if operation == "move" and not parameters.get("parent"):
        return "move to the top"
    return operation


def _names(template: str) -> Iterator[str]:
    return (name for _, name, _, _ in Formatter().parse(template) if name)


def _words(value: object) -> str:
    """A value in a sentence; that of several is separated by commas."""
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value or "")
