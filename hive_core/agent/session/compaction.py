"""A conversation that has grown too long goes on in a new segment, with a summary and the facts.

The system prompt stays the same bytes. What must not be lost in a summary comes anew from the
broker, word for word: place, tasks, plans, questions, waits and limits.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final

from hive_core.agent.prompt_text import escape_tags
from hive_core.agent.reconnect import Link
from hive_core.agent.session.context import TurnContext
from hive_core.agent.session.conversation import OpenConversation
from hive_core.agent.session.exchange import ModelExchange
from hive_core.agent.session.records import Record
from hive_core.agent.session.services import SessionServices
from hive_core.agent.session.state import TurnState
from hive_core.errors import HiveError

FACTS_MOST: Final = 32 * 1024
_TASKS: Final = 8


@dataclass(frozen=True, slots=True)
class Compactor:
    """Shortens one conversation."""

    services: SessionServices
    link: Link
    conversation: OpenConversation
    context: TurnContext

    def run(self, turn: TurnState, exchange: ModelExchange) -> None:
        """Write the summary, and go on in a new segment with the inputs of the open turn."""
        summary = exchange.summarize()
        if not summary.strip():
            raise HiveError("the model wrote no summary")
        text = (
            f"<summary>\nYour own summary of this conversation so far:\n{escape_tags(summary)}\n\n"
            f"What the daemon knows now, word for word:\n{self.facts(turn)}\n</summary>"
        )
        state = self.conversation.state
        present = state.turn or turn
        records: list[Record] = [
            {"t": "system", "text": state.system,
             **({"phase": state.phase} if state.phase else {})},
            {"t": "compact", "turn": present.number, "rounds": present.rounds, "text": text,
             **({"skill_limits": present.skill_limits} if present.skill_limits else {}),
             **({"notes": state.notes} if state.notes else {}),
             **({"reflection": state.reflection} if state.reflection else {}),
             **_trigger_fields(present.trigger)},
            # An answer to the calls of the last message is in the summary's view already.
            *({**row, "turn": present.number} for row in present.inputs if row["t"] == "input"),
        ]  # fmt: skip
        self.conversation.start_segment(records)

    def facts(self, turn: TurnState) -> str:
        """The facts of the broker, as JSON; every part is bounded."""
        ask = self.services.try_ask
        facts = {
            "you": self.context.identity,
            "task": ask(self.link, "get_task", task=turn.task) if turn.task else None,
            "open": ask(self.link, "loose_ends", recursive=False).get("ends"),
            "tasks": ask(self.link, "list_tasks", open=True, limit=_TASKS).get("tasks"),
            "plans": ask(self.link, "list_plans", task=turn.task).get("plans")
            if turn.task else None,
            "budgets": ask(self.link, "get_usage").get("budgets"),
        }  # fmt: skip
        rows = {key: value for key, value in facts.items() if value}
        text = json.dumps(rows, ensure_ascii=False, separators=(",", ":"))
        return escape_tags(text.encode(errors="replace")[:FACTS_MOST].decode(errors="ignore"))


def _trigger_fields(trigger: Record) -> Record:
    """What makes the new segment's turn one of the same task, or of the same letter."""
    keys = ("task", "attempt", "from", "thread", "reply", "kind")
    return {key: trigger[key] for key in keys if key in trigger} | {"id": trigger.get("id", "")}
