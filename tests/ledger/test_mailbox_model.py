"""The mailbox against a model in memory: order, no loss, no second copy but a redelivery."""

from __future__ import annotations

import shutil
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import mkdtemp

import pytest
from fixtures.messages import UndoRequested, letter, request_undo
from fixtures.seeds import empty_ledger
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from long import times
from typing_extensions import override

from hive_core.ledger.core.ledger import Ledger
from hive_core.model.config.settings import HostLimits
from hive_core.model.wire.record import DAEMON, Message

PARTIES = st.sampled_from(["anna", "bob", "carol"])
ATTEMPTS = 3


@dataclass
class Letter:
    """What the model knows of one letter."""

    id: str
    sender: str
    recipient: str
    priority: int
    expires: float | None
    attempt: int = 0
    lease_ends: float | None = None
    held: bool = False

    def due(self, now: float) -> bool:
        return self.lease_ends is not None and self.lease_ends <= now

    def is_expired(self, now: float) -> bool:
        return self.expires is not None and self.expires <= now


@dataclass
class Model:
    live: dict[str, Letter] = field(default_factory=dict)
    dead: set[str] = field(default_factory=set)
    acked: set[str] = field(default_factory=set)

    def box(self, recipient: str) -> list[Letter]:
        return sorted(
            (entry for entry in self.live.values() if entry.recipient == recipient),
            key=lambda entry: (int(entry.id, 16) + entry.priority * 10_000_000, entry.id),
        )

    def ready(self, recipient: str, now: float) -> list[Letter]:
        box = self.box(recipient)
        for entry in box:
            if entry.due(now) and entry.attempt < ATTEMPTS:
                entry.lease_ends, entry.held = None, False
        held = [entry for entry in box if entry.held]
        return [
            entry
            for entry in box
            if entry.lease_ends is None
            and not entry.is_expired(now)
            and not any(
                old.sender == entry.sender and old.priority <= entry.priority and old.id < entry.id
                for old in held
            )
        ]

    def expire(self, now: float) -> set[str]:
        ended = set()
        for entry in self.live.values():
            if entry.lease_ends is None and entry.is_expired(now):
                ended.add(entry.id)
            elif entry.due(now):
                entry.lease_ends, entry.held = None, False
                if entry.is_expired(now) or entry.attempt >= ATTEMPTS:
                    ended.add(entry.id)
        return ended


