"""Who fills a box: the count that is followed is the one that the queue gives."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from fixtures.messages import UndoRequested, letter, request_undo
from fixtures.seeds import empty_ledger
from hypothesis import given, settings
from hypothesis import strategies as st

from hive_core.errors import InboxFull
from hive_core.ledger.core.ledger import Ledger
from hive_core.ledger.mail.letters import NewMessage
from hive_core.model.config.settings import HostLimits

RAM = Path("/dev/shm")
BOUNDS = HostLimits(inbox_count=12, inbox_bytes=4096)
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["send", "send", "send", "undo", "look", "lost", "ack", "dead", "expire"]),
        st.sampled_from(["anna", "bob", "carol"]),
        st.integers(1, 900),
    ),
    max_size=40,
)


@settings(max_examples=25, deadline=None)
@given(STEPS)
def test_it_is_followed_whatever_happens_to_a_box(
    steps: list[tuple[str, str, int]],
) -> None:
    with TemporaryDirectory(dir=RAM if RAM.is_dir() else None) as folder:
        empty_ledger().plant(Path(folder))
        ledger = Ledger.open(Path(folder, "hive.db"), limits=BOUNDS, primed=0)
        for number, (step, sender, size) in enumerate(steps):
            with suppress(UndoRequested), ledger.transaction(), suppress(InboxFull):
                _step(ledger, step, letter(sender, "dora", "x" * size), float(number))
            with ledger.transaction():
                _compare(ledger)
        ledger.close()


def test_a_full_box_is_counted_once_whatever_is_acked(folder: Path) -> None:
    """At 100,000 messages a count takes some hundredths of a second: no ack may bring it about."""
    ledger = Ledger.open(folder / "hive.db", limits=HostLimits(inbox_count=100), primed=0)
    mail, seen = ledger.messages, list[str]()
    with ledger.transaction():
        for number in range(80):
            mail.send(letter(f"s{number % 7}", "dora"), 1.0)
        mail.bytes_by_sender("dora")
    ledger.connection._raw.set_trace_callback(seen.append)
    for number in range(20):
        with ledger.transaction():
            mail.send(letter(f"s{number % 7}", "dora"), 2.0)
        with ledger.transaction():
            mail.ack("dora", [message.id for message in mail.lease("dora", 1, 60, 3.0)])
        with suppress(UndoRequested), ledger.transaction():
            mail.send(letter("anna", "dora"), 2.0)
            request_undo()
        assert sum(count for count, _ in mail.bytes_by_sender("dora").values()) == 80
    ledger.connection._raw.set_trace_callback(None)
    assert not any("GROUP BY m.sender" in sql for sql in seen)
    assert any("INSERT INTO messages" in sql for sql in seen)
    ledger.close()


def test_a_sender_that_is_refused_again_and_again_has_the_box_counted_once(folder: Path) -> None:
    """A count must change nothing, and outlive the refusal: else a flood makes each batch of calls
    run twice, and each of its calls look at the whole box."""
    ledger = Ledger.open(folder / "hive.db", limits=HostLimits(inbox_count=100), primed=0)
    mail, seen = ledger.messages, list[str]()
    with ledger.transaction():
        for number in range(80):
            mail.send(letter(f"s{number % 7}", "dora"), 1.0)
    ledger.connection._raw.set_trace_callback(seen.append)
    with ledger.transaction():
        before = ledger.connection.changes
        for _ in range(5):
            with suppress(UndoRequested), ledger.savepoint():
                mail.bytes_by_sender("dora")
                assert ledger.connection.changes == before
                request_undo()
    with suppress(UndoRequested), ledger.transaction():
        mail.bytes_by_sender("dora")
        request_undo()
    ledger.connection._raw.set_trace_callback(None)
    assert sum("GROUP BY m.sender" in sql for sql in seen) == 1
    assert sum(count for count, _ in mail.bytes_by_sender("dora").values()) == 80
    ledger.close()


def _step(ledger: Ledger, step: str, new: NewMessage, now: float) -> None:
    mail = ledger.messages
    match step:
        case "send":
            mail.send(new, now)
        case "undo":
            with suppress(UndoRequested), ledger.savepoint():
                mail.send(new, now)
                mail.bytes_by_sender("dora")
                request_undo()
        case "look" | "lost":
            mail.send(new, now)
            with suppress(UndoRequested), ledger.savepoint():
                mail.bytes_by_sender("dora")
                mail.send(new, now)
                request_undo()
            if step == "lost":
                request_undo()
        case "ack":
            mail.ack("dora", [message.id for message in mail.lease("dora", 2, 60, now)])
        case "dead":
            ids = [message.id for message in mail.lease("dora", 1, 60, now)]
            mail.nack("dora", ids, "no", now, dead=True)
        case _:
            mail.expire(now + 1000)


def _compare(ledger: Ledger) -> None:
    count, size = ledger.messages.size("dora")
    crowd = ledger.messages.bytes_by_sender("dora")
    if count * 4 < BOUNDS.inbox_count and size * 4 < BOUNDS.inbox_bytes:
        assert crowd == {}
        return
    counts, sizes = Counter[str](), Counter[str]()
    for message in ledger.messages.inbox("dora", dead=False, limit=100):
        counts[message.sender] += 1
        sizes[message.sender] += len(message.body)
    assert crowd == {who: (counts[who], sizes[who]) for who in counts}
