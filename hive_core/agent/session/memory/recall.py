"""Which memories stand behind the input of a turn: at most a few of each scope.

Where there are more, the model chooses among their names. A choice that fails recalls nothing.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from hive_core.agent.session.aside import AsideQuestion, ask_aside
from hive_core.agent.session.context import TurnContext
from hive_core.agent.session.memory.budget import DailyTokens
from hive_core.agent.session.memory.entries import SCOPES, MemoryEntry, MemoryStore
from hive_core.agent.session.runtimes.pool import RuntimePool
from hive_core.agent.session.services import fault_text, say
from hive_core.errors import HiveError

_INPUT_MOST: Final = 8 * 1024
_SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True)
class MemoryRecall:
    """Chooses memories for one turn, and reads them."""

    store: MemoryStore
    pool: RuntimePool
    budget: DailyTokens

    def run(self, context: TurnContext, inputs: str, task: str = "") -> str:
        """The memories for this input, as the model reads them; empty: none."""
        most, now = self.store.settings.recall, time.time()
        scopes = {scope: self.store.entries(scope) for scope in SCOPES} if most else {}
        chosen = [entry for rows in scopes.values() if len(rows) <= most for entry in rows]
        many = [entry for rows in scopes.values() if len(rows) > most for entry in rows]
        if many:
            chosen += self._choose(context, many, inputs, task)
        texts = ((entry, self.store.read(entry)) for entry in chosen)
        return "\n".join(entry.render(text, now) for entry, text in texts if text.strip())

    def _choose(
        self, context: TurnContext, entries: Sequence[MemoryEntry], inputs: str, task: str
    ) -> list[MemoryEntry]:
        text = f"Memories:\n{list_entries(entries)}\n\nInput:\n{inputs[:_INPUT_MOST]}"
        question = AsideQuestion("recall", text, task, _SECONDS)
        try:
            if not self.budget.take(question.tokens):
                say("cannot recall memories: the tokens of [memory] are used up for today")
                return []
            answer = ask_aside(self.pool, context, question)
        except (HiveError, OSError) as error:
            say(f"cannot recall memories: {fault_text(error)}")
            return []
        self.budget.settle(question.tokens, answer.tokens)
        return pick_entries(answer.json_object(), entries, self.store.settings.recall)


def pick_entries(
    answer: Mapping[str, object] | None, entries: Iterable[MemoryEntry], most: int
) -> list[MemoryEntry]:
    """The entries that an answer names, at most so many of each scope."""
    names = (answer or {}).get("memories")
    wanted = dict.fromkeys(name for name in names if isinstance(name, str)) if isinstance(
        names, list
    ) else {}  # fmt: skip
    known = {entry.path: entry for entry in entries}
    chosen = [known[name] for name in wanted if name in known]
    return [
        entry for scope in SCOPES
        for entry in [entry for entry in chosen if entry.scope == scope][:most]
    ]  # fmt: skip


def list_entries(entries: Iterable[MemoryEntry]) -> str:
    """Names and ages, a line each."""
    now = time.time()
    lines = [f"- {entry.path}{_age(entry, now)}" for entry in entries]
    return "\n".join(lines) or "none"


def _age(entry: MemoryEntry, now: float) -> str:
    age = entry.age(now)
    return f" ({age} old)" if age else ""
