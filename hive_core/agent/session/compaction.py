"""A conversation that has grown too long goes on in a new segment, with a summary and the facts.

The system prompt stays the same bytes. What must not be lost in a summary comes anew from the
broker, word for word: place, tasks, plans, questions, waits and limits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from hive_core.agent.prompt_text import escape_tags
from hive_core.agent.reconnect import Link
from hive_core.agent.session.context import TurnContext
from hive_core.agent.session.conversation import OpenConversation
from hive_core.agent.session.exchange import ModelExchange, ModelFailed
from hive_core.agent.session.facts import read_facts
from hive_core.agent.session.parking import cancel_escalation
from hive_core.agent.session.records import Record
from hive_core.agent.session.services import SessionServices
from hive_core.agent.session.state import ConversationState, TurnState
from hive_core.errors import HiveError

OVERFLOW: Final = "overflow"  # the `error_kind` of a request that does not fit the model
_SHORTEN_MOST: Final = 3  # how often a history is halved for its summary


@dataclass(frozen=True, slots=True)
class Compactor:
    """Shortens one conversation."""

    services: SessionServices
    link: Link
    conversation: OpenConversation
    context: TurnContext

    def run(self, turn: TurnState, exchange: ModelExchange, *, overflows: bool = False) -> None:
        """Write the summary, and go on in a new segment with the inputs of the open turn.

        `overflows`: the model has refused the history as it is.
        """
        summary = _summarize(exchange, overflows=overflows)
        if not summary.strip():
            raise HiveError("the model wrote no summary")
        cancel_escalation(self.services, self.link, self.conversation)  # the new segment lacks it
        facts = read_facts(self.services, self.link, self.context, turn)
        text = (
            f"<summary>\nYour own summary of this conversation so far:\n{escape_tags(summary)}\n\n"
            f"What the daemon knows now, word for word:\n{facts}\n</summary>"
        )
        self.conversation.start_segment(lambda state: segment_records(state, turn, text))


def segment_records(state: ConversationState, turn: TurnState, text: str) -> list[Record]:
    """The first records of the segment that goes on with this summary."""
    present = state.turn or turn
    return [
        {"t": "system", "text": state.system,
         **({"phase": state.phase} if state.phase else {})},
        {"t": "compact", "turn": present.number, "rounds": present.rounds, "text": text,
         **({"skill_limits": present.skill_limits} if present.skill_limits else {}),
         **({"notes": state.notes} if state.notes else {}),
         **({"reflection": state.reflection} if state.reflection else {}),
         **_trigger_fields(present.trigger)},
        # An answer to the calls of the last message is in the summary's view already.
        *({**row, "turn": present.number} for row in present.inputs if row["t"] == "input"),
        *({**row, "turn": present.number} for row in state.waiting),
    ]  # fmt: skip


def _summarize(exchange: ModelExchange, *, overflows: bool) -> str:
    """The summary of the history, or of a shorter and shorter one while it does not fit."""
    shorten = 1 if overflows else 0
    while True:
        try:
            return exchange.summarize(shorten)
        except ModelFailed as error:
            if error.end.get("error_kind") != OVERFLOW or shorten == _SHORTEN_MOST:
                raise
        shorten += 1


def _trigger_fields(trigger: Record) -> Record:
    """What makes the new segment's turn one of the same task, or of the same letter."""
    keys = ("task", "attempt", "from", "thread", "reply", "kind")
    return {key: trigger[key] for key in keys if key in trigger} | {"id": trigger.get("id", "")}
