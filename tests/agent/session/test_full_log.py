"""A log that cannot be written for a while: a session waits, and neither loses nor forgets work."""

from __future__ import annotations

import resource
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from fixtures.fake_model import ModelAnswer
from fixtures.session_host import SessionHost

LEASE = 11.0  # seconds, longer than a letter stays away that was not logged


@contextmanager
def full_log(host: SessionHost) -> Iterator[None]:
    """No file of the session can grow."""
    pid = host.server.processes[-1].pid
    before = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (1, before[1]))
    yield
    resource.prlimit(pid, resource.RLIMIT_FSIZE, before)


def deliveries(host: SessionHost) -> int:
    """How often the letter in the inbox was delivered."""
    uuid = host.world.uuid("worker")
    (letter,) = host.world.ledger.messages.inbox(uuid, dead=False, limit=2)
    return letter.attempt


def wait_for_looks(host: SessionHost, count: int) -> None:
    """Wait until the session has looked so often whether it can write again."""
    folder = host.state / "session"
    for _ in range(count):
        before = folder.stat().st_mtime_ns
        host.world.advance(LEASE)
        host.until(lambda before=before: folder.stat().st_mtime_ns != before)  # type: ignore[misc]


def test_a_letter_that_cannot_be_logged_comes_again(host: SessionHost) -> None:
    host.model.answer = lambda number, _: ModelAnswer(f"answer {number}")
    host.start()
    host.send("first")
    assert len(host.until(host.replies)) == 1
    host.until(lambda: "closed" in host.kinds())
    with full_log(host):
        letter = host.send("second")
        host.until(lambda: deliveries(host) == 1)
        # After five deliveries it would be a dead letter, and a task would fail.
        wait_for_looks(host, 3)
        assert deliveries(host) == 1
    host.world.advance(LEASE)
    host.until_count(host.replies, 2)
    assert [row.get("id") for row in host.of_kind("input")].count(letter) == 1


def test_a_turn_whose_answer_cannot_be_logged_is_escalated_and_goes_on(host: SessionHost) -> None:
    held = threading.Event()
    host.model.script = [
        ModelAnswer("lost", held=held), ModelAnswer("again"), ModelAnswer("again"),
    ]  # fmt: skip
    host.start()
    host.send("go")
    host.until(lambda: host.model.bodies)
    with full_log(host):
        held.set()
        (letter,) = host.until(lambda: [row for row in host.world.mail("lead")
                                        if row["kind"] == "escalation"])  # fmt: skip
    assert "File too large" in str(letter["body"])
    host.send("go on")
    assert host.until(host.replies) == ["again"]
    assert host.world.mail("worker") == []
    host.until(lambda: "closed" in host.kinds())
    assert host.world.call("worker", "list_questions", which="mine")["questions"] == []


def test_a_letter_that_cannot_be_logged_has_no_turn_ask_the_model_again(host: SessionHost) -> None:
    """The answer could not be logged either."""
    held = threading.Event()
    host.model.script = [ModelAnswer("lost", held=held), *[ModelAnswer("again")] * 9]
    host.start()
    host.send("go")
    host.until(lambda: host.model.bodies)
    with full_log(host):
        held.set()
        host.until(lambda: [row for row in host.world.mail("lead") if row["kind"] == "escalation"])
        host.send("go on")
        wait_for_looks(host, 2)
        assert deliveries(host) == 1
    host.world.advance(LEASE)
    assert host.until(host.replies) == ["again"]
    assert len(host.model.bodies) == 2
