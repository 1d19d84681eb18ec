"""Where on the dashboard each kind of item is decided: for its own pages, and for notices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from urllib.parse import quote

TASK_ENDED: Final = "task ended"
_PLACES: Final[Mapping[str, str]] = {
    "question": "/questions/{id}", "escalation": "/questions/{id}", "plan": "/plans/{id}",
    "judgement": "/tasks/{id}",
    "approval": "/approvals/{id}", "parked": "/agents/{id}", "failed": "/agents/{id}",
    "quarantine": "/agents/{id}", "dead_letters": "/agents/{id}/mail",
    "mail": "/agents/operator/mail", "refused_commit": "/audit",
    # What only notices tell of.
    "budget": "/agents/{id}", TASK_ENDED: "/tasks/{id}",
}  # fmt: skip


def item_place(kind: str, id_: str) -> str:
    """The path of the page where an item is decided; empty where there is none."""
    return _PLACES.get(kind, "").format(id=quote(id_, safe=""))
