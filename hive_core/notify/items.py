"""What people are told of: items that wait until they are settled, and things that happened."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from hive_core.model.config.notify import NoticeClass, NotifyRoute
from hive_core.services.item_places import TASK_ENDED, item_place

Row = Mapping[str, object]

_TEXT_MOST: Final = 2000
_CLASS_OF_TODO: Final[Mapping[str, NoticeClass]] = {
    "question": "needs-input", "escalation": "needs-input", "plan": "needs-input",
    "judgement": "needs-input",
    "approval": "needs-input", "failed": "failed", "parked": "failed", "quarantine": "failed",
    "alarm": "urgent", "refused_commit": "urgent",
}  # fmt: skip
_CRITICAL: Final = "critical: "
# What happens to a budget that people are told of; others give it or take it back.
_SHORT: Final = frozenset({"low", "used_up", "owed", "stopped"})
_ENDED: Final = frozenset({"done", "cancelled"})
SILENT: Final = "silent"
_STATES: Final[Mapping[str, str]] = {"failed": "has failed", "parked": "is parked"}
_NAMES: Final[Mapping[str, str]] = {"refused_commit": "commit refused", "alarm": "alarm"}


@dataclass(frozen=True, slots=True)
class NoticeItem:
    """`key` identifies the item. An agent may have written `text`.

    `id` is what settles it: of a question, a task, an approval, or the name of an agent. `task` is
    the one whose own budget it is about.
    """

    key: str
    kind: str
    notice_class: NoticeClass
    agent: str = ""
    text: str = ""
    id: str = ""
    task: str = ""

    def is_for(self, route: NotifyRoute) -> bool:
        """Whether the receiver asked for such items."""
        if self.notice_class not in route.classes:
            return False
        is_for_all = not self.agent or self.kind == "alarm"
        return not route.agents or is_for_all or self.agent in route.agents

    def title(self, route: NotifyRoute) -> str:
        """The line that is sent: with what the route lets leave the host."""
        if route.text == "none":
            return f"hive: {self.notice_class}"
        if self.agent and (state := _STATES.get(self.kind)):
            return f"hive: {self.agent} {state}"
        about = f" of {self.agent}" if self.agent else ""
        return f"hive: {_NAMES.get(self.kind, self.kind)}{about}"

    def place(self, route: NotifyRoute) -> str:
        """The path of its page on the dashboard; empty where the route may name nothing."""
        if route.text == "none" or not self.id:
            return ""
        return item_place(TASK_ENDED, self.task) if self.task else item_place(self.kind, self.id)

    def body(self, route: NotifyRoute) -> str:
        return self.text[:_TEXT_MOST] if route.text == "full" else ""


def todo_items(rows: Sequence[Row]) -> Iterator[NoticeItem]:
    """Items of the list of what waits for the operator; mail is for its own command."""
    for row in rows:
        kind, text = str(row.get("kind")), str(row.get("text") or "")
        notice_class = _CLASS_OF_TODO.get(kind)
        if notice_class is None:
            continue
        if kind == "escalation" and text.startswith(_CRITICAL):
            notice_class = "urgent"
        id_ = str(row.get("id") or text[:200])
        since = row.get("since") if notice_class == "failed" else None  # an agent may fail again
        key = f"{kind}:{id_}" + (f":{since}" if since is not None else "")
        agent = str(row.get("agent") or "")
        yield NoticeItem(key, kind, notice_class, agent, text, str(row.get("id") or ""))


def event_item(event: Row) -> NoticeItem | None:
    """An event that people are told of and need not act on; None for any other event."""
    fields = event.get("fields")
    about: Row = fields if isinstance(fields, dict) else {}
    seq, target = event.get("seq"), str(event.get("target") or "")
    kind = event.get("kind")
    if kind == "budget" and event.get("operation") in _SHORT:
        text, task = str(event.get("reason") or ""), str(about.get("task") or "")
        return NoticeItem(f"budget:{seq}", "budget", "budget", target, text, target, task)
    if kind == "task" and about.get("assigner") == "operator" and about.get("state") in _ENDED:
        text = str(event.get("reason") or about.get("status") or about.get("state"))
        task = str(about.get("task"))
        return NoticeItem(f"task:{task}", TASK_ENDED, "done", target, text, task)
    return None


def silent_item() -> NoticeItem:
    """hived does not answer."""
    return NoticeItem(SILENT, "hived does not answer", "urgent", "", "no answer for 60 s")
