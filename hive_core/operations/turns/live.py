"""The text of a running turn, as it comes: written by the session, read by those above it.

It is in memory only, for people who watch. What lasts is the turn itself (`keep_turn`).
"""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import Field

from hive_core.broker.call import Call, Wait
from hive_core.broker.hooks import AgentDestroyed, AgentEnded, AgentStarted, on
from hive_core.broker.operation import Params, Result, operation
from hive_core.errors import Conflict, InvalidArgument, LimitReached
from hive_core.model.wire.live_text import LivePart
from hive_core.operations.fields import WAIT_MOST, Agent, bounded_text
from hive_core.operations.pages import Page, reply_bytes, take_fitting
from hive_core.policy.rules import ANCESTOR, OPERATOR, SELF

TEXT_MOST: Final = 16 * 1024
TURN_NUMBER_MOST: Final = 10**9

Conversation = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[!-~]+$")]
TurnNumber = Annotated[int, Field(ge=0, le=TURN_NUMBER_MOST)]


class StreamTurnParams(Params):
    conversation: Conversation = Field(description="Conversation that the turn belongs to.")
    turn: TurnNumber = Field(description="Number of the turn in its conversation.")
    text: Annotated[str, bounded_text(TEXT_MOST)] = Field(
        description="Text since the previous call, at most 16 KiB."
    )


class Streamed(Result):
    at: int = Field(description="Number of characters that the turn has now.")


class WatchTurnParams(Params):
    agent: Agent | None = Field(None, description="The agent; absent: the caller itself.")
    after: str | None = Field(
        None, max_length=32, pattern=r"^[0-9]+$",
        description="`next` of the previous answer; absent: all text of the turns that run now.",
    )  # fmt: skip
    wait: float = Field(
        0.0, ge=0, le=WAIT_MOST, description="Seconds to wait for text when there is none."
    )


class LiveTextRow(Result):
    conversation: str = Field(description="Conversation that the turn belongs to.")
    turn: int = Field(description="Number of the turn in its conversation.")
    at: int = Field(
        description="Number of characters of the turn before this text. More than were received:"
        " text between them is no longer kept."
    )
    text: str = Field(description="The text; untrusted.")
    ended: bool = Field(description="Whether the turn has ended.")


class LiveTextPage(Page):
    parts: list[LiveTextRow] = Field(description="Text of the agent's turns, the oldest first.")


@operation(action="work", allow=SELF)
def stream_turn(call: Call, params: StreamTurnParams) -> Streamed:
    """Show text of a running turn to those who watch the agent.

    The daemon keeps the last 64 KiB of each turn in memory, until the machine of the agent ends.
    An agent may call this four times a second; text of more calls has to be joined.
    """
    if call.by_operator:
        raise Conflict("cannot stream turn: the operator is not an agent")
    after = call.ledger.live_rate.take(call.uuid, call.now)
    call.ledger.live_rate.commit()
    if after > 0:
        reason = f"cannot stream turn: too often, try again in {after:.2f} s"
        raise LimitReached(reason, retry_after=after)
    text = call.ledger.events.masks.hide(params.text)
    at = call.ledger.live.append(call.uuid, (params.conversation, params.turn), text, call.now)
    call.notify(live_topic(call.uuid))
    return Streamed(at=at)


@operation(
    action="read", allow=SELF | ANCESTOR | OPERATOR, target="agent", preposition="of", streams=True
)
def watch_turn(call: Call, params: WatchTurnParams) -> LiveTextPage | Wait[LiveTextPage]:
    """Show the text of an agent's running turns; called with `more`, it follows as it is written.

    The agent's program writes the text. The daemon keeps it in memory only.
    """
    name = params.agent or call.caller
    if call.by_operator and params.agent is None:
        raise InvalidArgument("name the agent", field="agent")
    uuid, live = call.hive.spec(name).id, call.ledger.live
    after = None if params.after is None else int(params.after)
    parts = live.running_parts(uuid) if after is None else live.parts_after(uuid, after)
    listed = list(take_fitting(parts, lambda part: reply_bytes(part.text, part.conversation)))
    last = listed[-1].seq if listed else (live.newest(uuid) if after is None else after)
    page = LiveTextPage(parts=list(map(_live_row, listed)), next=str(last))
    if listed or (params.wait <= 0 and not call.more):
        return page
    deadline = None if call.more else call.now + params.wait
    return Wait(frozenset({live_topic(uuid)}), deadline, page)


@on(AgentStarted)
def forget_text_at_start(call: Call, event: AgentStarted) -> None:
    """Drop the text of an earlier machine."""
    _forget(call, event.uuid)


@on(AgentEnded)
def forget_text_at_end(call: Call, event: AgentEnded) -> None:
    """Drop the text of a machine that ended."""
    _forget(call, event.uuid)


@on(AgentDestroyed)
def forget_text_of_destroyed_agent(call: Call, event: AgentDestroyed) -> None:
    """Drop the text; calls that wait for more of it are answered."""
    _forget(call, event.uuid)


def live_topic(agent: str) -> str:
    """The topic of an agent's live text."""
    return f"live:{agent}"


def _forget(call: Call, agent: str) -> None:
    call.ledger.live.forget(agent)
    call.notify(live_topic(agent))


def _live_row(part: LivePart) -> LiveTextRow:
    return LiveTextRow(
        conversation=part.conversation, turn=part.turn, at=part.at, text=part.text,
        ended=part.ended,
    )  # fmt: skip