class Mailbox(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(mkdtemp(dir="/dev/shm" if Path("/dev/shm").is_dir() else None))
        empty_ledger().plant(self.folder)
        self.ledger = self._open()
        self.model = Model()
        self.now = 1000.0
        self.last_first: dict[tuple[str, str, int], str] = {}

    def _open(self) -> Ledger:
        return Ledger.open(self.folder / "hive.db", limits=HostLimits(attempts=ATTEMPTS), primed=0)

    @override
    def teardown(self) -> None:
        self.ledger.close()
        shutil.rmtree(self.folder)

    @rule(
        sender=PARTIES,
        recipient=PARTIES,
        priority=st.integers(0, 3),
        ttl=st.none() | st.floats(1, 100),
    )
    def send(self, sender: str, recipient: str, priority: int, ttl: float | None) -> None:
        with self.ledger.transaction():
            result = self.ledger.messages.send(
                letter(sender, recipient, priority=priority, ttl=ttl), self.now
            )
        self._know(result)

    @rule(recipient=PARTIES, most=st.integers(1, 4), lease=st.floats(1, 50))
    def lease(self, recipient: str, most: int, lease: float) -> None:
        with self.ledger.transaction():
            result = self.ledger.messages.lease(recipient, most, lease, self.now)
        expected = self.model.ready(recipient, self.now)[:most]
        assert [entry.id for entry in result] == [entry.id for entry in expected]
        for entry, delivered in zip(expected, result, strict=True):
            entry.attempt += 1
            entry.lease_ends = self.now + lease
            assert delivered.attempt == entry.attempt
            self._in_order(entry)

    @rule(recipient=PARTIES, data=st.data())
    def ack(self, recipient: str, data: st.DataObject) -> None:
        chosen = self._choose(recipient, data)
        with self.ledger.transaction():
            assert self.ledger.messages.ack(recipient, chosen) == len(chosen)
        for id_ in chosen:
            del self.model.live[id_]
            self.model.acked.add(id_)

    @rule(recipient=PARTIES, data=st.data(), dead=st.booleans())
    def nack(self, recipient: str, data: st.DataObject, dead: bool) -> None:  # noqa: FBT001
        chosen = self._choose(recipient, data)
        with self.ledger.transaction():
            result = self.ledger.messages.nack(recipient, chosen, "", self.now, dead=dead)
        ended = set()
        for entry in (self.model.live[name] for name in chosen):
            entry.lease_ends, entry.held = None, False
            if dead or entry.attempt >= ATTEMPTS:
                ended.add(entry.id)
        self._die(ended, result)

    @rule(recipient=PARTIES)
    def bury_and_reopen(self, recipient: str) -> None:
        with self.ledger.transaction():
            result = self.ledger.messages.dead_letter(recipient, "gone", self.now)
        box = self.model.box(recipient)
        # The daemon's own letters end with the inbox, and are no dead letters.
        for entry in (entry for entry in box if entry.sender == DAEMON):
            self.model.acked.add(self.model.live.pop(entry.id).id)
        self._die({entry.id for entry in box} - self.model.acked, result, closed=recipient)
        with self.ledger.transaction():
            self.ledger.messages.reopen(recipient)

    @rule(seconds=st.floats(0.5, 60))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @rule()
    def expire(self) -> None:
        with self.ledger.transaction():
            result = self.ledger.messages.expire(self.now)
        self._die(self.model.expire(self.now), result)

    @rule()
    def restart(self) -> None:
        self.ledger.close()
        self.ledger = self._open()
        for entry in self.model.live.values():
            entry.held = entry.lease_ends is not None

    @rule(recipient=PARTIES)
    def roll_back(self, recipient: str) -> None:
        with suppress(UndoRequested), self.ledger.transaction():
            self.ledger.messages.send(letter("anna", recipient), self.now)
            self.ledger.messages.lease(recipient, 10, 60, self.now)
            self.ledger.messages.dead_letter(recipient, "gone", self.now)
            request_undo()

    @rule(recipient=PARTIES, ttl=st.none() | st.floats(1, 100))
    def roll_back_one_call(self, recipient: str, ttl: float | None) -> None:
        """Earlier calls of the transaction stay."""
        with self.ledger.transaction():
            sent = self.ledger.messages.send(letter("carol", recipient, ttl=ttl), self.now)
            with suppress(UndoRequested), self.ledger.savepoint():
                self.ledger.messages.send(letter("anna", recipient, ttl=5.0), self.now)
                with self.ledger.savepoint():
                    self.ledger.messages.ack(recipient, [sent.id])
                self.ledger.messages.dead_letter(recipient, "gone", self.now)
                request_undo()
        self._know(sent)

    @invariant()
    def nothing_is_lost_and_the_counters_are_right(self) -> None:
        mail = self.ledger.messages
        for party in ("anna", "bob", "carol"):
            box = self.model.box(party)
            assert {message.id for message in mail.inbox(party, dead=False, limit=10_000)} == {
                message.id for message in box
            }
            assert mail.size(party)[0] == len(box)
            dead = {message.id for message in mail.inbox(party, dead=True, limit=10_000)}
            assert dead <= self.model.dead
            assert not dead & self.model.acked

    def _know(self, message: Message) -> None:
        self.model.live[message.id] = Letter(
            message.id, message.sender, message.recipient, message.priority, message.expires_at
        )

    def _choose(self, recipient: str, data: st.DataObject) -> list[str]:
        box = [entry.id for entry in self.model.box(recipient)]
        return data.draw(st.lists(st.sampled_from(box), unique=True)) if box else []

    def _in_order(self, entry: Letter) -> None:
        """The first delivery of each is never before that of an older equal one."""
        if entry.attempt == 1:
            key = (entry.sender, entry.recipient, entry.priority)
            assert self.last_first.get(key, "") < entry.id
            self.last_first[key] = entry.id

    def _die(self, ended: set[str], notices: list[Message], closed: str = "") -> None:
        assert {notice.id for notice in notices} == ended
        lost = [self.model.live.pop(id_) for id_ in ended]
        self.model.dead |= ended
        senders = {entry.sender for entry in lost} - {DAEMON, closed}
        result = [
            notice
            for sender in senders
            for notice in self.ledger.messages.inbox(sender, dead=False, limit=10_000)
            if notice.id not in self.model.live
        ]
        # One message from the daemon to each sender, and nothing else that is new.
        assert sorted(notice.recipient for notice in result) == sorted(senders)
        for notice in result:
            assert notice.sender == DAEMON
            self._know(notice)


pytestmark = pytest.mark.sized
TestMailbox = Mailbox.TestCase
TestMailbox.settings = settings(max_examples=times(15, 200), stateful_step_count=40, deadline=None)
