"""Attack 66: a refused frame leaves no values behind that only the garbage collector frees."""

from __future__ import annotations

import asyncio
import gc

import pytest
from fixtures.broker import BrokerHarness

from hive_core.errors import Busy, HiveError

FRAMES = {
    "values where none belong": (
        b'{"method":"org.hive.Broker.Look","parameters":{"x":[' + b"[]," * 3000 + b"1]}}"
    ),
    "too many values": b'{"method":[' + b"[]," * 11_000 + b"1]}",
    "no JSON at its end": b'{"method":[' + b"[]," * 3000 + b"}",
}


@pytest.mark.parametrize("name", FRAMES)
def test_attack_66_what_a_refused_frame_held_is_freed_at_once(
    harness: BrokerHarness, name: str
) -> None:
    gc.collect()
    gc.disable()
    try:
        before = gc.get_count()[0]
        for _ in range(5):
            ann = harness.client("ann")
            ann.say(FRAMES[name])
            harness.run()
            assert "error" in ann.replies[0]
        assert gc.get_count()[0] - before < 1000
    finally:
        gc.enable()


def test_attack_61_a_slow_read_that_fails_leaves_no_cycle(harness: BrokerHarness) -> None:
    async def read(_: object) -> None:
        values = [[] for _ in range(3000)]  # type: ignore[var-annotated]
        raise Busy(f"{len(values)} are too many")

    async def bring() -> HiveError:
        hive_error: HiveError = Busy("")
        try:
            await read(None)
        except HiveError as error:
            hive_error = error
        return hive_error

    ann = harness.client("ann")
    gc.collect()
    gc.disable()
    try:
        before = gc.get_count()[0]
        for _ in range(5):
            ann.ask("Fetch")
            harness.run()
            connection, _ = harness.transport.reads.pop()
            harness.broker.on_read_completed(connection, asyncio.run(bring()))
            harness.run()
            assert "error" in ann.replies.pop()
        assert gc.get_count()[0] - before < 3000
    finally:
        gc.enable()
