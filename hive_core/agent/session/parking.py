"""A turn that waits: its parent is told once, and the agent counts as blocked."""

from __future__ import annotations

from dataclasses import dataclass

from hive_core.agent.reconnect import Link
from hive_core.agent.session.conversation import OpenConversation
from hive_core.agent.session.services import SessionServices, say


@dataclass(frozen=True, slots=True)
class Parked:
    """The turn waits: for new input, or for the notice that the budget has room (`budget`)."""

    why: str
    budget: bool = False


def escalate(
    services: SessionServices, link: Link, conversation: OpenConversation, parked: Parked
) -> None:
    """Tell the parent, once for each turn and reason, and say that the agent waits."""
    conversation.sync()
    state = conversation.state
    number = state.turn.number if state.turn else 0
    say(f"conversation {conversation.name} waits: {parked.why}")
    services.try_ask(link, "report_activity", blocked=True, reason=parked.why[:500])
    services.try_ask(
        link, "escalate", issue=parked.why[:2000], severity="error",
        task=(state.turn.task if state.turn else "") or None,
        idempotency_key=state.key(f"{number}:park:{parked.why}")[:128],
    )  # fmt: skip
