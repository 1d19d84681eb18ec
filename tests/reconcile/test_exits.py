"""The notice of a crash to the parent fits into a message."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

from fixtures.reconciler import ReconcilerHarness, hive
from typing_extensions import override

from hive_core.model.wire.masks import Masks
from hive_core.model.wire.record import OPERATOR, LogLine
from hive_core.model.work.task import TaskRequest
from hive_core.operations import load
from hive_core.reconcile.exits import BODY_MOST, OUTPUT_MOST, agent_lines

load()


def test_endless_last_lines_are_cut(tmp_path: Path) -> None:
    async def story() -> None:
        harness = ReconcilerHarness(tmp_path, hive({"root": None, "bob": "root"}))
        await harness.settle()
        harness.journal.write(harness.uuid("bob"), "x" * 100_000)
        harness.host.crash(harness.uuid("bob"))
        await harness.settle()
        (letter,) = harness.mail("root")
        assert letter.body.startswith("bob crashed: ended with 1")
        assert len(letter.body) == BODY_MOST
        await harness.close()

    asyncio.run(story())


def test_a_registered_secret_stands_in_no_last_lines(tmp_path: Path) -> None:
    async def story() -> None:
        harness = ReconcilerHarness(tmp_path, hive({"root": None, "bob": "root"}))
        harness.ledger.events.masks.add(b"hunter22")
        await harness.settle()
        harness.journal.write(harness.uuid("bob"), "the password is hunter22")
        harness.host.crash(harness.uuid("bob"))
        await harness.settle()
        (letter,) = harness.mail("root")
        end = harness.ledger.lives.last_end(harness.uuid("bob"))
        assert letter.body.endswith("the password is ***")
        assert end is not None
        assert end.output == "the password is ***"
        await harness.close()

    asyncio.run(story())


def test_an_agent_started_again_for_a_task_is_not_said_to_stay_down(tmp_path: Path) -> None:
    async def story() -> None:
        harness = ReconcilerHarness(tmp_path, hive({"root": None, "bob": "root"}))
        await harness.settle()
        tasks = harness.ledger.tasks
        with harness.ledger.transaction():
            task = tasks.create(OPERATOR, harness.uuid("bob"), TaskRequest("x", requeue=1), 1.0)
            tasks.update(task.id, message="1", attempt=1)
            tasks.move(task.id, "begin", 1.0, started=1.0)
        harness.host.crash(harness.uuid("bob"))
        await harness.settle()
        (letter,) = [letter for letter in harness.mail("root") if letter.kind == "container_crash"]
        assert letter.body == ("bob crashed: ended with 1; restarted for another try of a task")
        await harness.close()

    asyncio.run(story())


def test_what_nspawn_says_at_an_end_is_none_of_the_agents_lines() -> None:
    said = ["Trying to halt container is what I do", "bye"]
    frame = [
        "Trying to halt container by sending TERM to container PID 1. Send SIGTERM again to"
        " trigger immediate termination.",
        "Container bob terminated by signal KILL.",
    ]
    lines = [LogLine(1.0, "hive-agent@bob.service", text) for text in (*said, *frame)]
    assert agent_lines(lines) == said


class Counting(Masks):
    """How many characters were looked through."""

    seen = 0

    @override
    def _candidates(self, text: str, start: int, end: int) -> Iterator[int]:
        self.seen += max(end - start, 0)
        return super()._candidates(text, start, end)


def test_no_more_is_looked_through_for_secrets_than_is_kept(tmp_path: Path) -> None:
    """It is done on the loop, in a transaction; agents choose how much they write."""

    async def story() -> None:
        harness = ReconcilerHarness(tmp_path, hive({"root": None, "bob": "root"}))
        harness.ledger.events.masks = masks = Counting()
        masks.add(b"hunter22")
        await harness.settle()
        for _ in range(20):
            harness.journal.write(harness.uuid("bob"), f"{'x' * 48_000}hunter22")
        masks.seen = 0
        harness.host.crash(harness.uuid("bob"))
        await harness.settle()
        end = harness.ledger.lives.last_end(harness.uuid("bob"))
        assert end is not None
        assert end.output == "x" * (OUTPUT_MOST - 8) + "***"
        assert masks.seen < 2 * (BODY_MOST + OUTPUT_MOST)
        await harness.close()

    asyncio.run(story())
