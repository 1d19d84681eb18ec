"""Mail: durable, leased, delivered at least once until acked, in order per sender and recipient.

Order: an inbox delivers by time of sending, where each step of lower priority counts as ten seconds
(`delivery_order.py`). So mail of one sender to one recipient is first delivered in the order of
sending, except that a more urgent message may precede one that was sent less than thirty seconds
before it. A message that comes back (lease ended, nack) keeps its position. Mail that an earlier
daemon delivered and that is not acked may not have arrived: until it is acked or comes back, later
mail of that sender waits, unless more urgent.

A message that was leased `attempts` times and not acked, outlived its ttl, or whose recipient was
destroyed becomes a dead letter, and the daemon informs its sender.
"""

from __future__ import annotations

import json
from collections.abc import Container, Iterable, Iterator
from dataclasses import replace
from math import inf
from operator import itemgetter
from typing import Final

from hive_core.ledger.core.connection import Connection
from hive_core.ledger.core.storage_use import StorageUse
from hive_core.ledger.mail.delivery_order import DeliveryTurns
from hive_core.ledger.mail.ended import Ends
from hive_core.ledger.mail.hops import ReceivedHops
from hive_core.ledger.mail.inbox_shares import InboxShares
from hive_core.ledger.mail.letters import COLUMNS, COPY, message, number, text_id
from hive_core.ledger.mail.mailbox import Box, InboxPlace, MessageState
from hive_core.ledger.mail.mailboxes import Boxes
from hive_core.ledger.mail.posting import Posting
from hive_core.ledger.mail.requests import Requests
from hive_core.model.config.settings import HostLimits
from hive_core.model.wire.record import DAEMON, Message

_AT_ONCE = ACKED_MOST = 1000
_DEAD_KEPT, _DONE_KEPT = 30 * 86_400.0, 7 * 86_400.0


_WHOLE = (
    f"SELECT {COLUMNS} FROM messages m"  # noqa: S608 - our own words
    " CROSS JOIN parties s ON s.id = m.sender CROSS JOIN parties r ON r.id = m.recipient"
    " LEFT JOIN queue q ON q.inbox = m.recipient AND q.state IN (0, 1, 2, 3, 4)"
    " AND q.rank IN (0, m.priority) AND q.id = m.id WHERE m.id = ?"
)

# Messages that one look for those of a sender goes through: no index has them by sender.
_SEARCHED: Final = 2000


