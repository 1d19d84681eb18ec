"""A turn that waits: its parent is told once, and the agent counts as blocked.

The log has the id of the escalation until the session goes on and cancels it, so that no restart
asks again or forgets it.
"""

from __future__ import annotations

from dataclasses import dataclass

from hive_core.agent.reconnect import Link
from hive_core.agent.session.conversation import OpenConversation
from hive_core.agent.session.services import SessionServices, say
from hive_core.agent.session.state import TurnState
from hive_core.agent.task_run import mapping


@dataclass(frozen=True, slots=True)
class Parked:
    """The turn waits: for new input, or for the notice that the budget has room (`budget`)."""

    why: str
    budget: bool = False


def escalate(
    services: SessionServices, link: Link, conversation: OpenConversation, parked: Parked
) -> None:
    """Tell the parent, unless it has the same escalation still; and say that the agent waits."""
    conversation.sync()
    state = conversation.state
    say(f"conversation {conversation.name} waits: {parked.why}")
    services.try_ask(link, "report_activity", blocked=True, reason=parked.why[:500])
    asked = state.parked
    if asked and asked["why"] == parked.why and _is_open(services, link, str(asked["question"])):
        return
    cancel_escalation(services, link, conversation)
    turn = state.turn or TurnState(0)
    number = f"{turn.number}:{turn.rounds}:{state.parkings}"
    reply = services.try_ask(
        link, "escalate", issue=parked.why[:2000], severity="error",
        task=(turn.task if turn.inputs else "") or None,
        idempotency_key=state.key(f"{number}:park:{parked.why}")[:128],
    )  # fmt: skip
    if reply.get("escalation"):
        conversation.append_or_apply({
            "t": "park", "turn": turn.number, "why": parked.why, "question": reply["escalation"],
        })  # fmt: skip


def resume(
    services: SessionServices, link: Link, conversation: OpenConversation, parked: Parked
) -> None:
    """Say that the agent works again. With room in the budget, nothing is left to ask."""
    services.try_ask(link, "report_activity", blocked=False, reason="")
    if parked.budget:
        cancel_escalation(services, link, conversation)


def cancel_escalation(
    services: SessionServices, link: Link, conversation: OpenConversation
) -> None:
    """Cancel the escalation of a conversation that goes on, unless it has ended already."""
    question = str(conversation.state.parked.get("question") or "")
    if not question:
        return
    if _is_open(services, link, question):
        why = "the agent goes on without an answer"
        services.try_ask(link, "cancel_question", question=question, why=why)
    conversation.append_without_sync({"t": "resume"})


def _is_open(services: SessionServices, link: Link, question: str) -> bool:
    reply = services.try_ask(link, "get_question", question=question)
    return mapping(reply.get("question")).get("state") == "open"
