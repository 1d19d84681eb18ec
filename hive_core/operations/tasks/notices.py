"""What an assigner hears of its tasks: one message at a time, with the state of all of them.

As long as it has not taken the message, the next one takes its place; and of what happens within
the same moment it is told at once. So 64 tasks that end together are one message or two to read,
and what is read is never old: a message that is not true any more is written anew, or taken back.
"""

from __future__ import annotations

from math import inf
from typing import Final, Unpack

from hive_core.broker.call import Call, Record
from hive_core.broker.operation import Result
from hive_core.broker.timers import due
from hive_core.errors import InboxFull
from hive_core.ledger.mail.letters import NewMessage
from hive_core.ledger.tasks.notices import TASKS_PER_MESSAGE, NewsState
from hive_core.model.wire.record import DAEMON, OPERATOR, Relation
from hive_core.model.work.task import Task
from hive_core.operations.notices import PRIORITY, More, inbox, post
from hive_core.operations.tasks.letters import SHOWN, board

TASKS: Final = "tasks"
MOMENT: Final = 0.1  # seconds between two messages to the same assigner
_AT_ONCE: Final = 50


class Told(Result):
    """How many were told."""

    assigners: int


def news(call: Call, task: Task) -> frozenset[str]:
    """Tell who gave the task where it stands, now or within a moment; the topics to touch."""
    party, told = task.assigner, call.ledger.tasks.news
    if told.add(party, task.id, call.now, MOMENT):
        return frozenset({f"task_news:{party}"})
    kept = told.get(party)
    fresh = (*(each for each in kept.pending if each != task.id), task.id)[-TASKS_PER_MESSAGE:]
    return _tell(call, kept._replace(pending=fresh))


def correct_news(call: Call, party: str, task: str, *, known: bool) -> frozenset[str]:
    """A task took a step that is no news: what its assigner has not read of it is put right.

    `known`: it is not to be told of the task any more, as it did this itself, or has it no more.
    """
    before = call.ledger.tasks.news.get(party)
    now = before
    if known:
        now = now._replace(
            in_message=tuple(each for each in now.in_message if each != task),
            pending=tuple(each for each in now.pending if each != task),
        )
    if now.message and call.ledger.messages.untaken(party, now.message):
        now = now._replace(due=min(now.due or inf, max(call.now, now.at + MOMENT)))
    if now == before:
        return frozenset()
    call.ledger.tasks.news.save(now)
    return frozenset({f"task_news:{party}"})


@due(at=lambda ledger: ledger.tasks.news.next_due(), topics=frozenset({"task_news"}))
def task_news(call: Call) -> Record[Told]:
    """Tell those whose moment is over."""
    found = call.ledger.tasks.news.due_assigners(call.now, _AT_ONCE)
    topics = frozenset[str]()
    for party in found:
        topics |= _tell(call, call.ledger.tasks.news.get(party))
    return Record(Told(assigners=len(found)), topics)


def _tell(call: Call, kept: NewsState) -> frozenset[str]:
    """One message in place of the one that was not taken."""
    party, tasks, mail = kept.assigner, call.ledger.tasks, call.ledger.messages
    name = OPERATOR if party == OPERATOR else call.hive.name(party)
    if name is None:
        tasks.news.save(NewsState(party, at=call.now))
        return frozenset()
    unread = bool(kept.message) and mail.untaken(party, kept.message)
    if unread:
        mail.ack(party, [kept.message])
    before = (each for each in kept.in_message if unread and each not in kept.pending)
    new = (*before, *kept.pending)[-TASKS_PER_MESSAGE:]
    changed = [task for each in new if (task := tasks.get(each)) and task.assigner == party]
    if not changed:
        tasks.news.save(NewsState(party, at=kept.at))
        return frozenset({inbox(party)})
    count = tasks.count_open("assigner", party)
    body = board(call, changed, tasks.tasks_from(party, 2 * SHOWN), count)
    message, topics = daemon_mail(call, name, TASKS, body)
    tasks.news.save(NewsState(party, message, new, at=call.now))
    return topics


def daemon_mail(
    call: Call, name: str, kind: str, body: str, **more: Unpack[More]
) -> tuple[str, frozenset[str]]:
    """The same as `tell`, with the id of the message; empty when the inbox is full."""
    try:
        message, topics = post(call, from_daemon(call, name, kind, body, **more))
    except InboxFull:
        return "", frozenset()
    return message.id, topics


def from_daemon(call: Call, name: str, kind: str, body: str, **more: Unpack[More]) -> NewMessage:
    """A letter of the daemon to an agent, or to the operator."""
    uuid = OPERATOR if name == OPERATOR else call.hive.spec(name).id
    return NewMessage(
        sender=DAEMON, sender_name=DAEMON, recipient=uuid, recipient_name=name,
        relation=Relation.DAEMON, body=body, kind=kind, priority=more.get("priority", PRIORITY),
        thread=more.get("thread") or None,
    )  # fmt: skip