class Messages:
    def __init__(self, connection: Connection, limits: HostLimits, stored: StorageUse) -> None:
        self._db = connection
        self._limits = limits
        self._boxes = Boxes(connection, limits)
        self._crowds = InboxShares(connection, self._boxes, limits)
        self._ends = Ends(connection, self._boxes, self._crowds, limits)
        self._requests = Requests(connection)
        # Messages and bytes by sender of an inbox that is a quarter full; else empty.
        self.bytes_by_sender = self._crowds.of
        self._posting = Posting(connection, self._boxes, self._requests, self._crowds, stored)
        # Takes a letter: InboxFull, NotFound (recipient gone, `reply_to`), InvalidArgument.
        self.send = self._posting.send
        self._turns = DeliveryTurns(connection)
        self._hops = ReceivedHops(connection)
        # Parties that may work on a message: of all others nothing follows from mail.
        self.receivers: Container[str] = self._hops.times
        # When each party read its mail last, since its machine or this daemon started.
        self._readers: dict[str, float] = {}

    def start(self) -> None:
        """Hold mail that an earlier daemon delivered, and place its unplaced messages."""
        self._posting.start()
        self._hops.start(self._posting.newest_id)

    def seal(self) -> None:
        """Write pending state. Called before COMMIT."""
        self._posting.seal()

    def belongs(self, thread: str, party: str) -> bool | None:
        """Whether the party sent or received a message in a thread; None if it is unknown."""
        box = self._boxes.find(party)
        return self._posting.belongs(thread, box.number if box else None)

    def lease(
        self, recipient: str, most: int, lease: float, now: float, only: str = ""
    ) -> list[Message]:
        """Lease up to `most` messages; those not acked within `lease` seconds come back.

        `only`: `work` for messages that assign work, `other` for the rest; empty: all.
        """
        self._readers[recipient] = now
        box = self._boxes.find(recipient)
        if box is None:
            return []
        self._boxes.place(box)
        if box.due <= now:
            self._end_leases(box, now)
        turns = self._turns.next(box, recipient, most, now, only)
        if turns:
            self._boxes.give(box, [turn[:2] for turn, _ in turns], now + lease)
        for _, letter in turns:
            self._hops.note(letter, now)
        return [letter for _, letter in turns]

    def recent_hops(self, party: str, now: float) -> int | None:
        """The most hops of the messages that the party was given lately; None: there was none."""
        return self._hops.most_recent(party, now)

    def hops_in_hand(self, party: str) -> int | None:
        """The most hops of the messages that the party has taken and not acked; None: none."""
        return self._hops.most_in_hand(self._boxes.find(party))

    def answer(self, party: str, message_id: str, now: float) -> Message | None:
        """The first answer to a message of the party; it is acked.

        A repeated call returns the same answer while it is kept. NotFound: not a message of the
        party.
        """
        answer_id = self._requests.answer(message_id, self._boxes.find(party))
        if answer_id is None:
            return None
        self.ack(party, [answer_id])
        letter = self.get(answer_id)
        if letter is not None:
            self._hops.note(letter, now)
        return letter

    def ack(self, recipient: str, ids: Iterable[str]) -> int:
        """Ack messages, leased or not; return how many there were."""
        box, places = self._standing(recipient, ids)
        if box is not None and places:
            self._ends.finish(box, places)
        return len(places)

    def nack(
        self, recipient: str, ids: Iterable[str], why: str, now: float, *, dead: bool = False
    ) -> list[Message]:
        """Return messages for another delivery, or make them dead; return the dead ones."""
        _, places = self._standing(recipient, ids)
        ended = []
        for place in places:
            if dead or place.attempt >= self._limits.attempts:
                ended.append((place, why or f"given up after {place.attempt} attempts"))
            else:
                self._boxes.back(place)
        return self._bury(ended, now)

    def expire(self, now: float) -> list[Message]:
        """End leases and times to live that are due; return the messages that became dead."""
        rows = self._db.rows(
            "SELECT q.inbox, q.state, q.rank, q.id, q.size, q.attempt, m.expires_at"
            " FROM queue q CROSS JOIN messages m ON m.id = q.id"
            " WHERE q.due <= ? ORDER BY q.due LIMIT ?",
            (now, _AT_ONCE),
        )
        ended = []
        for place in map(InboxPlace._make, rows):
            if place.expires is not None and place.expires <= now:
                ended.append((place, "its time to live ended"))
            elif place.attempt >= self._limits.attempts:
                ended.append((place, f"not acked after {place.attempt} attempts"))
            else:
                self._boxes.back(place)
        dead = self._bury(ended, now)
        row = self._db.row("SELECT party, gone FROM parties WHERE gone <> '' LIMIT 1")
        box = self._boxes.find(row[0]) if row is not None and len(rows) < _AT_ONCE else None
        return dead if box is None or row is None else dead + self._empty(box, row[1], now)

    def dead_letter(self, recipient: str, why: str, now: float) -> list[Message]:
        """Close the inbox of a destroyed recipient; what agents sent becomes dead.

        In a very full inbox a part becomes dead at once, and the rest step by step (`expire`).
        """
        box = self._boxes.find(recipient)
        if box is None:
            return []
        self._boxes.place(box)
        self._boxes.close(box, closed=True)
        self._requests.forget(box)
        return self._empty(box, why, now)

    def untaken(self, recipient: str, message_id: str) -> bool:
        """Whether a message waits in this inbox and was never delivered."""
        _, places = self._standing(recipient, [message_id])
        return any(place.state == MessageState.READY and not place.attempt for place in places)

    def under_way(self, recipient: str) -> bool:
        """Whether the recipient has leased a message that it has not acked."""
        box = self._boxes.find(recipient)
        if box is None or not box.live.count:
            return False
        sql = "SELECT EXISTS (SELECT 1 FROM queue WHERE inbox = ? AND state = ?)"
        return bool(self._db.value(sql, (box.number, int(MessageState.LEASED))))

    def is_reader(self, party: str) -> bool:
        """Whether the party has read its mail since its machine, or this daemon, started."""
        return party in self._readers

    def last_read(self, party: str) -> float:
        """When the party read its mail last since its machine, or this daemon, started; else 0."""
        return self._readers.get(party, 0.0)

    def forget_reader(self, party: str) -> None:
        """Record that the machine of the party starts or ended: it has not read its mail yet."""
        self._readers.pop(party, None)

    def check_room(self, recipient: str, body: str) -> None:
        """Raise InboxFull if a message of an agent with this text would not fit."""
        if (box := self._boxes.find(recipient)) is not None:
            self._boxes.check_room(box, len(body.encode()))

    def reopen(self, recipient: str) -> None:
        """Open the inbox of a restored recipient again."""
        if (box := self._boxes.find(recipient)) is not None:
            self._boxes.close(box, closed=False)
            self._boxes.empty(box, "")

    def inbox(self, recipient: str, *, dead: bool, limit: int, after: str = "") -> list[Message]:
        """Live messages or dead letters by age, without leasing them."""
        return list(self.messages_by_age(recipient, dead=dead, limit=limit, after=after)[1])

    def messages_by_age(
        self, *recipients: str, dead: bool, limit: int, after: str = "", done: bool = False
    ) -> tuple[int, Iterator[Message]]:
        """The number of such messages, and an iterator that reads them one by one."""
        first = number(after) or 0
        ids = sorted(
            id_ for one in recipients
            if (box := self._boxes.find(one)) and (box.dead.count or not dead)
            for id_ in (self._boxes.ended_ids(box, first, limit) if done
                        else self._boxes.ids_by_age(box, first, limit, dead=dead))
        )[:limit]  # fmt: skip
        rows = (self._db.row(_WHOLE, (message_id,)) for message_id in ids)
        return len(ids), (message(row) for row in rows if row is not None)

    def messages_from(self, sender: str, after: str, most: int) -> tuple[list[Message], str | None]:
        """Messages of a sender by age, and the id up to which was searched; None: to the end."""
        party = self._db.value("SELECT id FROM parties WHERE party = ?", (sender,))
        rows = self._db.rows(
            "SELECT id, sender FROM messages WHERE id > ? ORDER BY id LIMIT ?",
            (number(after) or 0, _SEARCHED),
        )
        ids = [message_id for message_id, of in rows if of == party]
        end = rows[-1][0] if len(rows) == _SEARCHED else None
        if len(ids) > most:
            ids, end = ids[:most], ids[most - 1]
        sent = [self._db.row(_WHOLE, (message_id,)) for message_id in ids]
        return [message(row) for row in sent if row], None if end is None else text_id(end)

    def get(self, message_id: str) -> Message | None:
        """One message in any state."""
        row = self._db.row(_WHOLE, (number(message_id),))
        return message(row) if row else None

    def shift(self, seconds: float) -> None:
        """Shift times with the clock."""
        self._boxes.shift(seconds)
        self._requests.shift(seconds)
        self._posting.shift(seconds)
        self._hops.shift(seconds)

    def size(self, recipient: str) -> tuple[int, int]:
        """Messages and bytes that wait or are leased."""
        return self._boxes.size(recipient)

    def parties_among(self, parties: Iterable[str]) -> set[str]:
        """Those of these parties that ever had mail."""
        sql = "SELECT party FROM parties WHERE party IN (SELECT value FROM json_each(?))"
        return {party for (party,) in self._db.rows(sql, (json.dumps(list(parties)),))}

    def parties(self) -> list[str]:
        """All parties that ever had mail, by age of their inbox."""
        return [party for (party,) in self._db.rows("SELECT party FROM parties ORDER BY id")]

    def dead(self, recipient: str) -> int:
        """The number of dead letters of the recipient."""
        box = self._boxes.find(recipient)
        return box.dead.count if box else 0

    def recent_dead(self, recipient: str, since: float) -> tuple[int, float | None]:
        """How many of its dead letters were sent since then, and when the first died, if known."""
        box = self._boxes.find(recipient)
        if box is None or not box.dead.count:
            return 0, None
        sql = "SELECT COUNT(*), MIN(died) FROM queue WHERE inbox = ? AND state = ? AND rank = 0"
        place = (box.number, int(MessageState.DEAD), int(since * 1e6))
        count, died = self._db.row(f"{sql} AND id >= ?", place) or (0, None)
        return count, None if died is None else died / 1e6

    def newest(self, recipient: str) -> str:
        """The id of the newest message that waits; empty: none."""
        box = self._boxes.find(recipient)
        newest = 0 if box is None else self._boxes.newest_id(box)
        return text_id(newest) if newest else ""

    def ack_up_to(self, recipient: str, last: str, spared: Iterable[str] = ()) -> int:
        """Ack the oldest messages up to an id, `ACKED_MOST` at a time; return how many.

        Messages of the kinds `spared` stay, however many there are.
        """
        box, most = self._boxes.find(recipient), number(last)
        if box is None or most is None:
            return 0
        ids = self._boxes.ids_up_to(box, most, spared, ACKED_MOST)
        return self.ack(recipient, map(text_id, ids))

    def last_death(self, recipient: str) -> int:
        """The number of the last death among the recipient's dead letters."""
        box = self._boxes.find(recipient)
        return 0 if box is None else box.last_death

    def clear_dead(self, recipient: str, death: int | None = None) -> int:
        """Delete dead letters, up to a death or all, so many at a time; return how many."""
        box = self._boxes.find(recipient)
        return 0 if box is None else self._ends.clear_dead(box, _AT_ONCE, death)

    def next_due(self, recipient: str | None = None) -> float | None:
        """When the next lease or time to live ends in any inbox; for one inbox, a lower bound."""
        if recipient is None:
            due: float | None = self._db.value(
                "SELECT CASE WHEN EXISTS (SELECT 1 FROM parties WHERE gone <> '') THEN 0.0"
                " ELSE (SELECT MIN(due) FROM queue WHERE due IS NOT NULL) END"
            )
            return due
        box = self._boxes.find(recipient)
        return None if box is None or box.due == inf else box.due

    def prune(self, now: float, dead: float = _DEAD_KEPT, done: float = _DONE_KEPT) -> int:
        """Delete older dead and acked mail, a limited number at a time; return how many."""
        count = self._ends.prune(MessageState.DEAD, int((now - dead) * 1e6), _AT_ONCE)
        return count + self._ends.prune(MessageState.DONE, int((now - done) * 1e6), _AT_ONCE)

    def _standing(self, recipient: str, ids: Iterable[str]) -> tuple[Box | None, list[InboxPlace]]:
        """The places of these messages that are in this inbox and have not ended."""
        box = self._boxes.find(recipient)
        if box is None:
            return None, []
        self._boxes.place(box)
        wanted = dict.fromkeys(filter(None, map(number, ids)))
        places = [self._boxes.standing(box, message_id) for message_id in wanted]
        return box, [place for place in places if place is not None]

    def _end_leases(self, box: Box, now: float) -> None:
        """Make messages with an ended lease ready.

        Those that are dead by it are left to `expire`.
        """
        for row in self._db.rows(
            "SELECT q.inbox, q.state, q.rank, q.id, q.size, q.attempt, m.expires_at"
            " FROM queue q CROSS JOIN messages m ON m.id = q.id"
            " WHERE q.inbox = ? AND q.state IN (1, 2) AND q.due <= ? AND q.attempt < ?",
            (box.number, now, self._limits.attempts),
        ):
            self._boxes.back(InboxPlace(*row))
        self._boxes.look(box)

    def _empty(self, box: Box, why: str, now: float) -> list[Message]:
        """Make a part of a closed inbox dead, oldest first in each state.

        The daemon's own letters end like read ones: they told the recipient about itself, and
        their sender, the daemon, needs no notice of their end.
        """
        rows = self._db.rows(
            "SELECT q.inbox, q.state, q.rank, q.id, q.size, q.attempt, p.party FROM queue q"
            " CROSS JOIN messages m ON m.id = q.id CROSS JOIN parties p ON p.id = m.sender"
            " WHERE q.inbox = ? AND q.state IN (0, 1, 2) LIMIT ?",
            (box.number, _AT_ONCE),
        )
        places = [
            (InboxPlace(*row[:6]), row[6] == DAEMON) for row in sorted(rows, key=itemgetter(3))
        ]
        self._ends.finish(box, [place for place, is_notice in places if is_notice])
        dead = self._bury([(place, why) for place, is_notice in places if not is_notice], now)
        self._boxes.empty(box, why if box.live.count else "")
        return dead

    def _bury(self, ended: list[tuple[InboxPlace, str]], now: float) -> list[Message]:
        dead: list[Message] = []
        ends: dict[tuple[Box, str], list[InboxPlace]] = {}
        for place, why in ended:
            # Read before: an inbox full of dead letters may delete this one at once.
            message = self.get(text_id(place.id))
            box = self._boxes.find(message.recipient) if message else None
            if message is not None and box is not None:
                dead.append(replace(message, dead_why=why))
                ends.setdefault((box, why), []).append(place)
        for (box, why), places in ends.items():
            self._ends.dead(box, places, why, now)
        senders: dict[str, list[Message]] = {}
        for letter in dead:
            if letter.kind == COPY:  # its sender does not know of the copy
                continue
            senders.setdefault(letter.sender, []).append(letter)
        for sender, lost in senders.items():
            if sender != DAEMON:  # the daemon is not informed, or two inboxes could feed each other
                self._posting.tell(lost, now)
        return dead
