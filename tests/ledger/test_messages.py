"""Mail: delivery, acks, redelivery, dead letters, and who may join a thread."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from fixtures.messages import UndoRequested, bodies, ids, letter, request_undo

from hive_core.errors import InboxFull, InvalidArgument, NotFound
from hive_core.ledger.core.ledger import Ledger
from hive_core.ledger.mail.ended import DONE_KEPT
from hive_core.model.config.settings import HostLimits
from hive_core.model.wire.record import DAEMON, Relation


def test_mail_is_given_in_the_order_of_sending_and_urgent_mail_first(ledger: Ledger) -> None:
    mail = ledger.messages
    with ledger.transaction():
        for body, priority in (("a", 2), ("b", 3), ("c", 0), ("d", 2)):
            mail.send(letter("anna", "bob", body, priority=priority), 10.0)
        assert bodies(mail.lease("bob", 10, 60, 11.0)) == ["c", "a", "d", "b"]


def test_a_message_has_its_sender_and_its_attempts(ledger: Ledger) -> None:
    with ledger.transaction():
        sent = ledger.messages.send(letter("anna", "bob", kind="note", ttl=30.0), 10.0)
        (delivered,) = ledger.messages.lease("bob", 10, 60, 11.0)
    assert (sent.sender, sent.sender_name, sent.relation) == ("anna", "anna", Relation.CHILD)
    assert (sent.thread, sent.reply_to, sent.expires_at) == (sent.id, None, 40.0)
    assert delivered.attempt == 1
    assert ledger.messages.get(sent.id) == delivered


def test_leased_mail_is_not_given_again_before_its_lease_ends(ledger: Ledger) -> None:
    mail = ledger.messages
    with ledger.transaction():
        mail.send(letter("anna", "bob"), 10.0)
        assert mail.lease("bob", 10, 60, 11.0)
        assert mail.lease("bob", 10, 60, 70.9) == []
        assert mail.next_due() == mail.next_due("bob") == 71.0
        (again,) = mail.lease("bob", 10, 60, 71.0)
    assert again.attempt == 2


def test_acked_mail_never_comes_back_and_a_late_ack_counts(ledger: Ledger) -> None:
    mail = ledger.messages
    with ledger.transaction():
        mail.send(letter("anna", "bob"), 10.0)
        lease = mail.lease("bob", 10, 60, 11.0)
        mail.expire(100.0)
        assert mail.ack("bob", ids(lease)) == 1
        assert mail.ack("bob", ids(lease)) == 0
        assert mail.lease("bob", 10, 60, 1000.0) == []
        assert mail.size("bob") == (0, 0)


def test_only_the_recipient_can_ack_and_nonsense_is_nobodys(ledger: Ledger) -> None:
    mail = ledger.messages
    with ledger.transaction():
        sent = mail.send(letter("anna", "bob"), 10.0)
        mail.send(letter("bob", "anna"), 10.0)
        for party in ("anna", "carol"):
            assert mail.ack(party, [sent.id, "nonsense", ""]) == 0
            assert mail.nack(party, [sent.id], "no", 10.0, dead=True) == []
        assert mail.size("bob") == (1, 5)


def test_a_message_that_comes_back_goes_before_younger_ones(ledger: Ledger) -> None:
    mail = ledger.messages
    with ledger.transaction():
        for body in "abc":
            mail.send(letter("anna", "bob", body), 10.0)
        first = mail.lease("bob", 1, 60, 11.0)
        assert mail.nack("bob", ids(first), "busy", 12.0) == []
        assert bodies(mail.lease("bob", 10, 60, 13.0)) == ["a", "b", "c"]


def test_mail_is_acked_up_to_an_id_also_behind_a_thousand_letters_that_stay(folder: Path) -> None:
    ledger = Ledger.open(folder / "large.db", limits=HostLimits(inbox_count=2000), primed=0)
    mail = ledger.messages
    with ledger.transaction():
        for _ in range(1000):
            mail.send(letter("anna", "bob", kind="question"), 10.0)
        first, last = (mail.send(letter("anna", "bob"), 10.0).id for _ in range(2))
        assert mail.ack_up_to("bob", first, ["question"]) == 1
        assert mail.ack_up_to("bob", last, ["question"]) == 1
        assert mail.size("bob")[0] == 1000
    ledger.close()


def test_a_box_is_bounded_by_count_and_by_bytes(folder: Path) -> None:
    ledger = Ledger.open(folder / "small.db", limits=HostLimits(inbox_count=3, inbox_bytes=1024))
    mail = ledger.messages
    with ledger.transaction():
        for _ in range(3):
            mail.send(letter("anna", "bob"), 10.0)
        with pytest.raises(InboxFull, match="the inbox of bob is full"):
            mail.send(letter("anna", "bob"), 10.0)
        with pytest.raises(InboxFull):
            mail.send(letter("anna", "carol", "é" * 513), 10.0)
        mail.ack("bob", ids(mail.lease("bob", 1, 60, 10.0)))
        mail.send(letter("anna", "bob"), 10.0)
    ledger.close()


def test_what_the_daemon_says_overruns_a_full_box_up_to_double(folder: Path) -> None:
    ledger = Ledger.open(folder / "small.db", limits=HostLimits(inbox_count=3), primed=0)
    with ledger.transaction():
        for sender in ("anna", DAEMON):
            for _ in range(3):
                ledger.messages.send(letter(sender, "bob"), 10.0)
        with pytest.raises(InboxFull):
            ledger.messages.send(letter(DAEMON, "bob"), 10.0)
    ledger.close()


def test_one_lease_never_gives_more_than_fits_a_frame(ledger: Ledger) -> None:
    """attack 37: a tiny request brings no huge reply."""
    mail = ledger.messages
    with ledger.transaction():
        for _ in range(10):
            mail.send(letter("anna", "bob", "\0" * 65_536), 10.0)
        lease = mail.lease("bob", 10, 60, 10.0)
        rest = mail.lease("bob", 10, 60, 10.0)
    assert len(lease) == len(rest) == 2


def test_ids_grow_even_when_the_clock_goes_back_and_mail_was_deleted(folder: Path) -> None:
    ledger = Ledger.open(folder / "hive.db", primed=0)
    with ledger.transaction():
        first = ledger.messages.send(letter("anna", "bob"), 1_000_000_000.0)
        ledger.messages.ack("bob", [first.id])
        assert ledger.messages.prune(2_000_000_000.0) == 1
        assert ledger.messages.get(first.id) is None
    ledger.close()
    ledger = Ledger.open(folder / "hive.db", primed=0)
    with ledger.transaction():
        second = ledger.messages.send(letter("anna", "bob"), 5.0)
    assert second.id > first.id
    ledger.close()


def test_a_reply_stays_in_the_thread_and_needs_the_message_in_ones_own_mail(
    ledger: Ledger,
) -> None:
    """Attack 43: no agent gets into a thread of others."""
    mail = ledger.messages
    with ledger.transaction():
        first = mail.send(letter("anna", "bob"), 10.0)
        mail.ack("bob", [first.id])
        answer = mail.send(letter("bob", "anna", reply_to=first.id), 11.0)
        again = mail.send(letter("anna", "bob", reply_to=answer.id), 12.0)
        assert answer.thread == again.thread == first.thread
        for wrong in (first.id, answer.id, "0" * 13, "nonsense"):
            with pytest.raises(NotFound, match="in your mail"):
                mail.send(letter("carol", "bob", reply_to=wrong), 13.0)


def test_a_thread_is_open_to_its_members(ledger: Ledger) -> None:
    """attack 43: the same by naming the thread."""
    mail = ledger.messages
    with ledger.transaction():
        first = mail.send(letter("anna", "bob"), 10.0)
        named = mail.send(letter("anna", "bob", thread="release 7"), 10.0)
        assert named.thread == "release 7"
        for thread in (first.id, "release 7"):
            assert mail.belongs(thread, "bob") is True
            assert mail.belongs(thread, "carol") is False
            assert mail.send(letter("bob", "dora", thread=thread), 11.0).thread == thread
            assert mail.belongs(thread, "dora") is True
            with pytest.raises(InvalidArgument):
                mail.send(letter("carol", "bob", thread=thread), 11.0)
        assert mail.belongs("release 8", "anna") is None


def test_no_agent_takes_a_thread_before_its_first_message(ledger: Ledger) -> None:
    with ledger.transaction(), pytest.raises(InvalidArgument, match="no thread"):
        ledger.messages.send(letter("carol", "bob", thread="f" * 13), 10.0)


def test_reply_and_thread_must_agree(ledger: Ledger) -> None:
    with ledger.transaction():
        first = ledger.messages.send(letter("anna", "bob"), 10.0)
        with pytest.raises(InvalidArgument, match="is not in thread"):
            ledger.messages.send(letter("bob", "anna", reply_to=first.id, thread="x"), 10.0)


def test_mail_of_an_earlier_daemon_holds_back_younger_mail_of_its_sender(folder: Path) -> None:
    """The answer may have been lost with the daemon, so order needs the wait."""
    ledger = Ledger.open(folder / "hive.db", primed=0)
    with ledger.transaction():
        for sender, body in (("anna", "a1"), ("anna", "a2"), ("carol", "c1")):
            ledger.messages.send(letter(sender, "bob", body), 10.0)
        (first,) = ledger.messages.lease("bob", 1, 60, 10.0)
    ledger.close()
    ledger = Ledger.open(folder / "hive.db", primed=0)
    mail = ledger.messages
    with ledger.transaction():
        assert bodies(mail.lease("bob", 10, 60, 11.0)) == ["c1"]
        urgent = mail.send(letter("anna", "bob", "now", priority=0), 11.0)
        assert ids(mail.lease("bob", 10, 60, 11.0)) == [urgent.id]
        assert mail.ack("bob", [first.id]) == 1
        assert bodies(mail.lease("bob", 10, 60, 12.0)) == ["a2"]
    ledger.close()


def test_held_mail_does_not_hold_back_older_mail_that_came_back(folder: Path) -> None:
    ledger = Ledger.open(folder / "hive.db", primed=0)
    with ledger.transaction():
        for body in ("older", "younger"):
            ledger.messages.send(letter("anna", "bob", body), 10.0)
        first, _ = ledger.messages.lease("bob", 10, 60, 11.0)
        ledger.messages.nack("bob", [first.id], "busy", 12.0)
    ledger.close()
    ledger = Ledger.open(folder / "hive.db", primed=0)
    with ledger.transaction():
        assert bodies(ledger.messages.lease("bob", 10, 60, 13.0)) == ["older"]
    ledger.close()


def test_held_mail_comes_back_when_its_lease_ends(folder: Path) -> None:
    ledger = Ledger.open(folder / "hive.db", primed=0)
    with ledger.transaction():
        for body in ("a1", "a2"):
            ledger.messages.send(letter("anna", "bob", body), 10.0)
        ledger.messages.lease("bob", 1, 60, 10.0)
    ledger.close()
    ledger = Ledger.open(folder / "hive.db", primed=0)
    with ledger.transaction():
        assert ledger.messages.next_due("bob") == 70.0
        assert bodies(ledger.messages.lease("bob", 10, 60, 70.0)) == ["a1", "a2"]
    ledger.close()


def test_acked_mail_is_kept_within_bounds(ledger: Ledger) -> None:
    mail = ledger.messages
    with ledger.transaction():
        for _ in range(3 * DONE_KEPT):
            mail.ack("bob", [mail.send(letter("anna", "bob"), 10.0).id])
    value = ledger.connection.value("SELECT COUNT(*) FROM messages")
    assert DONE_KEPT <= value <= 2 * DONE_KEPT
    assert value == ledger.connection.value("SELECT COUNT(*) FROM queue WHERE state = 4")


def test_a_listing_goes_on_behind_the_last_one_seen(ledger: Ledger) -> None:
    mail = ledger.messages
    with ledger.transaction():
        for number in range(5):
            mail.send(letter("anna", "bob", str(number)), 10.0)
    first = mail.inbox("bob", dead=False, limit=3)
    rest = mail.inbox("bob", dead=False, limit=3, after=first[-1].id)
    assert bodies(first + rest) == ["0", "1", "2", "3", "4"]
    assert mail.inbox("nobody", dead=False, limit=3) == []


def test_what_a_savepoint_undoes_leaves_no_trace(ledger: Ledger) -> None:
    mail = ledger.messages
    with ledger.transaction():
        with suppress(UndoRequested), ledger.savepoint():
            mail.send(letter("anna", "bob"), 10.0)
            request_undo()
        mail.send(letter("anna", "bob", "kept"), 10.0)
    with ledger.transaction():
        assert bodies(mail.lease("bob", 10, 60, 10.0)) == ["kept"]


def test_a_box_first_looked_at_in_a_transaction_that_fails_is_counted_anew(folder: Path) -> None:
    ledger = Ledger.open(folder / "hive.db", primed=0)
    with ledger.transaction():
        ledger.messages.send(letter("anna", "bob"), 10.0)
        ledger.messages.lease("bob", 1, 60.0, 10.0)
    ledger.close()
    ledger = Ledger.open(folder / "hive.db", primed=0)
    mail = ledger.messages
    with suppress(UndoRequested), ledger.transaction():
        mail.expire(100.0)
        assert mail.next_due("bob") is None
        request_undo()
    assert mail.next_due("bob") == 70.0
    with ledger.transaction():
        assert bodies(mail.lease("bob", 1, 60.0, 100.0)) == ["hello"]
    ledger.close()
