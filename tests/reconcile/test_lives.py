"""Starts and ends of machines: each is reported once, whatever it was (rows K5, K7, K10, K32)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from fixtures.reconciler import ReconcilerHarness, hive, play
from hypothesis import given, settings
from hypothesis import strategies as st
from long import times

from hive_core.errors import StorageFull
from hive_core.model.agents.exits import ExitRecord
from hive_core.model.agents.machine import DesiredState, Exit, State
from hive_core.operations import load

load()
TREE = {"root": None, "lead": "root", "once": "lead", "maid": "lead"}
ROLES: dict[str, dict[str, object]] = {
    "lead": {"role": "lead"}, "once": {"role": "task"}, "maid": {"role": "daemon"},
}  # fmt: skip


def story(folder: Path, tell: Callable[[ReconcilerHarness], Coroutine[Any, Any, None]]) -> None:
    play(folder, tell, hive(TREE, **ROLES))


def ends(harness: ReconcilerHarness, name: str) -> list[ExitRecord]:
    texts = []
    rows = harness.ledger.connection.rows("SELECT DISTINCT parent FROM ends ORDER BY parent")
    for (parent,) in rows:
        texts += harness.ledger.lives.uncollected_ends(parent, harness.uuid(name))
    return texts


def notices(harness: ReconcilerHarness, name: str) -> list[tuple[str, str]]:
    """Kind and first words of the events of one machine."""
    events = harness.ledger.events.page(0, 1000)
    return [
        (event.kind, event.reason) for event in events
        if event.operation == "watch" and event.target == harness.uuid(name)
    ]  # fmt: skip


def test_a_start_is_told_once(tmp_path: Path) -> None:
    async def tell(harness: ReconcilerHarness) -> None:
        assert notices(harness, "lead") == [("start", "lead runs")]
        harness.restart()
        await harness.settle()
        assert notices(harness, "lead") == [("start", "lead runs")]

    story(tmp_path, tell)


def test_the_exit_code_and_the_last_lines_are_kept(tmp_path: Path) -> None:
    """K7."""

    async def tell(harness: ReconcilerHarness) -> None:
        harness.journal.write(harness.uuid("once"), "almost there")
        harness.host.crash(harness.uuid("once"), "42")
        await harness.settle()
        (end,) = ends(harness, "once")
        assert (end.code, end.reason, end.output) == (42, "ended with 42", "almost there")
        assert (end.clean, end.asked, end.stays) == (False, False, True)
        assert harness.state("once") is State.FAILED

    story(tmp_path, tell)


@pytest.mark.parametrize("wanted", [DesiredState.STOPPED, DesiredState.SLEEPING])
def test_an_end_that_was_asked_for_is_told_too(tmp_path: Path, wanted: DesiredState) -> None:
    async def tell(harness: ReconcilerHarness) -> None:
        await harness.want(wanted, "lead", goal="stopped")
        kind, text = notices(harness, "lead")[-1]
        assert (kind, text) == ("exit", f"lead ended with 0 ({wanted.value})")
        assert [end.stays for end in ends(harness, "lead")] == [True] * (
            wanted is DesiredState.STOPPED
        )

    story(tmp_path, tell)


def test_a_kill_has_no_exit_code(tmp_path: Path) -> None:
    async def tell(harness: ReconcilerHarness) -> None:
        await harness.want(DesiredState.STOPPED, "lead", goal="stopped", grace=0)
        (end,) = ends(harness, "lead")
        assert (end.code, end.asked, end.clean) == (None, True, False)

    story(tmp_path, tell)


def test_a_restart_is_an_end_that_needs_no_collection(tmp_path: Path) -> None:
    async def tell(harness: ReconcilerHarness) -> None:
        await harness.want(DesiredState.RUNNING, "lead", fresh=True)
        assert [kind for kind, _ in notices(harness, "lead")] == ["start", "exit", "start"]
        assert ends(harness, "lead") == []

    story(tmp_path, tell)


def test_a_daemon_that_crashes_comes_back_and_its_parent_hears_of_it(tmp_path: Path) -> None:
    """K10: for `wait_child` it ends only when it is parked."""

    async def tell(harness: ReconcilerHarness) -> None:
        for _ in range(harness.settings.back_off.failures - 1):
            harness.host.crash(harness.uuid("maid"))
            await harness.settle()
            assert ends(harness, "maid") == []
            await harness.advance(300)
        mail = [letter.body for letter in harness.mail("lead")]
        assert mail
        assert all("next try" in body for body in mail)

    story(tmp_path, tell)


def test_what_ended_while_no_daemon_ran_is_told_by_the_next(tmp_path: Path) -> None:
    """K32."""

    async def tell(harness: ReconcilerHarness) -> None:
        harness.host.forget_watchers()
        harness.host.crash(harness.uuid("once"), "3")
        with harness.ledger.transaction():
            harness.ledger.runs.want(
                harness.uuid("lead"), DesiredState.STOPPED, harness.clock.now()
            )
        harness.host.stop_by_hand(harness.uuid("lead"))
        for _ in range(2):
            harness.restart()
            await harness.settle()
            assert [end.code for end in ends(harness, "once")] == [3]
            assert [end.asked for end in ends(harness, "lead")] == [True]

    story(tmp_path, tell)


def test_a_host_that_went_down_ended_every_agent(tmp_path: Path) -> None:
    """K32: no exit status is left; an agent that exists for one task is not started again."""

    async def tell(harness: ReconcilerHarness) -> None:
        harness.host.forget_watchers()
        harness.host.reboot()
        harness.restart()
        await harness.settle()
        assert harness.state("lead") is harness.state("maid") is State.RUNNING
        assert [kind for kind, _ in notices(harness, "lead")] == ["start", "exit", "start"]
        assert notices(harness, "lead")[1] == ("exit", "lead the host went down")
        assert harness.state("once") is State.FAILED
        (end,) = ends(harness, "once")
        assert (end.code, end.reason) == (None, "the host went down")
        assert "once crashed: the host went down" in harness.mail("lead")[0].body
        await harness.want(DesiredState.RUNNING, "once", fresh=True)
        assert harness.state("once") is State.RUNNING

    story(tmp_path, tell)


def test_an_end_that_cannot_be_written_down_is_told_later(tmp_path: Path) -> None:
    """Nothing is half told: the count, the message and the end are one transaction."""

    async def tell(harness: ReconcilerHarness) -> None:
        perform = harness.reconciler.broker.perform
        harness.host.crash(harness.uuid("lead"), "5")

        def full(*_: object) -> Any:  # noqa: ANN401 - it never answers
            raise StorageFull("the disk of the host is full")

        object.__setattr__(harness.reconciler.broker, "perform", full)
        await harness.reconciler.converge()
        await asyncio.gather(*harness.reconciler.runner.busy.values())
        assert ends(harness, "lead") == []
        assert harness.mail("root") == []
        object.__setattr__(harness.reconciler.broker, "perform", perform)
        await harness.advance(1)
        assert [end.code for end in ends(harness, "lead")] == [5]
        assert len(harness.mail("root")) == 1

    story(tmp_path, tell)


def test_whose_end_cannot_be_written_down_waits_and_the_others_do_not(tmp_path: Path) -> None:
    """A full disk: what starts anew would hide how it ended, and others can still be stopped."""

    async def tell(harness: ReconcilerHarness) -> None:
        perform = harness.reconciler.broker.perform

        def full(*_: object) -> Any:  # noqa: ANN401 - it never answers
            raise StorageFull("the disk of the host is full")

        object.__setattr__(harness.reconciler.broker, "perform", full)
        await harness.want(DesiredState.RUNNING, "lead", fresh=True)
        await harness.want(DesiredState.STOPPED, "maid", goal="stopped")
        assert {harness.uuid("lead"), harness.uuid("maid")}.isdisjoint(harness.host.units)
        assert any("cannot record starts" in alarm for alarm in harness.observed.alarms())
        object.__setattr__(harness.reconciler.broker, "perform", perform)
        await harness.advance(1)
        assert [kind for kind, _ in notices(harness, "lead")] == ["start", "exit", "start"]
        assert notices(harness, "maid")[-1][0] == "exit"
        assert not [alarm for alarm in harness.observed.alarms() if "cannot record starts" in alarm]

    story(tmp_path, tell)


def test_an_end_from_before_lives_were_counted_is_old(tmp_path: Path) -> None:
    """An upgrade must not tell, nor reap, what had ended long before."""

    async def tell(harness: ReconcilerHarness) -> None:
        await harness.want(DesiredState.STOPPED, "once", goal="stopped")
        with harness.ledger.transaction():
            harness.ledger.connection.run("DELETE FROM lives")
            harness.ledger.connection.run("DELETE FROM ends")
            harness.ledger.connection.run(
                "INSERT INTO lives (agent, ended) SELECT agent, '*' FROM runs"
            )
        harness.restart()
        await harness.settle()
        assert ends(harness, "once") == []
        await harness.want(DesiredState.RUNNING, "once")
        await harness.want(DesiredState.STOPPED, "once", goal="stopped")
        assert len(ends(harness, "once")) == 1

    story(tmp_path, tell)


NAMES = st.sampled_from(["lead", "once", "maid"])
ACTS = st.sampled_from(
    ["stop", "sleep", "start", "restart", "crash", "exit", "vanish", "by hand", "reboot guest",
     "reboot", "daemon"]
)  # fmt: skip


@pytest.mark.sized
@settings(max_examples=times(15, 200), deadline=None)
@given(st.lists(st.tuples(ACTS, NAMES, st.booleans()), max_size=12))
def test_every_machine_that_ran_ended_once(acts: list[tuple[str, str, bool]]) -> None:
    """For any order of events, with or without a daemon that observes them."""

    async def tell(harness: ReconcilerHarness) -> None:
        for act, name, unseen in acts:
            if unseen:
                harness.host.forget_watchers()
            await _act(harness, act, name)
            if unseen:
                harness.restart()
            await harness.advance(400)
        up = {unit.invocation for unit in harness.host.units.values()}
        rows = harness.ledger.connection.rows("SELECT invocation FROM ends")
        ended = [invocation for (invocation,) in rows]
        assert len(ended) == len({*ended})
        assert {*ended} | up == {f"{n:032x}" for n in range(1, len(harness.host.starts) + 1)}
        assert up.isdisjoint(ended)

    with TemporaryDirectory(dir="/dev/shm") as folder:
        story(Path(folder), tell)


async def _act(harness: ReconcilerHarness, act: str, name: str) -> None:
    uuid, wishes = (
        harness.uuid(name),
        {"stop": DesiredState.STOPPED, "sleep": DesiredState.SLEEPING},
    )
    there = uuid in harness.host.units
    if act in ("stop", "sleep", "start", "restart"):
        wanted = wishes.get(act, DesiredState.RUNNING)
        with harness.ledger.transaction():
            harness.ledger.runs.want(uuid, wanted, harness.clock.now(), fresh=act == "restart")
        harness.reconciler.on_topics(frozenset({f"run:{uuid}"}))
    elif act == "reboot":
        harness.host.reboot()
        harness.reconciler.requeue("")
    elif act == "daemon":
        harness.restart()
    elif there:
        _end(harness, act, uuid)


def _end(harness: ReconcilerHarness, act: str, uuid: str) -> None:
    host, unit = harness.host, harness.host.units[uuid]
    match act:
        case "crash" | "exit":
            host.crash(uuid, "1" if act == "crash" else "0")
        case "vanish":
            host.vanish(uuid)
        case "by hand":
            host.stop_by_hand(uuid)
        case _:
            host.end(uuid, Exit(unit.invocation, "exit-code", "exited", "133", unit.nonce))
