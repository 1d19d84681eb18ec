"""Dead letters: which messages die, when, who gets notice, and how many are kept."""

from __future__ import annotations

from pathlib import Path

import pytest
from fixtures.messages import bodies, ids, letter

from hive_core.errors import NotFound
from hive_core.ledger.core.ledger import Ledger
from hive_core.model.config.settings import HostLimits
from hive_core.model.wire.record import DAEMON, Relation


def test_after_five_attempts_mail_is_dead_and_its_sender_told_once(ledger: Ledger) -> None:
    mail = ledger.messages
    now = 10.0
    with ledger.transaction():
        sent = mail.send(letter("anna", "bob"), now)
        for _ in range(5):
            assert len(mail.lease("bob", 1, 60, now)) == 1
            now += 60
        assert mail.lease("bob", 1, 60, now) == []
        (dead,) = mail.expire(now)
        assert (dead.id, dead.dead_why) == (sent.id, "not acked after 5 attempts")
        assert mail.expire(now) == []
        (notice,) = mail.lease("anna", 10, 60, now)
    assert (notice.sender, notice.relation, notice.kind) == (DAEMON, Relation.DAEMON, "dead_letter")
    assert (notice.reply_to, notice.thread) == (sent.id, sent.thread)
    assert sent.id in notice.body
    assert mail.inbox("bob", dead=True, limit=10) == [dead]
    assert mail.inbox("bob", dead=False, limit=10) == []


def test_a_last_nack_kills_with_the_reason_given(ledger: Ledger) -> None:
    mail = ledger.messages
    with ledger.transaction():
        mail.send(letter("anna", "bob"), 10.0)
        for _ in range(4):
            assert mail.nack("bob", ids(mail.lease("bob", 1, 60, 10.0)), "no", 10.0) == []
        (dead,) = mail.nack("bob", ids(mail.lease("bob", 1, 60, 10.0)), "cannot parse", 10.0)
    assert dead.dead_why == "cannot parse"


def test_nack_may_kill_at_once(ledger: Ledger) -> None:
    with ledger.transaction():
        ledger.messages.send(letter("anna", "bob"), 10.0)
        lease = ledger.messages.lease("bob", 1, 60, 10.0)
        (dead,) = ledger.messages.nack("bob", ids(lease), "", 10.0, dead=True)
    assert dead.dead_why == "given up after 1 attempts"


def test_no_sender_is_told_when_daemon_mail_dies(ledger: Ledger) -> None:
    mail = ledger.messages
    with ledger.transaction():
        mail.send(letter(DAEMON, "bob"), 10.0)
        assert len(mail.nack("bob", ids(mail.lease("bob", 1, 60, 10.0)), "", 10.0, dead=True)) == 1
        assert mail.size(DAEMON) == (0, 0)
    assert ledger.connection.value("SELECT COUNT(*) FROM messages") == 1


def test_one_message_tells_of_many_dead_letters(ledger: Ledger) -> None:
    mail = ledger.messages
    with ledger.transaction():
        for _ in range(30):
            mail.send(letter("anna", "bob"), 10.0)
        assert len(mail.dead_letter("bob", "bob was destroyed", 11.0)) == 30
        (notice,) = mail.lease("anna", 10, 60, 11.0)
    assert notice.body.endswith("and 10 more")


def test_mail_that_outlives_its_ttl_is_not_given_and_dies(ledger: Ledger) -> None:
    mail = ledger.messages
    with ledger.transaction():
        mail.send(letter("anna", "bob", ttl=5.0), 10.0)
        assert mail.next_due("bob") == 15.0
        assert mail.lease("bob", 10, 60, 15.0) == []
        (dead,) = mail.expire(15.0)
    assert dead.dead_why == "its time to live ended"


def test_a_ttl_that_ends_during_a_lease_lets_the_work_finish(ledger: Ledger) -> None:
    mail = ledger.messages
    with ledger.transaction():
        mail.send(letter("anna", "bob", ttl=5.0), 10.0)
        lease = mail.lease("bob", 10, 60, 14.0)
        assert mail.expire(20.0) == []
        assert mail.ack("bob", ids(lease)) == 1


