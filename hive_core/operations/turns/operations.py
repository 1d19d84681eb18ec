"""The turns that sessions record: what was asked, and what the agent answered."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field

from hive_core.broker.call import Call, Record
from hive_core.broker.hooks import AgentDestroyed, on
from hive_core.broker.operation import Mutation, Result, operation
from hive_core.errors import Conflict, InvalidArgument
from hive_core.ledger.turns.storage import SavedTurn
from hive_core.operations.fields import Agent, bounded_text
from hive_core.operations.pages import Page, Paged, reply_bytes, take_fitting
from hive_core.operations.tasks.params import TaskId
from hive_core.operations.turns.live import Conversation, TurnNumber, live_topic
from hive_core.policy.rules import ANCESTOR, OPERATOR, SELF

TURN_BYTES: Final = 64 * 1024
_ERROR_MOST: Final = 1000

TurnText = Annotated[str, bounded_text(TURN_BYTES)]
Status = Literal["done", "cancelled", "limit", "error"]


class KeepTurnParams(Mutation):
    conversation: Conversation = Field(description="Conversation that the turn belongs to.")
    turn: TurnNumber = Field(
        description="Number of the turn in its conversation; it replaces one of the same number."
    )
    status: Status = Field(description="How the turn ended.")
    system: TurnText = Field(
        "", description="The system text, in the first turn and where it has changed."
    )
    input: TurnText = Field("", description="What the turn was about: messages, tasks, results.")
    text: TurnText = Field("", description="What the agent said.")
    error: str = Field("", max_length=_ERROR_MOST, description="Reason, where it did not go well.")
    task: TaskId = Field("", description="Task that the turn worked on.")
    began: float | None = Field(
        None, ge=0, description="When the turn began, in seconds since 1970."
    )


class KeptTurn(Result):
    number: int = Field(description="Number of the turn, among those of all agents.")
    cut: bool = Field(description="Whether the texts were shortened to 64 KiB together.")


class ListTurnsParams(Paged):
    agent: Agent | None = Field(None, description="The agent; absent: the caller itself.")
    conversation: Conversation | None = Field(None, description="Only turns of this conversation.")


class TurnRow(Result):
    number: int = Field(description="Number of the turn, among those of all agents.")
    conversation: str = Field(description="Conversation that the turn belongs to.")
    turn: int = Field(description="Number of the turn in its conversation.")
    status: str = Field(description="How it ended: done, cancelled, limit or error.")
    task: str = Field(description="Task that it worked on; empty: none.")
    began: float | None = Field(description="When it began, in seconds since 1970, if reported.")
    ended: float = Field(description="When it was recorded, in seconds since 1970.")
    system: str = Field(
        description="The system text, in the first turn and where it has changed; else empty."
    )
    input: str = Field(description="What the turn was about; untrusted text.")
    text: str = Field(description="What the agent said; untrusted text.")
    error: str = Field(description="Reason, where it did not go well; untrusted text.")
    cut: bool = Field(description="Whether the texts were shortened.")


class TurnRows(Page):
    turns: list[TurnRow] = Field(description="The turns, the newest first.")


@operation(action="work", allow=SELF)
def keep_turn(call: Call, params: KeepTurnParams) -> Record[KeptTurn]:
    """Record a turn of the caller that has ended, and end its live text.

    The daemon keeps the last 200 turns of an agent, in 4 MiB; of one turn 64 KiB.
    """
    if call.by_operator:
        raise Conflict("cannot keep turn: the operator is not an agent")
    turn = shorten_turn(_mask_turn(call, params))
    number = call.ledger.turns.save(turn)
    if call.ledger.live.end(call.uuid, (turn.conversation, turn.turn), call.now):
        call.notify(live_topic(call.uuid))
    call.notify(turns_topic(call.uuid))
    fields: dict[str, object] = {
        "conversation": turn.conversation, "turn": turn.turn, "status": turn.status,
        **({"task": turn.task} if _is_own_task(call, turn.task) else {}),
        **({} if turn.began is None else {"began": turn.began}),
    }  # fmt: skip
    return Record(KeptTurn(number=number, cut=turn.cut), fields=fields)


@operation(action="read", allow=SELF | ANCESTOR | OPERATOR, target="agent", preposition="of")
def list_turns(call: Call, params: ListTurnsParams) -> TurnRows:
    """List the turns that an agent has recorded, the newest first, with their texts.

    The agent itself, its ancestors and the operator may read them.
    """
    if call.by_operator and params.agent is None:
        raise InvalidArgument("name the agent", field="agent")
    uuid = call.hive.spec(params.agent or call.caller).id
    turns = call.ledger.turns.page(
        uuid, _number(params.after), params.most + 1, params.conversation
    )
    rows = list(take_fitting(map(_turn_row, turns[: params.most]), _row_size))
    return TurnRows(turns=rows, next=str(rows[-1].number) if len(rows) < len(turns) else None)


@on(AgentDestroyed)
def delete_turns_of_destroyed_agent(call: Call, event: AgentDestroyed) -> None:
    """Delete the turns; the log of the session goes with the files of the agent."""
    call.ledger.turns.delete_all_of(event.uuid)


def _is_own_task(call: Call, id_: str) -> bool:
    """Whether the caller has this task: an agent cannot write into the trace of another one."""
    task = call.ledger.tasks.get(id_) if id_ else None
    return task is not None and task.assignee == call.uuid


def turns_topic(agent: str) -> str:
    """The topic of the turns that an agent records."""
    return f"turns:{agent}"


def _number(after: str | None) -> int | None:
    if after is None:
        return None
    if not after.isdecimal():
        raise InvalidArgument(f"no turn {after[:64]}", field="after")
    return int(after)


def _mask_turn(call: Call, params: KeepTurnParams) -> SavedTurn:
    """The turn without secrets. They are hidden before a text is cut: half a secret is not known.

    `ended` is the time of the daemon.
    """
    hide = call.ledger.events.masks.hide
    began = None if params.began is None else min(params.began, call.now)
    return SavedTurn(
        0, call.uuid, params.conversation, params.turn, params.status, params.task, began,
        call.now, hide(params.system), hide(params.input), hide(params.text), hide(params.error),
        cut=False,
    )  # fmt: skip


def shorten_turn(turn: SavedTurn) -> SavedTurn:
    """The turn with its texts shortened to the bound: each longest one to a share of it."""
    texts = {name: getattr(turn, name) for name in ("system", "input", "text")}
    sizes = {name: len(text.encode()) for name, text in texts.items()}
    if sum(sizes.values()) <= TURN_BYTES:
        return turn
    left, shares = TURN_BYTES, dict[str, int]()
    for parties, name in zip((3, 2, 1), sorted(sizes, key=sizes.__getitem__), strict=True):
        shares[name] = min(sizes[name], left // parties)
        left -= shares[name]
    system, said, text = (_head(texts[name], shares[name]) for name in ("system", "input", "text"))
    return turn._replace(system=system, input=said, text=text, cut=True)


def _head(text: str, most: int) -> str:
    """The beginning of the text, in at most so many bytes."""
    return text.encode()[:most].decode(errors="ignore")


def _turn_row(turn: SavedTurn) -> TurnRow:
    fields = turn._asdict()
    del fields["agent"]
    return TurnRow(**fields)


def _row_size(row: TurnRow) -> int:
    return reply_bytes(row.system, row.input, row.text, row.error)
