"""What an assigner hears of its tasks: one message at a time, with the state of all of them.

As long as it has not taken the message, the next change makes a new one in its place. So 64 tasks
that end at once are one message to read, and what is read is never old.
"""

from __future__ import annotations

from typing import Final, Unpack

from hive_core.broker.call import Call
from hive_core.errors import InboxFull
from hive_core.ledger.letters import NewMessage
from hive_core.model.record import DAEMON, OPERATOR, Relation
from hive_core.model.task import Task
from hive_core.operations.notices import PRIORITY, More, post
from hive_core.operations.task_words import board

TASKS: Final = "tasks"
_KEPT: Final = 256  # tasks that one message tells of


def news(call: Call, task: Task) -> frozenset[str]:
    """Tell who gave the task where it stands; the topics to touch."""
    party = task.assigner
    name = OPERATOR if party == OPERATOR else call.hive.name(party)
    if name is None:
        return frozenset()
    tasks, mail = call.ledger.tasks, call.ledger.messages
    before, ids = tasks.news(party)
    unread = bool(before) and mail.untaken(party, before)
    new = [*(each for each in ids if unread and each != task.id), task.id][-_KEPT:]
    if unread:
        mail.ack(party, [before])
    changed = [found for each in new if (found := tasks.get(each)) is not None]
    body = board(call, changed, tasks.given_by(party))
    message, topics = daemon_mail(call, name, TASKS, body)
    tasks.told(party, message, new)
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
