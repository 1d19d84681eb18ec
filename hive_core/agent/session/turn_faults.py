"""A fault of the program in a turn: the turn ends as a failure, and its conversation goes on.

Other faults have rules of their own: a refusal of the daemon, a model that is away, a full disk.
"""

from __future__ import annotations

from hive_core.agent.crash_report import summarize_fault
from hive_core.agent.session.conversation import OpenConversation
from hive_core.agent.session.parking import Parked
from hive_core.agent.session.services import describe_fault, say


def end_faulty_turn(conversation: OpenConversation, error: Exception) -> Parked | None:
    """Log the fault, and end the open turn with it, so that the next step passes that on.

    A turn that has ended already failed in just that step: it waits, as does one whose end cannot
    be logged.
    """
    say(f"conversation {conversation.name}: {describe_fault(error)}")
    turn, why = conversation.state.turn, f"{summarize_fault(error)}; the agent's log has the report"
    if turn is None:
        return None
    if turn.end is not None:
        return Parked(why)
    try:
        conversation.append({
            "t": "end", "turn": turn.number, "status": "error", "text": turn.text, "error": why,
            "rounds": turn.rounds,
        })  # fmt: skip
    except (OSError, ValueError):
        return Parked(why)
    return None
