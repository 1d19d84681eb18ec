"""By whom an item was settled, as the log of hived says it: "answered by alice"."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

Row = Mapping[str, object]

SETTLED: Final = "settled"
# Kinds of events that can settle something: calls, and what happens to questions by itself.
EVENT_KINDS: Final = ("change", "record", "question")
_LINK_USED: Final = "use_link"
_BY_A_LINK: Final = "by a link"
_ITSELF: Final = "daemon"  # the caller of what happens by itself
_QUESTION: Final[Mapping[str, str]] = {
    "answer": "answered", "cancel_question": "withdrawn", "default": "ended with its default",
    "expire": "expired",
}  # fmt: skip
_DOWN: Final[Mapping[str, str]] = {
    "start": "started", "restart": "restarted", "resume": "resumed", "update": "updated",
    "stop": "stopped", "kill": "killed", "destroy": "destroyed",
}  # fmt: skip
# The calls that settle an item of a kind, and their words.
_CALLS: Final[Mapping[str, Mapping[str, str]]] = {
    "question": _QUESTION, "escalation": _QUESTION, "failed": _DOWN, "parked": _DOWN,
    "approval": {"approve": "approved", "deny": "denied"},
    "plan": {"approve_plan": "approved", "reject_plan": "rejected", "cancel_task": "cancelled"},
    "judgement": {"judge_task": "judged", "cancel_task": "cancelled"},
    "quarantine": {"lift_quarantine": "lifted"},
}  # fmt: skip
_IDS: Final = ("question", "approval", "task", "about")  # fields of events with the id of an item


@dataclass(frozen=True, slots=True)
class SettledItem:
    """An item that waits no longer; `since`: it waited at this time."""

    kind: str
    id: str
    agent: str
    since: float

    @property
    def is_logged(self) -> bool:
        """Whether a call settles such items."""
        return self.kind in _CALLS


def describe_end(item: SettledItem, events: Iterable[Row]) -> str:
    """By what and by whom it was settled; empty where none of the events says it.

    `events` are the newest first.
    """
    calls = _CALLS.get(item.kind, {})
    for event in events:
        data = event.get("fields")
        fields: Row = data if isinstance(data, dict) else {}
        is_link = event.get("operation") == _LINK_USED
        did = calls.get(str(fields.get("did") if is_link else event.get("operation")))
        if did is not None and _is_about(item, event, fields):
            return f"{did} {_BY_A_LINK}" if is_link else f"{did}{_by_whom(event, fields)}"
    return ""


def _is_about(item: SettledItem, event: Row, fields: Row) -> bool:
    if any(fields.get(name) == item.id for name in _IDS):
        return True
    agents = fields.get("agents")  # a stop or a start of a whole branch
    of_branch = isinstance(agents, list) and item.agent in agents
    return item.id == item.agent and (of_branch or event.get("target") == item.agent)


def _by_whom(event: Row, fields: Row) -> str:
    """The account, or the name of the caller: an agent, or the operator on the host itself."""
    caller = str(fields.get("account") or event.get("caller") or "")
    return "" if caller in ("", _ITSELF) else f" by {caller}"
