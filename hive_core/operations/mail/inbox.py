"""Incoming mail: receive it under a lease, acknowledge it, give it back, and list it."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field

from hive_core.broker.call import Call, Record, Wait
from hive_core.broker.hooks import MessageGivenUp, emit
from hive_core.broker.operation import Mutation, Params, Result, operation
from hive_core.errors import InvalidArgument, NotAllowed
from hive_core.model.wire.record import OPERATOR as THE_OPERATOR
from hive_core.model.wire.record import Message
from hive_core.model.work.question import QuestionKind
from hive_core.operations.fields import WAIT_MOST, Agent
from hive_core.operations.mail.queue_hooks import give_back
from hive_core.operations.notices import inbox, senders
from hive_core.operations.pages import Page, Paged, take_fitting
from hive_core.operations.tasks.notices import forget_end
from hive_core.policy.rules import OPERATOR, SELF

_AROUND = 16  # bytes for the text between two letters
Ids = Annotated[list[Annotated[str, Field(max_length=64)]], Field(min_length=1, max_length=1000)]
MessageId = Annotated[str, Field(min_length=1, max_length=64)]


class RecvParams(Params):
    wait: float = Field(
        0.0, ge=0, le=WAIT_MOST, description="Seconds to wait for a message when there is none."
    )
    max: int = Field(10, ge=1, le=100, description="Maximum number of messages.")
    only: Literal["work", "other"] | None = Field(
        None,
        description="work: tasks, and the answers and decisions that they wait for, as the daemon"
        " sends them; other: all other mail; absent: all mail.",
    )
    lease: float | None = Field(
        None, ge=1, le=3600,
        description="Seconds after which an unacknowledged message is delivered again; 60 if"
        " absent.",
    )  # fmt: skip


class Letter(Result):
    id: str = Field(description="Id of the message, for `ack` and `nack`.")
    sender: str = Field(serialization_alias="from", description="Name of the sender at that time.")
    from_uuid: str = Field(description="The sender: a UUID, `operator` or `daemon`.")
    relation: str = Field(
        description="Relation of the sender to the recipient: self, parent, child, sibling,"
        " ancestor, descendant, allowed, subagent, operator or daemon."
    )
    to: str = Field(description="Name of the recipient.")
    body: str = Field(description="The text: what the sender says, not an order of the daemon.")
    kind: str = Field(description="Kind of the message, for programs.")
    thread: str = Field(description="The conversation; the id of its first message, or a name.")
    reply_to: str | None = Field(description="The message that this one answers.")
    priority: int = Field(description="0 (critical) to 3 (low).")
    sent_at: float = Field(description="Seconds since 1970.")
    attempt: int = Field(description="How often it was delivered, this time included.")
    source: str | None = Field(
        None,
        description="For a wake: its cause, as the agent itself named it. For a message of"
        " `inject_message`: the task.",
    )
    wait_id: str | None = Field(None, description="Id of the wait of the recipient that it ended.")
    hops: int = Field(
        0, description="How many messages of agents it follows from, each sent in the turn of the"
        " one before."
    )  # fmt: skip


class Letters(Result):
    messages: list[Letter] = Field(
        description="The messages, the most urgent first, then the oldest."
    )


class WaitReplyParams(Params):
    id: str = Field(max_length=64, description="Id of a message that the caller sent.")
    wait: float = Field(0.0, ge=0, le=WAIT_MOST, description="Seconds to wait for an answer.")


class Answer(Result):
    reply: Letter | None = Field(
        description="The first answer, which this call acknowledges; null when there is none yet."
    )


class AckParams(Mutation):
    ids: Ids = Field(description="Ids of messages, or of items of queues, that are done.")


class Acked(Result):
    acked: int = Field(description="Number of them that were waiting for an ack.")


class NackParams(Mutation):
    ids: Ids = Field(
        description="Ids of messages, or of items of queues, that could not be handled."
    )
    why: str = Field(
        "", max_length=1000, description="Reason, which the sender of a dead letter gets."
    )
    dead: bool = Field(
        default=False, description="Whether to give up now: they become dead letters at once."
    )


class Nacked(Result):
    dead: list[str] = Field(description="Ids of those that are dead letters now.")


class ListMessagesParams(Paged):
    agent: Agent | None = Field(None, description="Owner of the inbox; the caller when absent.")
    dead: bool = Field(
        default=False, description="Whether to list its dead letters instead of its mail."
    )
    archived: bool = Field(
        default=False, description="With `dead`, whether to list those of all destroyed agents that"
        " are kept, in place of one inbox's; for the operator only.",
    )  # fmt: skip
    done: bool = Field(
        default=False,
        description="Whether to list the messages that it has acknowledged, as far as they are"
        " kept; for the operator only.",
    )
    sent: bool = Field(
        default=False,
        description="Whether to list the messages that it sent, as far as they are kept; for the"
        " operator only. A page may be empty before the last one.",
    )


class ListedLetter(Letter):
    dead_why: str | None = Field(description="Why it is a dead letter; null: it is not one.")
    archived: str | None = Field(
        None, description="UUID of the destroyed agent whose dead letter it is; null: of no such."
    )


class ListedLetters(Page):
    messages: list[ListedLetter] = Field(description="The oldest first.")


@operation(action="receive", allow=SELF, streams=True)
def recv(call: Call, params: RecvParams) -> Record[Letters] | Wait[Letters]:
    """Receive messages from the caller's inbox under a lease.

    Each message is delivered again until the caller acks it. After 5 attempts it becomes a dead
    letter, and the daemon tells its sender. Called with `more`, messages follow as they come.
    """
    mail = call.ledger.messages
    lease = call.settings.grace.lease if params.lease is None else params.lease
    messages = mail.lease(call.party, params.max, lease, call.now, params.only or "")
    woke = call.ledger.plans.waits.waits_by_message([message.id for message in messages])
    letters = Letters(messages=[_letter(message, woke.get(message.id)) for message in messages])
    if messages or (params.wait <= 0 and not call.more):
        # The letter becomes dead when its last lease ends: the daemon has to watch that time.
        last = any(message.attempt >= call.settings.limits.attempts for message in messages)
        if last:
            call.notify(inbox(call.party))
        return Record(letters)
    deadline = None if call.more else call.now + params.wait
    due = mail.next_due(call.party)
    # The daemon makes dead letters of overdue mail that was not delivered; running again would not
    # help.
    until = due if due is not None and due > call.now else None
    return Wait(frozenset({inbox(call.party)}), deadline, letters, until=until)


@operation(action="receive", allow=SELF)
def wait_reply(call: Call, params: WaitReplyParams) -> Record[Answer] | Wait[Answer]:
    """Wait for the answer to a message that the caller sent.

    A repeated call waits again, and returns the same answer again. If the message was sent with
    `reply_within`, the answer is reserved for this call for that time, and `recv` delivers it only
    later; otherwise the first of the two calls gets it.
    """
    message = call.ledger.messages.answer(call.party, params.id, call.now)
    answer = Answer(reply=None if message is None else _letter(message))
    if message is not None or params.wait <= 0:
        if message is not None:
            call.notify(inbox(call.party))
        return Record(answer)
    return Wait(frozenset({inbox(call.party)}), call.now + params.wait, answer)


@operation(action="receive", allow=SELF)
def ack(call: Call, params: AckParams) -> Record[Acked]:
    """Mark messages, or items of queues, as done; they are not delivered again."""
    acked = call.ledger.messages.ack(call.party, params.ids)
    acked += call.ledger.queues.ack(call.party, params.ids)
    call.notify(inbox(call.party))
    return Record(Acked(acked=acked))


@operation(action="receive", allow=SELF)
def nack(call: Call, params: NackParams) -> Record[Nacked]:
    """Give messages back: they are delivered again, and become dead letters after 5 attempts.

    Items of queues become ready again for every agent that may take them.
    """
    dead = call.ledger.messages.nack(call.party, params.ids, params.why, call.now, dead=params.dead)
    dead_things = give_back(call, params.ids, dead=params.dead)
    for message in dead:
        emit(call, MessageGivenUp(message))
    call.notify(inbox(call.party), *senders(dead))
    return Record(Nacked(dead=[*(message.id for message in dead), *dead_things]))


@operation(action="read", allow=SELF | OPERATOR, target="agent", preposition="of")
def list_messages(call: Call, params: ListMessagesParams) -> ListedLetters | Wait[ListedLetters]:
    """List the messages in an inbox, or its dead letters, without receiving them.

    Allowed to the owner and the operator: mail is private to its sender and its recipient.
    """
    if call.sub is not None and params.agent is not None:
        raise NotAllowed(
            "cannot list messages: a sub-agent has its own inbox only", rule="subagent"
        )
    owner = _owner(call, params.agent)
    _check_kind_of_mail(call, params)
    if params.sent:
        return _sent_page(call, params, owner)
    mail, most, after = call.ledger.messages, params.most, params.after or ""
    if params.archived:
        archives = [archive.uuid for archive in call.ledger.archives.all()]
        number, messages = mail.messages_by_age(*archives, dead=True, limit=most, after=after)
        rows = map(_archived_letter, messages)
    else:
        number, messages = mail.messages_by_age(
            owner, dead=params.dead, done=params.done, limit=most, after=after
        )
        rows = map(_listed_letter, messages)
    listed = list(take_fitting(rows, lambda row: _AROUND + len(row.model_dump_json().encode())))
    more = call.more or len(listed) < number or number == params.most
    last = listed[-1].id if listed else params.after
    page = ListedLetters(messages=listed, next=last if more else None)
    if call.more and not listed:
        return Wait(frozenset({inbox(owner)}), None, page)
    return page


def _check_kind_of_mail(call: Call, params: ListMessagesParams) -> None:
    if (params.sent or params.done or params.archived) and not call.by_operator:
        raise NotAllowed(
            "cannot list messages: `sent`, `done` and `archived` are for the operator",
            rule="operator",
        )
    if params.archived and (not params.dead or params.agent is not None or call.more):
        reason = "only with `dead`, without `agent`, and not as a stream"
        raise InvalidArgument(reason, field="archived")
    if params.dead + params.done + params.sent > 1:
        raise InvalidArgument("only one of `dead`, `done` and `sent`", field="sent")
    if call.more and (params.sent or params.done):
        raise InvalidArgument("not as a stream", field="sent" if params.sent else "done")


def _sent_page(call: Call, params: ListMessagesParams, sender: str) -> ListedLetters:
    """Messages of a sender. All messages are looked through, so many in each call."""
    sent, end = call.ledger.messages.messages_from(sender, params.after or "", params.most)
    rows = map(_listed_letter, sent)
    listed = list(take_fitting(rows, lambda row: _AROUND + len(row.model_dump_json().encode())))
    if len(listed) < len(sent):
        end = listed[-1].id
    return ListedLetters(messages=listed, next=end)


# Kinds of mail that have rows of their own in the operator's list, by the id of the question.
ASKING: Final = frozenset(kind.value for kind in QuestionKind)


class ClearInboxParams(Mutation):
    ids: Ids | None = Field(None, description="Ids of the messages.")
    up_to: MessageId | None = Field(
        None,
        description="In place of `ids`: id of the newest message; all others that wait and came"
        " before it are acknowledged too, at most 1,000 in a call; those of questions and"
        " escalations stay until they are answered.",
    )
    tasks: Ids | None = Field(
        None, description="In place of `ids`: ids of tasks that you assigned, that have ended and"
        " whose end you have seen; the message about your tasks leaves them out.",
    )  # fmt: skip


class ClearedInbox(Result):
    cleared: int = Field(description="Number of them that were waiting for an ack.")


@operation(action="administer", allow=OPERATOR)
def clear_inbox(call: Call, params: ClearInboxParams) -> Record[ClearedInbox]:
    """Acknowledge messages in the operator's own inbox. A login may call this.

    Messages of agents are not touched: an agent acknowledges its own, with `ack`.
    """
    mail = call.ledger.messages
    match (params.ids, params.up_to, params.tasks):
        case ([*ids], None, None):
            cleared = mail.ack(THE_OPERATOR, ids)
        case (None, str(newest), None):
            cleared = mail.ack_up_to(THE_OPERATOR, newest, ASKING)
        case (None, None, [*tasks]):
            cleared = sum(forget_end(call, THE_OPERATOR, id_) for id_ in tasks)
        case _:
            reason = "give one of `ids`, `up_to` and `tasks`"
            raise InvalidArgument(reason, field="up_to")
    call.notify(inbox(THE_OPERATOR))
    return Record(ClearedInbox(cleared=cleared), fields={"cleared": cleared})


class ClearDeadLettersParams(Mutation):
    agent: Agent | None = Field(
        None, description="Agent whose dead letters are deleted; absent: those of the operator."
    )
    as_of: Annotated[str, Field(pattern=r"^[0-9]{1,18}$")] | None = Field(
        None, description="The `as_of` of their row in `todo`: those that became dead letters after"
        " it stay, whenever they were sent; absent: all are deleted.",
    )  # fmt: skip


class ClearedDeadLetters(Result):
    cleared: int = Field(description="Number of deleted dead letters, at most 1,000 in a call.")


@operation(action="administer", allow=OPERATOR, target="agent", preposition="of")
def clear_dead_letters(call: Call, params: ClearDeadLettersParams) -> Record[ClearedDeadLetters]:
    """Delete dead letters of an agent, or of the operator. Their senders were told already.

    Without this call a dead letter is kept for 30 days.
    """
    owner = _owner(call, params.agent)
    death = None if params.as_of is None else int(params.as_of)
    cleared = call.ledger.messages.clear_dead(owner, death)
    call.notify(inbox(owner))
    return Record(ClearedDeadLetters(cleared=cleared), fields={"cleared": cleared})


def _owner(call: Call, agent: str | None) -> str:
    if agent is None:
        return call.party
    return THE_OPERATOR if agent == THE_OPERATOR else call.hive.spec(agent).id


def _listed_letter(message: Message) -> ListedLetter:
    return ListedLetter(**_letter(message).model_dump(), dead_why=message.dead_why)


def _archived_letter(message: Message) -> ListedLetter:
    return _listed_letter(message).model_copy(update={"archived": message.recipient})


def _letter(message: Message, woke: str | None = None) -> Letter:
    return Letter(
        id=message.id, sender=message.sender_name, from_uuid=message.sender,
        relation=message.relation.value, to=message.recipient_name, body=message.body,
        kind=message.kind, thread=message.thread, reply_to=message.reply_to,
        priority=message.priority, sent_at=message.sent_at, attempt=message.attempt,
        source=message.source, wait_id=woke, hops=message.hops,
    )  # fmt: skip
