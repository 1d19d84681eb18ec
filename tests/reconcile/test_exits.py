"""What the parent is told of a crash stays within what a message may hold."""

from __future__ import annotations

import asyncio
from pathlib import Path

from reconcile.road import Road, hive

from hive_core.reconcile.exits import BODY_MOST


def test_endless_last_lines_are_cut(tmp_path: Path) -> None:
    async def story() -> None:
        road = Road(tmp_path, hive({"root": None, "bob": "root"}))
        await road.settle()
        road.journal.write(road.uuid("bob"), "x" * 100_000)
        road.host.crash(road.uuid("bob"))
        await road.settle()
        (letter,) = road.mail("root")
        assert letter.body.startswith("bob crashed: ended with 1")
        assert len(letter.body) == BODY_MOST
        await road.close()

    asyncio.run(story())


def test_a_registered_secret_stands_in_no_last_lines(tmp_path: Path) -> None:
    async def story() -> None:
        road = Road(tmp_path, hive({"root": None, "bob": "root"}))
        road.ledger.events.masks.add(b"hunter22")
        await road.settle()
        road.journal.write(road.uuid("bob"), "the password is hunter22")
        road.host.crash(road.uuid("bob"))
        await road.settle()
        (letter,) = road.mail("root")
        end = road.ledger.lives.last(road.uuid("bob"))
        assert letter.body.endswith("the password is ***")
        assert end is not None
        assert end.output == "the password is ***"
        await road.close()

    asyncio.run(story())
