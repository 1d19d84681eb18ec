"""Reflection: the model looks at turns that have ended, and says what to remember and to forget.

It has no tools. Its answer is logged before anything of it is done, and each change has a key of
that log, so a session that was killed in between does the rest with the next start.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from hive_core.agent.prompt_text import escape_tags
from hive_core.agent.session.aside import AsideQuestion, ask_aside
from hive_core.agent.session.context import TurnContext
from hive_core.agent.session.conversation import OpenConversation
from hive_core.agent.session.memory.budget import DailyTokens
from hive_core.agent.session.memory.entries import TEXT_MOST, MemoryEntry, MemoryStore, parse_path
from hive_core.agent.session.memory.recall import list_entries
from hive_core.agent.session.records import Record
from hive_core.agent.session.runtimes.pool import RuntimePool
from hive_core.agent.session.services import say
from hive_core.agent.session.state import number
from hive_core.agent.task_run import mapping

_CHANGES_MOST: Final = 16
_TURNS_MOST: Final = 32 * 1024


@dataclass(frozen=True, slots=True)
class Reflection:
    """Reflects on the turns of one conversation."""

    store: MemoryStore
    pool: RuntimePool
    budget: DailyTokens

    def run(self, conversation: OpenConversation) -> None:
        """Ask, log the answer, and do what it says; or do what was logged before a crash."""
        if not conversation.state.reflection and not self._ask(conversation):
            return
        reflection = conversation.state.reflection
        written = deleted = 0
        entries = {entry.path: entry for scope in self.store.written_scopes
                   for entry in self.store.entries(scope)}  # fmt: skip
        for at, change in enumerate(_changes(reflection.get("changes"))):
            key = f"{reflection.get('key')}:{at}"
            entry, text = parse_path(change.get("name")), change.get("text")
            if entry is None:
                continue
            known = entries.get(entry.path)
            if text is None:
                deleted += known is not None and self.store.delete(known, key)
                entries.pop(entry.path, None)
            elif known is not None or len(_of_scope(entries, entry)) < self.store.settings.entries:
                written += self.store.write(entry, str(text), key)
                entries[entry.path] = entry
            else:
                say(f"cannot remember {entry.path}: there are {self.store.settings.entries}")
        self._note(reflection, written, deleted)
        conversation.append({"t": "reflected"})

    def _ask(self, conversation: OpenConversation) -> bool:
        """Log what the model says about the turns since the last reflection."""
        notes = list(conversation.state.notes)
        if not notes:
            return False
        scopes = self.store.written_scopes
        entries = [entry for scope in scopes for entry in self.store.entries(scope)]
        text = (
            f"Scopes that you may write: {', '.join(scopes)}\n\n"
            f"Memories:\n{list_entries(entries)}\n\nTurns:\n{_turns_text(notes)}"
        )
        question = AsideQuestion("reflect", text)
        if not self.budget.take(question.tokens):
            say("cannot reflect: the tokens of [memory] are used up for today")
            return False
        context = TurnContext.read(self.store.services, self.store.link)
        answer = ask_aside(self.pool, context, question)
        self.budget.settle(question.tokens, answer.tokens)
        changes = read_changes(answer.json_object(), scopes)
        through = number(notes[-1].get("turn"))
        conversation.append({
            "t": "reflect", "through": through, "changes": changes, "tokens": answer.tokens,
            "key": conversation.state.key(f"reflect:{through}"),
        })  # fmt: skip
        return True

    def _note(self, reflection: Record, written: int, deleted: int) -> None:
        self.store.services.try_ask(
            self.store.link, "note_event", kind="memory",
            fields={"written": written, "deleted": deleted, "tokens": reflection.get("tokens")},
            idempotency_key=f"{reflection.get('key')}:note"[:128],
        )  # fmt: skip


def read_changes(answer: Mapping[str, object] | None, scopes: Sequence[str]) -> list[Record]:
    """The valid changes of an answer: `{name, text}`, without a text to forget it."""
    return [
        change for row in _changes((answer or {}).get("changes"))
        if (change := _change(row, scopes)) is not None
    ]  # fmt: skip


def _change(row: Mapping[str, object], scopes: Sequence[str]) -> Record | None:
    entry, text = parse_path(row.get("name")), row.get("text")
    if entry is None or entry.scope not in scopes:
        return None
    if text is None:
        return {"name": entry.path}
    is_text = isinstance(text, str) and text.strip()
    fits = is_text and len(str(text).encode(errors="replace")) <= TEXT_MOST
    return {"name": entry.path, "text": str(text).encode(errors="replace").decode()} if fits else (
        None
    )  # fmt: skip


def _changes(rows: object) -> Iterator[Mapping[str, object]]:
    return map(mapping, rows[:_CHANGES_MOST] if isinstance(rows, list) else [])


def _of_scope(entries: Mapping[str, MemoryEntry], entry: MemoryEntry) -> list[MemoryEntry]:
    return [row for row in entries.values() if row.scope == entry.scope]


def _turns_text(notes: Sequence[Record]) -> str:
    """The newest turns that fit: what came in, as it was shown, and what the agent said."""
    parts: list[str] = []
    size = 0
    for note in reversed(notes):
        text = f"## Turn {note.get('turn')}\n{note.get('said')}\n\nYou: {_own(note)}"
        size += len(text.encode(errors="replace"))
        if size > _TURNS_MOST:
            break
        parts.append(text)
    return "\n\n".join(reversed(parts))


def _own(note: Record) -> str:
    return escape_tags(str(note.get("text") or "(nothing)"))
