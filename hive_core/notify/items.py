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
_SHORT: Final[Mapping[str, str]] = {
    "low": "runs low", "used_up": "is used up", "owed": "was overdrawn",
    "stopped": "is used up, and its work is stopped",
}  # fmt: skip
_ENDED: Final = frozenset({"done", "cancelled"})
SILENT: Final = "silent"
# A sentence for each kind; `agent` is the name, `outcome` that of the item.
_TITLES: Final[Mapping[str, str]] = {
    "question": "{agent} asks a question", "escalation": "{agent} escalates a problem",
    "plan": "{agent}'s plan waits for your approval",
    "judgement": "{agent}'s result waits for your verdict",
    "approval": "a change of {agent} waits for your approval",
    "failed": "{agent} has failed", "parked": "{agent} is parked",
    "quarantine": "{agent} is in quarantine", "budget": "{agent}'s budget {outcome}",
    TASK_ENDED: "{agent}'s task ended: {outcome}",
    "alarm": "hived raised an alarm about {agent}", "refused_commit": "hived refused a commit",
    SILENT: "hived does not answer",
}  # fmt: skip
_HOST: Final = "this host"  # what it is about where that is no agent


@dataclass(frozen=True, slots=True)
class NoticeItem:
    """`key` identifies the item. An agent may have written `text`.

    `id` is what settles it: of a question, a task, an approval, or the name of an agent. `task` is
    the one whose own budget it is about, `outcome` what hived says of a budget or of a task's end.
    """

    key: str
    kind: str
    notice_class: NoticeClass
    agent: str = ""
    text: str = ""
    id: str = ""
    task: str = ""
    outcome: str = ""

    def is_for(self, route: NotifyRoute) -> bool:
        """Whether the receiver asked for such items."""
        if self.notice_class not in route.classes:
            return False
        is_for_all = not self.agent or self.kind == "alarm"
        return not route.agents or is_for_all or self.agent in route.agents

    def title(self, route: NotifyRoute) -> str:
        """The sentence that is sent: with what the route lets leave the host."""
        if route.text == "none":
            return f"hive has a notice: {self.notice_class}"
        sentence = _TITLES.get(self.kind, "{agent} needs you")
        return f"hive: {sentence.format(agent=self.agent or _HOST, outcome=self.outcome)}"

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
    kind, outcome = event.get("kind"), _SHORT.get(str(event.get("operation")))
    if kind == "budget" and outcome:
        text, task = str(event.get("reason") or ""), str(about.get("task") or "")
        return NoticeItem(f"budget:{seq}", "budget", "budget", target, text, target, task, outcome)
    if kind == "task" and about.get("assigner") == "operator" and about.get("state") in _ENDED:
        outcome = str(about.get("status") or about.get("state"))
        text, task = str(event.get("reason") or outcome), str(about.get("task"))
        return NoticeItem(f"task:{task}", TASK_ENDED, "done", target, text, task, outcome=outcome)
    return None


def silent_item() -> NoticeItem:
    """hived does not answer."""
    return NoticeItem(SILENT, SILENT, "urgent", "", "no answer for 60 s")
