"""Links of a notice: what its reader can do with one tap. No link approves anything."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from hive_core.model.config.notify import NotifyRoute
from hive_core.notify.notices import Notice
from hive_core.plan.printable import escape

# ntfy shows three actions, and the first one opens the dashboard.
LINKS_MOST: Final = 2
_LABEL_MOST: Final = 40
_WHY: Final = "by the link of a notification"
_DECIDED: Final = frozenset({"approval", "plan", "judgement"})
_OF_TASKS: Final = frozenset({"plan", "judgement"})  # kinds of items whose id is that of a task
# Kinds of items whose agent had better not go on.
_STOPPED: Final = frozenset({"escalation", "budget", "failed", "parked"})
WantedLink = dict[str, object]


@dataclass(frozen=True, slots=True)
class LinkedThing:
    """What the links of a notice decide, the agent that they stop, or the task that they cancel."""

    kind: str
    id: str
    agent: str
    task: str = ""


def linked_thing(route: NotifyRoute, notice: Notice) -> LinkedThing | None:
    """What a notice can have links for; None: it has none.

    Answers are words of agents: only a route with the full text has them.
    """
    kind, id_ = notice.item
    if route.type == "apprise" or notice.kind not in ("new", "reminder") or not id_:
        return None
    is_linked = (
        kind in _DECIDED
        or (kind == "question" and route.text == "full")
        or (kind in _STOPPED and notice.agent)
    )
    task = id_ if kind in _OF_TASKS else notice.task
    return LinkedThing(kind, id_, notice.agent, task) if is_linked else None


def approval_links(id_: str) -> list[WantedLink]:
    return [_wish("deny", "Deny", id=id_, why=_WHY)]


def plan_links(task: str, plan: str) -> list[WantedLink]:
    return [_wish("reject_plan", "Reject", task=task, plan=plan, reason=_WHY)]


def question_links(details: Mapping[str, object], id_: str) -> list[WantedLink]:
    """The first answers that a question offers; one with several items has no link."""
    items = details.get("items")
    item = items[0] if isinstance(items, list) and len(items) == 1 else None
    options = item.get("options") if isinstance(item, dict) else None
    offered = [str(option) for option in options] if isinstance(options, list) else []
    return [
        _wish("answer", escape(option)[:_LABEL_MOST], question=id_, answers=[option])
        for option in offered[:LINKS_MOST]
    ]


def stop_links(agent: str) -> list[WantedLink]:
    """A stop keeps all that the agent has, and the operator starts it again."""
    return [_wish("stop", "Stop", agent=agent)]


def cancel_links(task: str) -> list[WantedLink]:
    """A cancelled task keeps what its agent has done so far; a new one begins the work again."""
    return [_wish("cancel_task", "Cancel task", task=task, reason=_WHY)] if task else []


def _wish(operation: str, label: str, **parameters: object) -> WantedLink:
    return {"operation": operation, "label": label, "parameters": parameters}
