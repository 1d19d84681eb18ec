"""Sending: how a message is stored, and to which thread it belongs."""

from __future__ import annotations

from contextlib import suppress

from hive_core.errors import InboxFull, InvalidArgument, NotFound
from hive_core.ledger.core.connection import Connection
from hive_core.ledger.core.ids import Ids
from hive_core.ledger.core.storage_use import StorageUse
from hive_core.ledger.mail.inbox_shares import InboxShares
from hive_core.ledger.mail.letters import NewMessage, number, text_id
from hive_core.ledger.mail.mailbox import Box
from hive_core.ledger.mail.mailboxes import Boxes
from hive_core.ledger.mail.requests import Requests
from hive_core.model.wire.record import DAEMON, Message, Relation

_LISTED = 20
_INSERT = (
    "INSERT INTO messages (id, sender, recipient, relation, kind, thread, reply_to, priority,"
    " sent_at, expires_at, body, source, hops)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_JOIN = "INSERT INTO threads (thread, message, sender, recipient) VALUES (?, ?, ?, ?)"
# Only an exact str is bound without the adapters of sqlite3.
_WORDS = {relation: relation.value for relation in Relation}


def one_line(text: str) -> str:
    """The text without characters that end a line, move a cursor or change the direction."""
    if not text.isprintable():  # seldom
        text = "".join(char if char.isprintable() else " " for char in text)
    return " ".join(text.split())


class Posting:
    def __init__(
        self, connection: Connection, boxes: Boxes, requests: Requests, crowds: InboxShares,
        stored: StorageUse,
    ) -> None:  # fmt: skip
        self._db = connection
        self._boxes = boxes
        self._crowds = crowds
        self._stored = stored
        self._requests = requests
        self._ids = Ids()

    def start(self) -> None:
        """Continue after the highest id that was ever used."""
        self._boxes.resume()
        self._ids.last = self._db.value(
            "SELECT MAX(COALESCE((SELECT MAX(id) FROM messages), 0),"
            " COALESCE((SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'mail'), 0))"
        )

    def send(self, new: NewMessage, now: float) -> Message:
        """Store a message.

        InboxFull, NotFound (recipient destroyed, `reply_to`), InvalidArgument.
        """
        sender = self._boxes.enter(new.sender, new.sender_name)
        if new.reply_to is None and new.thread is None:
            return self._put(new, sender, now)
        thread, reply_to = self._thread(new, sender.number)
        return self._put(new, sender, now, thread, reply_to)

    @property
    def newest_id(self) -> int:
        return self._ids.last

    def seal(self) -> None:
        """Write pending state. Called before COMMIT."""
        self._boxes.seal(self._ids.last)

    def belongs(self, thread: str, party: int | None) -> bool | None:
        """Whether the party sent or received a message in a thread; None if it is unknown."""
        root = number(thread)
        begun = "SELECT 1 FROM messages WHERE id = ?1 AND thread IS NULL"
        went_on = "SELECT 1 FROM threads WHERE thread = ?2"
        mine = "?3 IN (sender, recipient)"
        for where in (f" AND {mine}", ""):
            # Limited by the size of the thread; a member is found at its first row.
            if self._db.value(
                f"SELECT EXISTS ({begun}{where}) OR EXISTS ({went_on}{where}), ?3",
                (root, thread, party),
            ):
                return bool(where)
        return None

    def tell(self, lost: list[Message], now: float) -> None:
        """Inform one sender, in one message, about all of its messages that became dead."""
        first = lost[0]
        # The reason may be text of the recipient: on one line it cannot pass for the daemon's.
        lines = [
            f"{message.id} to {message.recipient_name}: {one_line(message.dead_why or '')}"
            for message in lost[:_LISTED]
        ]
        if len(lost) > _LISTED:
            lines.append(f"and {len(lost) - _LISTED} more")
        new = NewMessage(
            sender=DAEMON, sender_name=DAEMON, recipient=first.sender,
            recipient_name=first.sender_name, relation=Relation.DAEMON,
            body="\n".join(["Not delivered:", *lines]), kind="dead_letter",
        )  # fmt: skip
        # If the sender is destroyed or its inbox is full, it can still list the dead letters.
        with suppress(InboxFull, NotFound):
            sender = self._boxes.enter(DAEMON, DAEMON)
            self._put(new, sender, now, first.thread, number(first.id))

    def _put(
        self, new: NewMessage, sender: Box, now: float, thread: str | None = None,
        reply_to: int | None = None,
    ) -> Message:  # fmt: skip
        box = self._boxes.enter(new.recipient, new.recipient_name)
        party, body, ttl, within = new.sender, new.body, new.ttl, new.reply_within
        size = len(body) if body.isascii() else len(body.encode())
        id_ = self._ids.next(now)
        expires_at = None if ttl is None else now + ttl
        reserved_until = (
            None if reply_to is None else self._requests.claim_answer(reply_to, box, now)
        )
        if within is not None:  # a call that fails must not have put anything into the box
            self._boxes.check_room(box, size)
            self._requests.open(id_, sender, now + within, now)
        self._boxes.take(
            box, (new.priority, id_, size), expires_at, twice=party == DAEMON, lease=reserved_until
        )  # fmt: skip
        if self._crowds.counted:
            self._crowds.add_message(box, party, size)
        self._stored.add_mail(party, size)
        self._db.later(
            _INSERT,
            (
                id_, sender.number, box.number, _WORDS[new.relation], new.kind, thread, reply_to,
                new.priority, now, expires_at, body, new.source, new.hops,
            ),
        )  # fmt: skip
        if thread is not None:
            self._db.later(_JOIN, (thread, id_, sender.number, box.number))
        text = text_id(id_)
        return Message(
            text, party, new.sender_name, new.recipient, new.recipient_name, new.relation, body,
            new.kind, thread or text, None if reply_to is None else text_id(reply_to),
            new.priority, now, expires_at, source=new.source, hops=new.hops,
        )  # fmt: skip

    def shift(self, seconds: float) -> None:
        """Shift ids with the clock."""
        self._ids.shift(seconds)

    def _thread(self, new: NewMessage, sender: int) -> tuple[str | None, int | None]:
        """The thread and `reply_to` of a message. A sender cannot join a thread of others."""
        if new.reply_to is not None:
            return self._answer(new.reply_to, new.thread, sender)
        thread = new.thread or ""
        known = number(thread) is not None
        if self.belongs(thread, sender) if known else self._open(thread, sender, new.recipient):
            return thread, None
        raise InvalidArgument(f"no thread {thread} of yours", field="thread")

    def _open(self, thread: str, sender: int, to: str) -> bool:
        """Whether the sender may use this thread with the recipient.

        Names of threads are free for the whole hive: use by hidden agents neither shows nor blocks
        a name (attack 41). But an agent in a thread cannot be joined by another agent that has
        exchanged messages in it neither with it nor with one of its partners (attack 43).
        """
        recipient = self._boxes.find(to)
        theirs = self._talkers(thread, recipient.number if recipient else None)
        if not theirs or sender in theirs:
            return True
        return not theirs.isdisjoint(self._talkers(thread, sender))

    def _talkers(self, thread: str, party: int | None) -> set[int]:
        """The other parties with which a party exchanged messages in a thread."""
        rows = self._db.rows(
            "SELECT DISTINCT CASE sender WHEN ?2 THEN recipient ELSE sender END FROM threads"
            " WHERE thread = ?1 AND ?2 IN (sender, recipient)",
            (thread, party),
        )
        return {row[0] for row in rows} - {party}

    def _answer(self, reply_to: str, thread: str | None, sender: int) -> tuple[str, int]:
        row = self._db.row(
            "SELECT id, thread, sender, recipient FROM messages WHERE id = ?", (number(reply_to),)
        )
        if row is None or sender not in row[2:]:
            raise NotFound(f"no message {reply_to} in your mail")
        inherited = row[1] or text_id(row[0])
        if thread not in (None, inherited):
            raise InvalidArgument(f"message {reply_to} is not in thread {thread}", field="thread")
        return inherited, row[0]
