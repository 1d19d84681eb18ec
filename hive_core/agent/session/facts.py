"""What a compacted conversation must not lose, anew from the broker and word for word.

Each part has a bound of its own, so that a long one takes no room from those behind it. What a
bound leaves out is named, with the operation that reads it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from hive_core.agent.prompt_text import escape_tags
from hive_core.agent.reconnect import Link
from hive_core.agent.session.context import TurnContext
from hive_core.agent.session.services import SessionServices
from hive_core.agent.session.state import TurnState
from hive_core.agent.task_run import mapping

_KIB: Final = 1024
FACTS_MOST: Final = 96 * _KIB
_FACTS_LEAST: Final = 8 * _KIB  # however small the model is
_ROWS: Final = 8
# To so many characters long texts are cut, one after the other, before rows are left out.
_TEXTS: Final = (4096, 1024, 256)


@dataclass(frozen=True, slots=True)
class FactPart:
    """One part. `most`: its bytes as JSON; `read`: the operation that has the rest."""

    name: str
    value: object
    most: int
    read: str


def read_facts(services: SessionServices, link: Link, context: TurnContext, turn: TurnState) -> str:
    """The facts as JSON, the most needed first; at most a quarter of the model's context."""
    # A token is about four bytes.
    room = max(_FACTS_LEAST, min(FACTS_MOST, context.model.context))
    facts = dict[str, object]()
    for part in _FactReader(services, link).parts(context, turn):
        if part.value:
            value = bound_value(part.value, min(part.most, max(room, _KIB)), part.read)
            room -= _size(value)
            facts[part.name] = value
    return escape_tags(_dump(facts))


@dataclass(frozen=True, slots=True)
class _FactReader:
    services: SessionServices
    link: Link

    def parts(self, context: TurnContext, turn: TurnState) -> Iterator[FactPart]:
        yield FactPart("you", context.identity, 4 * _KIB, "whoami")
        yield FactPart("budgets", self._ask("budgets", "get_usage"), 4 * _KIB, "get_usage")
        if turn.task:
            plans = self._ask("plans", "list_plans", task=turn.task)
            yield FactPart("plans", plans, 24 * _KIB, "list_plans")
        for name, which in (("asked", "mine"), ("to_answer", "to_me")):
            yield FactPart(name, self._questions(which), 24 * _KIB, "list_questions")
        yield FactPart("waits", self._ask("waits", "list_waits"), 4 * _KIB, "list_waits")
        if turn.task:
            yield FactPart("task", self._task(turn), 40 * _KIB, "get_task")
        tasks = self._ask("tasks", "list_tasks", open=True, limit=_ROWS)
        yield FactPart("tasks", tasks, 8 * _KIB, "list_tasks")
        ends = self._ask("ends", "loose_ends", recursive=False)
        yield FactPart("open", ends, 8 * _KIB, "loose_ends")

    def _ask(self, field: str, operation: str, **params: object) -> object:
        return self.services.try_ask(self.link, operation, **params).get(field)

    def _questions(self, which: str) -> list[object]:
        """The open questions with all items: a list has the beginning of the first one alone."""
        rows = self._ask("questions", "list_questions", which=which, limit=_ROWS)
        ids = [row.get("id") for row in map(mapping, rows if isinstance(rows, list) else [])]
        details = (self.services.try_ask(self.link, "get_question", question=id_) for id_ in ids)
        return [row for row in details if row]

    def _task(self, turn: TurnState) -> Mapping[str, object]:
        """The task; its text only where no input of the turn has it, which follow in full."""
        task = self.services.try_ask(self.link, "get_task", task=turn.task)
        text = str(task.get("description") or "")
        is_input = any(
            row.get("kind") == "task" and row.get("task") == turn.task for row in turn.inputs
        )
        if is_input and len(text) > _TEXTS[-1]:
            return {**task, "description": f"{text[: _TEXTS[-1]]} [the whole task is below]"}
        return task


def bound_value(value: object, most: int, read: str) -> object:
    """The value as JSON of at most so many bytes: long texts are cut first, then rows go."""
    if _size(value) <= most:
        return value
    short = value
    for length in _TEXTS:
        short = _cut_texts(value, length, read)
        if _size(short) <= most:
            return short
    rows = list(short) if isinstance(short, list) else []
    for count in range(len(rows) - 1, 0, -1):
        fewer = [*rows[:count], f"[{len(rows) - count} left out: {read} has them]"]
        if _size(fewer) <= most:
            return fewer
    return f"[too long: {read} has it]"


def _cut_texts(value: object, length: int, read: str) -> object:
    if isinstance(value, str) and len(value) > length:
        return f"{value[:length]} [cut: {read} has the whole]"
    if isinstance(value, dict):
        return {key: _cut_texts(item, length, read) for key, item in value.items()}
    return [_cut_texts(item, length, read) for item in value] if isinstance(value, list) else value


def _dump(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _size(value: object) -> int:
    return len(_dump(value).encode(errors="replace"))