def test_a_destroyed_recipients_mail_is_dead_and_its_box_closed(ledger: Ledger) -> None:
    """attack 40: nothing is inherited; a restore opens the same box."""
    mail = ledger.messages
    with ledger.transaction():
        mail.send(letter("anna", "bob", "a"), 10.0)
        mail.send(letter("anna", "bob", "b"), 10.0)
        mail.lease("bob", 1, 60, 10.0)
        assert bodies(mail.dead_letter("bob", "bob was destroyed", 11.0)) == ["a", "b"]
        with pytest.raises(NotFound):
            mail.send(letter("anna", "bob"), 12.0)
        assert mail.size("bob") == (0, 0)
        mail.reopen("bob")
        mail.send(letter("anna", "bob"), 13.0)
    assert len(mail.inbox("bob", dead=True, limit=10)) == 2


def test_letters_of_the_daemon_to_a_destroyed_recipient_are_no_dead_letters(ledger: Ledger) -> None:
    mail = ledger.messages
    with ledger.transaction():
        for sender in (DAEMON, "anna", DAEMON):
            mail.send(letter(sender, "bob", f"of {sender}"), 10.0)
        mail.lease("bob", 1, 60, 10.0)
        assert bodies(mail.dead_letter("bob", "bob was destroyed", 11.0)) == ["of anna"]
        mail.reopen("bob")
    assert bodies(mail.inbox("bob", dead=True, limit=10)) == ["of anna"]
    assert mail.inbox("bob", dead=False, limit=10) == []
    assert mail.size("bob") == (0, 0)


def test_dead_letters_are_kept_within_bounds_and_oldest_go_first(folder: Path) -> None:
    """attack 37: mail that dies at once cannot fill the disk."""
    ledger = Ledger.open(folder / "small.db", limits=HostLimits(inbox_count=3), primed=0)
    mail = ledger.messages
    with ledger.transaction():
        for number in range(10):
            mail.send(letter(DAEMON, "bob", str(number), ttl=1.0), 10.0)
            mail.expire(20.0)
    assert bodies(mail.inbox("bob", dead=True, limit=100)) == ["7", "8", "9"]
    ledger.close()


def test_a_sender_is_told_even_when_the_box_keeps_no_more_dead_letters(folder: Path) -> None:
    ledger = Ledger.open(folder / "small.db", limits=HostLimits(inbox_count=2), primed=0)
    mail = ledger.messages
    with ledger.transaction():
        oldest = mail.send(letter("anna", "bob", "oldest"), 10.0)
        mail.lease("bob", 1, 60, 10.0)
        for _ in range(2):
            mail.send(letter("carl", "bob", ttl=1.0), 10.0)
            mail.expire(20.0)
        (dead,) = mail.nack("bob", [oldest.id], "broken", 21.0, dead=True)
    assert (dead.id, dead.dead_why) == (oldest.id, "broken")
    assert mail.get(oldest.id) is None
    (notice,) = mail.inbox("anna", dead=False, limit=10)
    assert notice.body == f"Not delivered:\n{oldest.id} to bob: broken"
    ledger.close()


def test_mail_that_an_earlier_daemon_gave_out_dies_with_its_recipient(folder: Path) -> None:
    ledger = Ledger.open(folder / "hive.db", primed=0)
    with ledger.transaction():
        sent = ledger.messages.send(letter("anna", "bob"), 10.0)
        ledger.messages.lease("bob", 1, 60, 11.0)
    ledger.close()
    ledger = Ledger.open(folder / "hive.db", primed=0)
    with ledger.transaction():
        (dead,) = ledger.messages.dead_letter("bob", "bob was destroyed", 12.0)
    assert dead.id == sent.id
    ledger.close()


def test_dead_letters_and_acked_mail_go_when_they_were_kept_long_enough(ledger: Ledger) -> None:
    mail = ledger.messages
    with ledger.transaction():
        for body in ("given up", "done"):
            mail.send(letter(DAEMON, "bob", body), 10.0)
        given_up, done = mail.lease("bob", 2, 60, 11.0)
        mail.nack("bob", [given_up.id], "no", 12.0, dead=True)
        mail.ack("bob", [done.id])
        assert mail.prune(109.0, dead=100.0, done=100.0) == 0
        assert mail.prune(111.0, dead=100.0, done=1000.0) == 1
        assert mail.get(given_up.id) is None
        assert mail.prune(111.0, dead=100.0, done=100.0) == 1
