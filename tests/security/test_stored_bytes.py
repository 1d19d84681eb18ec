"""Attack 62: what one agent can make the host store, by calls that it may make, in bytes."""

from __future__ import annotations

from time import process_time

import pytest
from fixtures.world import World, names, rows, world
from long import times

from hive_core.broker.storage_limits import BRINGS
from hive_core.errors import LimitReached
from hive_core.ledger.core.storage_use import HISTORY
from hive_core.model.config.settings import MIB, HostLimits, Settings
from hive_core.model.wire.record import OPERATOR
from hive_core.operations import load

pytestmark = pytest.mark.slow


def stored_bytes(made: World) -> int:
    """Bytes of the ledger with its log."""
    made.ledger.checkpoint()
    return sum(path.stat().st_size for path in made.folder.glob("hive.db*"))


def note(made: World, agent: str, text: str) -> None:
    made.call(agent, "note_event", kind="step", text=text, fields={"more": text[:3900]})


@pytest.mark.sized
def test_attack_62_a_flood_of_notes_stays_below_32_mib_and_displaces_no_other_agent() -> None:
    """20 seconds of it were 175 MiB and more: a burst of one agent, and of eight beside it."""
    part = times(4, 1)  # of all limits alike
    limits = HostLimits(children=20, notes_agent=MIB // part, change_burst=5000 // part)
    settings = Settings(limits=limits)
    flooders = [f"a{number}" for number in range(8)]
    with world(settings, "root/a", "root/b", *(f"a/{name}" for name in flooders)) as made:
        made.call("b", "note_event", kind="first", text="of b")
        made.call("b", "send", to="root", body="of b")
        mine = rows(made.call("b", "subscribe", after="1", agents=["b"])["events"])
        before, full = stored_bytes(made), "x" * 4096
        burst = settings.limits.change_burst
        for number in range(burst):
            note(made, "a", full)
            if number < burst // 10:
                for flooder in flooders:
                    note(made, flooder, full)
        assert stored_bytes(made) - before < (32 << 20) // part
        assert rows(made.call("b", "subscribe", after="1", agents=["b"])["events"]) == mine
        assert {"own.first", "record"} <= set(names(mine, "kind"))
        assert made.ledger.events.verify() is None
        # Those that are there are the newest, and whoever follows knows what is gone.
        reply = made.call("a", "subscribe", after="1", agents=["a"], kinds=["own.*"])
        assert reply["gap"] is not None
        last = made.call(OPERATOR, "list_events", last=1)
        assert names(last["events"], "caller")[0] in {"a", *flooders}


def test_attack_62_a_note_is_bounded_in_bytes_and_not_in_characters(world: World) -> None:
    for fields in ({"x": "\U0001f600" * 1000}, {"x": "\0" * 800}):
        assert world.fault("a", "note_event", kind="step", fields=fields) == "InvalidArgument"
    assert world.fault("a", "note_event", kind="step", fields={"x": "y" * 4000}) == ""


def seconds(made: World, limit: int) -> float:
    started = process_time()
    # Event 2 is its creation.
    reply = made.call("a", "subscribe", after="2", limit=limit, agents=["a"])
    assert len(rows(reply["events"])) == 20
    return process_time() - started


def test_attack_61_a_full_page_reads_no_further() -> None:
    """`subscribe(limit=1000)` over notes of 4 KiB read a thousand of them, and showed twenty."""
    with world(Settings(limits=HostLimits(notes_agent=16 << 20)), "root/a") as made:
        for _ in range(1000):
            made.call("a", "note_event", kind="step", text="x" * 4096, fields={"x": "y" * 4000})
        seconds(made, 1000)
        # In turns, and the best of many: whatever else the machine does makes both slower. All of
        # the thousand would take fifty times as long.
        turns = [(seconds(made, 20), seconds(made, 1000)) for _ in range(20)]
        few, many = (min(times) for times in zip(*turns, strict=True))
        assert many < 5 * few


TEXT = "x" * 30_000


def until_full(made: World, caller: str, operation: str, /, **params: object) -> str:
    """Which setting bounds it; what is stored has reached that by then."""
    for _ in range(1000):
        try:
            made.call(caller, operation, **params)
        except LimitReached as error:
            return str(error.fields["setting"])
    raise AssertionError(f"a thousand calls of {operation} were served")


def test_attack_62_open_work_is_bounded_in_bytes_per_agent() -> None:
    settings = Settings(limits=HostLimits(stored=MIB))
    with world(settings, "root/a", "a/a1", "a/a2", "root/b") as made:
        made.call("a", "open_queue", name="q", limit=1000)
        for operation, params in (
            ("put", {"queue": "a/q", "body": TEXT}),
            ("assign_task", {"agent": "a1", "description": TEXT}),
            ("send", {"to": "a1", "body": TEXT}),
        ):
            assert until_full(made, "a", operation, **params) == "limits.stored"
        # It can get below it again, and nobody else is kept from anything.
        for other in ("a1", "a2", "b"):
            assert made.fault(other, "send", to="root" if other == "b" else "a", body="x") == ""
        made.call("a", "close_queue", queue="a/q")
        made.advance(1)
        assert made.fault("a", "send", to="a1", body=TEXT) == ""
        assert made.fault(OPERATOR, "send", to="a1", body=TEXT) == ""


def test_attack_62_ended_work_is_bounded_in_bytes_per_agent_and_the_oldest_goes() -> None:
    settings = Settings(limits=HostLimits(history=MIB, change_burst=100_000))
    with world(settings, "root/a", "a/a1", "root/b", "b/b1") as made:
        theirs = made.call("b", "assign_task", agent="b1", description="small")["task"]
        made.call("b", "cancel_task", task=theirs)
        tasks = []
        for number in range(100):
            task = made.call("a", "assign_task", agent="a1", description=f"{number}{TEXT}")["task"]
            made.call("a", "cancel_task", task=task)
            made.call("a", "ack", ids=["f" * 13], idempotency_key=f"{number}" * 20)
            tasks.append(task)
        sizes = made.ledger.stored.of(made.uuid("a"))
        past = sum(size for noun, size in sizes.items() if noun in HISTORY)
        assert past < MIB + len(TEXT) * 4
        assert made.ledger.stored.sums_of(made.uuid("a")) == (sum(sizes.values()) - past, past)
        assert made.fault("a", "get_task", task=tasks[0]) == "NotFound"
        assert made.fault("a", "get_task", task=tasks[-1]) == ""
        assert made.fault("b", "get_task", task=theirs) == ""


def test_attack_62_idempotency_keys_of_an_agent_displace_only_its_own() -> None:
    settings = Settings(limits=HostLimits(history=MIB, change_burst=100_000))
    with world(settings, "root/a", "a/a1") as made:
        made.call("a1", "ack", ids=["f" * 13], idempotency_key="of a1")
        for number in range(4500):
            made.call("a", "ack", ids=["f" * 13], idempotency_key=f"{number:0100}")
        keys = made.ledger.connection.value("SELECT COUNT(*) FROM keys")
        assert keys < 4000
        assert made.ledger.keys.lookup(made.uuid("a"), f"{4499:0100}") is not None
        assert made.ledger.keys.lookup(made.uuid("a1"), "of a1") is not None


def test_attack_62_no_branch_uses_up_the_ledger_share_of_others() -> None:
    settings = Settings(
        limits=HostLimits(ledger=16 * MIB, inbox_bytes=64 * MIB, inbox_count=100_000, children=20)
    )
    hands = [f"a{number}" for number in range(12)]
    with world(settings, "root/a", "root/b", "b/b1", *(f"a/{hand}" for hand in hands)) as made:
        served = 0
        for hand in hands:
            made.call(hand, "open_queue", name="q", may_put=["parent"], may_take=["parent"])
            made.call("b", "whoami")
            while made.fault("a", "put", queue=f"{hand}/q", body=TEXT) == "":
                served += 1
                if served % 20 == 0:
                    made.advance(1)
                assert served < 1000
        with pytest.raises(LimitReached, match=r"half full.*of a and below.*\[limits\] ledger"):
            made.call("a", "send", to="a1", body="x")
        assert made.ledger.stored.bytes_in_use() < 12 * MIB
        # Others store, the operator does, and what ends something goes on.
        assert made.fault("b", "send", to="b1", body=TEXT) == ""
        assert made.fault(OPERATOR, "send", to="a", body=TEXT) == ""
        for hand in hands:
            assert made.fault(hand, "close_queue", queue=f"{hand}/q") == ""
        made.advance(2)
        assert made.fault("a", "send", to="a1", body="x") == ""


def test_attack_62_records_of_destroyed_agents_count_for_their_branch() -> None:
    """Each one that was made left the history of an agent behind, and with it went its share."""
    settings = Settings(
        limits=HostLimits(ledger=16 * MIB, history=4 * MIB, change_burst=100_000, children=20)
    )
    hands = [f"a{number}" for number in range(12)]
    workers = [f"{hand}/w{hand}" for hand in hands]
    with world(settings, "root/a", "root/b", *(f"a/{hand}" for hand in hands), *workers) as made:
        for hand in hands:
            for _ in range(60):
                words = {"agent": f"w{hand}", "description": TEXT}
                if made.fault(hand, "assign_task", **words):
                    break
                (task,) = rows(made.call(hand, "list_tasks", open=True)["tasks"])
                made.call(hand, "cancel_task", task=task["id"])
            made.advance(2)
            made.call("a", "destroy", agent=hand, recursive=True)
        made.advance(2)
        with pytest.raises(LimitReached, match=r"half full.*of a and below.*\[limits\] ledger"):
            made.call("a", "remind", body="x", **{"in": 60})
        assert made.ledger.stored.bytes_in_use() < 12 * MIB
        assert made.fault("b", "send", to="root", body=TEXT) == ""


# Operations with a text that go on when there is no room, and why.
GOES_ON = {
    "allocate_budget": "moves what is there", "answer": "ends a question", "approve": "operator",
    "end_tool": "ends a grant", "finish_task": "ends a task", "keep_snapshot": "one, replaced",
    "report_usage": "sums, of known models", "request_apply_commit": "few a day",
    "request_update_meta_inputs": "few a day", "resume": "for the operator and parents, to resume",
    "resume_task": "a task that is there", "set_definition": "operator", "set_secret": "operator",
    "store_artifact": "has bounds of its own", "update_plan_step": "a step that is there",
    "set_agent": "operator", "use_tool": "few open", "report_progress": "replaced",
    "nack": "gives back", "open_colony": "operator", "set_persona": "operator",
    "judge_task": "one escalation an attempt, and few attempts",
    "open_subagent": "few open, and the ended ones are few",
}  # fmt: skip


def test_every_operation_with_text_is_bounded_or_states_why_not() -> None:
    taking = {
        name for name, operation in load().items()
        if name == operation.name and operation.mutates
        and any("AfterValidator" in f"{field.annotation}{field.metadata}"
                for field in operation.params.model_fields.values())
    }  # fmt: skip
    assert taking - BRINGS - GOES_ON.keys() == set()
    assert load().keys() >= BRINGS
