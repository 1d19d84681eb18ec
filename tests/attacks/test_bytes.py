"""Attack 62: what one agent can make the host store, by calls that it may make, in bytes."""

from __future__ import annotations

from time import process_time

from operations.world import World, names, rows, world

from hive_core.model.record import OPERATOR
from hive_core.model.settings import Bounds, Settings


def stored(made: World) -> int:
    """Bytes of the ledger with its log."""
    made.ledger.checkpoint()
    return sum(each.stat().st_size for each in made.folder.glob("hive.db*"))


def note(made: World, agent: str, text: str) -> None:
    made.call(agent, "note_event", kind="step", text=text, fields={"more": text[:3900]})


def test_attack_62_notes_as_fast_as_can_be_stay_below_32_mib_and_push_out_nobody() -> None:
    """20 seconds of it were 175 MiB and more: a burst of one agent, and of eight beside it."""
    settings = Settings(limits=Bounds(children=20))
    flooders = [f"a{number}" for number in range(8)]
    with world(settings, "root/a", "root/b", *(f"a/{name}" for name in flooders)) as made:
        made.call("b", "note_event", kind="first", text="of b")
        made.call("b", "send", to="root", body="of b")
        mine = rows(made.call("b", "subscribe", after="1", agents=["b"])["events"])
        before, full = stored(made), "x" * 4096
        burst = settings.limits.change_burst
        for number in range(burst):
            note(made, "a", full)
            if number < burst // 10:
                for each in flooders:
                    note(made, each, full)
        assert stored(made) - before < 32 << 20
        assert rows(made.call("b", "subscribe", after="1", agents=["b"])["events"]) == mine
        assert {"own.first", "record"} <= set(names(mine, "kind"))
        assert made.ledger.events.verify() is None
        # Those that are there are the newest, and whoever follows knows what is gone.
        found = made.call("a", "subscribe", after="1", agents=["a"], kinds=["own.*"])
        assert found["gap"] is not None
        last = made.call(OPERATOR, "list_events", last=1)
        assert names(last["events"], "caller")[0] in {"a", *flooders}


def test_attack_62_a_note_is_bounded_in_bytes_and_not_in_characters(world: World) -> None:
    for fields in ({"x": "\U0001f600" * 1000}, {"x": "\0" * 800}):
        assert world.fault("a", "note_event", kind="step", fields=fields) == "InvalidArgument"
    assert world.fault("a", "note_event", kind="step", fields={"x": "y" * 4000}) == ""


def seconds(made: World, limit: int) -> float:
    started = process_time()
    found = made.call("a", "subscribe", after="1", limit=limit, agents=["a"])
    assert len(rows(found["events"])) == 20
    return process_time() - started


def test_attack_61_a_page_that_is_full_reads_no_further() -> None:
    """`subscribe(limit=1000)` over notes of 4 KiB read a thousand of them, and showed twenty."""
    with world(Settings(limits=Bounds(notes_agent=16 << 20)), "root/a") as made:
        for _ in range(1000):
            made.call("a", "note_event", kind="step", text="x" * 4096, fields={"x": "y" * 4000})
        seconds(made, 1000)
        few = min(seconds(made, 20) for _ in range(5))
        many = min(seconds(made, 1000) for _ in range(5))
        assert many < 2 * few
