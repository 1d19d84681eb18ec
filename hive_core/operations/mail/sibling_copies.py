"""Copies of messages between siblings for their parent, where the operator enabled them.

A copy has the same sender and says on its first line what it is a copy of. Only a `send` is copied,
so a copy is never copied again. Copies take up at most half of an inbox. A message is delivered
also when it could not be copied.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Final

from hive_core.broker.call import Call
from hive_core.errors import InboxFull
from hive_core.ledger.mail.letters import COPY, NewMessage
from hive_core.model.config.limits import MailCopies
from hive_core.model.wire.record import Message, Relation
from hive_core.operations.mail.inbox_quota import check_share
from hive_core.operations.notices import deliver

PRIORITY: Final = 3


def copy_to_parent(call: Call, message: Message) -> None:
    """Put the copy of a message between siblings into their parent's inbox."""
    parent = call.hive.topology.parent(call.caller)
    if (
        call.settings.queues.copies is MailCopies.OFF
        or message.relation is not Relation.SIBLING
        or parent is None
        or not _room(call, call.hive.spec(parent).id)
    ):
        return
    letter = NewMessage(
        sender=call.uuid, sender_name=call.caller, recipient=call.hive.spec(parent).id,
        recipient_name=parent, relation=Relation.CHILD, body=_body(message), kind=COPY,
        priority=PRIORITY, hops=message.hops,
    )  # fmt: skip
    with suppress(InboxFull):
        check_share(call, letter.recipient, parent)
        deliver(call, letter)


def _room(call: Call, parent: str) -> bool:
    limits, (count, size) = call.settings.limits, call.ledger.messages.size(parent)
    return count * 2 < limits.inbox_count and size * 2 < limits.inbox_bytes


def _body(message: Message) -> str:
    about = {
        "copy": message.id, "to": message.recipient_name, "kind": message.kind,
        "thread": message.thread,
    }  # fmt: skip
    return f"{json.dumps(about)}\n{message.body}"
