"""What a session does next, as a pure function of the records: in a turn, and after a crash."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from hive_core.agent.session.records import Record
from hive_core.agent.session.state import ConversationState, ToolCall, TurnState

# What the model reads when a crash leaves open whether a call had its effect.
INTERRUPTED: Final = (
    "interrupted: the session ended while this call ran, so its effect is unknown. It was not run"
    " again. Look at the present state before you repeat it."
)


@dataclass(frozen=True, slots=True)
class WaitForInput:
    """No turn is open."""


@dataclass(frozen=True, slots=True)
class AskModel:
    """The next request: the results of the last calls, and the inputs that it carries first."""

    turn: TurnState


@dataclass(frozen=True, slots=True)
class RunCall:
    """Run one call. Where it has a `started` record, an earlier process began it."""

    turn: TurnState
    call: ToolCall


@dataclass(frozen=True, slots=True)
class EndTurn:
    """End the turn: the last answer has no calls or ended the task, and no input arrived."""

    turn: TurnState


@dataclass(frozen=True, slots=True)
class CloseTurn:
    """The turn has ended: pass its result on."""

    turn: TurnState


Step = WaitForInput | AskModel | RunCall | EndTurn | CloseTurn


def next_step(records: Iterable[Record]) -> Step:
    """The next step of a conversation with these records."""
    return step_of(ConversationState.of(records))


def step_of(state: ConversationState) -> Step:
    """The next step of a conversation in this state."""
    turn = state.turn
    if turn is None:
        return WaitForInput()
    if turn.end is not None:
        return CloseTurn(turn)
    return _step_of_turn(turn)


def _step_of_turn(turn: TurnState) -> Step:
    open_call = next((call for call in turn.calls if call.result is None), None)
    if open_call is not None:
        return RunCall(turn, open_call)
    asks = turn.unseen or not turn.rendered or (turn.calls and not turn.reported)
    return AskModel(turn) if asks else EndTurn(turn)
