"""Which hops the messages have that a party works on, or worked on lately."""

from __future__ import annotations

from typing import Final

from hive_core.ledger.core.connection import Connection
from hive_core.ledger.mail.mailbox import Box
from hive_core.model.wire.record import Message, Relation

# Seconds for which a message that was acked may still be worked on.
RECENT: Final = 900.0


class ReceivedHops:
    """Received messages by hops. In memory; a start reads what was sent lately."""

    def __init__(self, connection: Connection) -> None:
        self._db = connection
        # Of each party that may work on mail: hops -> when one with so many was delivered last.
        self.times: dict[str, dict[int, float]] = {}

    def start(self, newest: int) -> None:
        """Count mail that was sent just before the newest message (an id) as delivered."""
        rows = self._db.rows(
            "SELECT p.party, m.hops, MAX(m.sent_at) FROM messages m"
            " CROSS JOIN parties p ON p.id = m.recipient"
            " WHERE m.id > ? AND m.relation <> 'self' GROUP BY p.party, m.hops",
            (newest - int(RECENT * 1e6),),
        )
        for party, hops, sent_at in rows:
            self.times.setdefault(party, {})[hops] = sent_at
        in_hand = self._db.rows(
            "SELECT p.party FROM parties p WHERE EXISTS"
            " (SELECT 1 FROM queue q WHERE q.inbox = p.id AND q.state IN (1, 2))"
        )
        for (party,) in in_hand:
            self.times.setdefault(party, {})

    def note(self, message: Message, now: float) -> None:
        """Record a delivery. A message of a party to itself follows from an earlier one."""
        if message.relation is not Relation.SELF:
            self.times.setdefault(message.recipient, {})[message.hops] = now

    def most_recent(self, party: str, now: float) -> int | None:
        """The most hops of the messages that were delivered lately; None: there was none."""
        times = self.times.get(party, {})
        return max((hops for hops, at in times.items() if at > now - RECENT), default=None)

    def most_in_hand(self, box: Box | None) -> int | None:
        """The most hops of the messages that are delivered and not acked; None: there is none."""
        if box is None or not box.live.count:
            return None
        hops: int | None = self._db.value(
            "SELECT MAX(m.hops) FROM queue q CROSS JOIN messages m ON m.id = q.id"
            " WHERE q.inbox = ? AND q.state IN (1, 2)",
            (box.number,),
        )
        return hops

    def shift(self, seconds: float) -> None:
        """Shift times with the clock."""
        for times in self.times.values():
            times.update({hops: at + seconds for hops, at in times.items()})
