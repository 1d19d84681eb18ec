"""The command of the host that makes the same call as a page of the dashboard.

An account without passkey and code makes it there; each parameter is in the command as hived
would get it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from shlex import join
from typing import Final

from hive_core.varlink import Message


def command_of(operation: str, parameters: Message) -> str:
    """One line for a shell; `hive call` where no other command says all of it."""
    words_of = _COMMANDS.get(operation)
    words = words_of(parameters) if words_of is not None else None
    if words is None or not all(map(_is_plain, words)):
        words = ["call", operation, json.dumps(parameters, sort_keys=True)]
    return join(["hive", *words])


def _is_plain(word: str) -> bool:
    """Whether it is shown as it is, and read as a value: no option, no character that hides."""
    is_option = word.startswith("-") and word not in _OPTIONS
    return bool(word) and word.isascii() and word.isprintable() and not is_option


def _approve(values: Message) -> list[str] | None:
    if values.keys() != {"id", "commit"}:
        return None
    return ["approval", "approve", str(values["id"]), "--commit", str(values["commit"])]


def _approve_plan(values: Message) -> list[str] | None:
    return ["plan", "approve", str(values["plan"])] if values.keys() == {"task", "plan"} else None


def _destroy(values: Message) -> list[str] | None:
    if not values.keys() <= {"agent", "recursive"}:
        return None
    return ["destroy", str(values["agent"]), *(["--recursive"] if values.get("recursive") else [])]


def _move(values: Message) -> list[str] | None:
    is_simple = values.keys() == {"agent", "parent"} and values["parent"]
    return ["move", str(values["agent"]), "--parent", str(values["parent"])] if is_simple else None


def _answer(values: Message) -> list[str] | None:
    answers = values.get("answers")
    if not isinstance(answers, list):
        return None
    return ["question", "answer", str(values.get("question")), *map(str, answers)]


_OPTIONS: Final = frozenset({"--commit", "--recursive", "--parent"})
_COMMANDS: Final[Mapping[str, Callable[[Message], list[str] | None]]] = {
    "approve": _approve, "approve_plan": _approve_plan, "destroy": _destroy, "move": _move,
    "answer": _answer,
}  # fmt: skip
