"""The end of a turn: the reply or the report, what is kept of it, and the record that it is over.

Each call has a key of the turn, so a session that was killed on the way may do all of it again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from hive_core.agent.letter import reply_body
from hive_core.agent.reconnect import BatchedCall, Link
from hive_core.agent.session.conversation import OpenConversation
from hive_core.agent.session.meter import TurnUsage
from hive_core.agent.session.parking import cancel_escalation
from hive_core.agent.session.records import Record
from hive_core.agent.session.services import SessionServices, say
from hive_core.agent.session.state import ABANDONED, TurnState
from hive_core.agent.session.tasks import IN_PROGRESS, SessionTasks

_TEXT_MOST: Final = 16 * 1024
_UNFINISHED: Final = frozenset({"limit", "error"})
_NO_REPORT: Final = "the turn reached its limit of steps without a report"
_STATUSES: Final = {"stopped": "cancelled", "abandoned": "cancelled"}


@dataclass(frozen=True, slots=True)
class TurnCloser:
    """Passes the result of a turn on."""

    services: SessionServices
    link: Link
    conversation: OpenConversation

    def close(self, turn: TurnState) -> None:
        """Reply or report, keep what is shown of the turn, and close it."""
        # First: while it is open, the task of the turn waits for its answer.
        cancel_escalation(self.services, self.link, self.conversation)
        turn = self.conversation.state.turn or turn
        end = turn.end or {}
        status = str(end.get("status"))
        if turn.task:
            self._report(turn, status, end)
        calls = (
            *self._reply(turn, end), self._keep(turn, status, end), *self._note(turn, status, end)
        )  # fmt: skip
        self.services.ask_together(self.link, calls)
        # A crash of the host may lose it: then all of this runs again, each under its key.
        self.conversation.append_without_sync({"t": "closed", "turn": turn.number})

    def _key(self, turn: TurnState, name: str) -> str:
        return self.conversation.state.key(f"{turn.number}:{name}")[:128]

    def _report(self, turn: TurnState, status: str, end: Record) -> None:
        """End the task of a turn that ended without a report."""
        tasks, why = SessionTasks(self.services, self.link), str(end.get("error") or "")
        if status == "stopped":
            tasks.finish(turn.task, "stopped", turn.text or why, self._key(turn, "finish"))
        elif status in _UNFINISHED and _is_open(tasks, turn):
            how = "partial" if status == "limit" and turn.text else "failed"
            texts = (why, turn.text) if status == "error" else (turn.text or why,)
            summary = "\n\n".join(filter(None, texts)) or _NO_REPORT
            tasks.finish(turn.task, how, summary, self._key(turn, "finish"))

    def _reply(self, turn: TurnState, end: Record) -> tuple[BatchedCall, ...]:
        if end.get("status") == ABANDONED:
            return ()  # mail that began it begins the next turn, and is answered there
        letter = turn.trigger
        text = _reply_text(turn, end)
        if not text or not letter.get("reply") or str(letter.get("id")) in turn.replied:
            return ()
        thread = letter.get("thread")
        return (BatchedCall("send", {
            "to": letter["from"], "body": reply_body(text.encode(errors="replace")),
            "reply_to": letter["id"], "thread": thread or None,
            "idempotency_key": self._key(turn, "reply"),
        }, optional=True),)  # fmt: skip

    def _keep(self, turn: TurnState, status: str, end: Record) -> BatchedCall:
        system = self.conversation.state.system if turn.number == 1 else ""
        texts = "\n\n".join(str(row["text"]) for row in turn.inputs)
        return BatchedCall("keep_turn", {
            "conversation": self.conversation.name, "turn": turn.number,
            "status": _STATUSES.get(status, status), "system": cut(system) if system else None,
            "input": cut(texts), "text": cut(turn.text),
            "error": str(end.get("error") or "") or None, "task": turn.task or None,
            "began": turn.trigger.get("at"), "idempotency_key": self._key(turn, "keep"),
        }, optional=True)  # fmt: skip

    def _note(self, turn: TurnState, status: str, end: Record) -> tuple[BatchedCall, BatchedCall]:
        fields = _note_fields(self.conversation.name, turn, status, end)
        note = BatchedCall("note_event", {
            "kind": "turn", "task": turn.task, "fields": fields,
            "idempotency_key": self._key(turn, "note"),
        }, optional=True)  # fmt: skip
        usage = BatchedCall("report_usage", {
            "context": self.conversation.state.tokens or None, "iterations": turn.rounds,
            "turn_seconds": [_seconds(turn, end)], "idempotency_key": self._key(turn, "usage"),
        }, optional=True)  # fmt: skip
        return note, usage


def close_lost_turn(services: SessionServices, link: Link, conversation: OpenConversation) -> bool:
    """Begin or take up the task of the open turn; close the turn where that may not be, True then.

    What has ended meanwhile is not worked on. This asks no model, and nothing of its request.
    """
    turn = conversation.state.turn
    if turn is None or turn.end is not None or not turn.task:
        return False
    gone = SessionTasks(services, link).take_up(turn.task, turn.attempt)
    if gone:
        say(f"task {turn.task}: {gone}")
        conversation.append({
            "t": "end", "turn": turn.number, "status": ABANDONED, "text": turn.text, "error": gone,
            "rounds": turn.rounds, **TurnUsage().fields(),
        })  # fmt: skip
        TurnCloser(services, link, conversation).close(turn)
    return bool(gone)


def _is_open(tasks: SessionTasks, turn: TurnState) -> bool:
    """Whether the task waits for a report; one that failed before it was begun is begun now."""
    gone = tasks.take_up(turn.task, turn.attempt)
    return not gone and tasks.state(turn.task) == IN_PROGRESS


def _reply_text(turn: TurnState, end: Record) -> str:
    """The last text of the turn, and after an error its reason."""
    why = str(end.get("error") or "")
    fault = f"cannot answer: {why}" if why else ""
    if end.get("status") == "error":
        return "\n\n".join(filter(None, (turn.text, fault)))
    return turn.text or fault


def _note_fields(
    conversation: str, turn: TurnState, status: str, end: Record
) -> Mapping[str, object]:
    used = end.get("usage")
    fields: dict[str, object] = {
        "conversation": conversation, "turn": turn.number, "status": status,
        "rounds": turn.rounds, "model": end.get("model"), "provider": end.get("provider"),
        "cost": end.get("cost"), "ttft_ms": end.get("ttft_ms"),
        "latency_ms": end.get("latency_ms"), "seconds": _seconds(turn, end),
        **(used if isinstance(used, dict) else {}),
    }  # fmt: skip
    return {key: value for key, value in fields.items() if value is not None}


def _seconds(turn: TurnState, end: Record) -> float:
    began, ended = turn.trigger.get("at"), end.get("at")
    known = isinstance(began, int | float) and isinstance(ended, int | float)
    return round(max(0.0, min(float(ended) - float(began), 86_400.0)), 3) if known else 0.0  # type: ignore[arg-type]


def cut(text: str) -> str:
    """A text as long as the daemon takes it."""
    return text.encode(errors="replace")[:_TEXT_MOST].decode(errors="ignore")
