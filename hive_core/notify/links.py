"""Links of a notice: what whoever has it may do with one tap, and never a yes to something."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from hive_core.model.config.notify import NotifyRoute
from hive_core.notify.notices import Notice
from hive_core.plan.printable import escape

# ntfy shows three actions, and the first one opens the dashboard.
LINKS_MOST: Final = 2
_LABEL_MOST: Final = 40
_WHY: Final = "by the link of a notification"
_LINKED: Final = frozenset({"question", "escalation", "approval", "plan"})
LinkWish = dict[str, object]


def linked_thing(route: NotifyRoute, notice: Notice) -> tuple[str, str] | None:
    """Kind and id of the thing that a notice can have links for; None: it has none.

    Answers are words of agents: only a route with the full text has them.
    """
    kind, _, id_ = notice.key.partition(":")
    if route.type == "apprise" or notice.kind not in ("new", "reminder") or kind not in _LINKED:
        return None
    if kind in ("question", "escalation") and route.text != "full":
        return None
    return (kind, id_) if id_ else None


def approval_links(id_: str) -> list[LinkWish]:
    return [_wish("deny", "Deny", id=id_, why=_WHY)]


def plan_links(task: str, plan: str) -> list[LinkWish]:
    return [_wish("reject_plan", "Reject", task=task, plan=plan, reason=_WHY)]


def question_links(details: Mapping[str, object], id_: str) -> list[LinkWish]:
    """The first answers that a question offers; one with several items has no link."""
    items = details.get("items")
    item = items[0] if isinstance(items, list) and len(items) == 1 else None
    options = item.get("options") if isinstance(item, dict) else None
    offered = [str(option) for option in options] if isinstance(options, list) else []
    return [
        _wish("answer", escape(option)[:_LABEL_MOST], question=id_, answers=[option])
        for option in offered[:LINKS_MOST]
    ]


def _wish(operation: str, label: str, **parameters: object) -> LinkWish:
    return {"operation": operation, "label": label, "parameters": parameters}
