"""Starts and ends of machines: each told once, whatever it was (rows K5, K7, K10, K32)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from fixtures.reconciler import Road, hive
from hypothesis import given, settings
from hypothesis import strategies as st

from hive_core.errors import StorageFull
from hive_core.model.agents.exits import ExitRecord
from hive_core.model.agents.machine import DesiredState, Exit, State
from hive_core.operations import load

load()
TREE = {"root": None, "lead": "root", "once": "lead", "maid": "lead"}
ROLES: dict[str, dict[str, object]] = {
    "lead": {"role": "lead"}, "once": {"role": "task"}, "maid": {"role": "daemon"},
}  # fmt: skip


def road(folder: Path) -> Road:
    return Road(folder, hive(TREE, **ROLES))


def story(folder: Path, tell: Callable[[Road], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        made = road(folder)
        await made.settle()
        await tell(made)
        await made.close()

    asyncio.run(run())


def ends(road: Road, name: str) -> list[ExitRecord]:
    texts = []
    rows = road.ledger.connection.rows("SELECT DISTINCT parent FROM ends ORDER BY parent")
    for (parent,) in rows:
        texts += road.ledger.lives.uncollected_ends(parent, road.uuid(name))
    return texts


def notices(road: Road, name: str) -> list[tuple[str, str]]:
    """Kind and first words of the events of one machine."""
    events = road.ledger.events.page(0, 1000)
    return [
        (event.kind, event.reason) for event in events
        if event.operation == "watch" and event.target == road.uuid(name)
    ]  # fmt: skip


def test_a_start_is_told_once(tmp_path: Path) -> None:
    async def tell(road: Road) -> None:
        assert notices(road, "lead") == [("start", "lead runs")]
        road.restart()
        await road.settle()
        assert notices(road, "lead") == [("start", "lead runs")]

    story(tmp_path, tell)


def test_the_exit_code_and_the_last_lines_are_kept(tmp_path: Path) -> None:
    """K7."""

    async def tell(road: Road) -> None:
        road.journal.write(road.uuid("once"), "almost there")
        road.host.crash(road.uuid("once"), "42")
        await road.settle()
        (end,) = ends(road, "once")
        assert (end.code, end.reason, end.output) == (42, "ended with 42", "almost there")
        assert (end.clean, end.asked, end.stays) == (False, False, True)
        assert road.state("once") is State.FAILED

    story(tmp_path, tell)


@pytest.mark.parametrize("wanted", [DesiredState.STOPPED, DesiredState.SLEEPING])
def test_an_end_that_was_asked_for_is_told_too(tmp_path: Path, wanted: DesiredState) -> None:
    async def tell(road: Road) -> None:
        await road.want(wanted, "lead", goal="stopped")
        kind, text = notices(road, "lead")[-1]
        assert (kind, text) == ("exit", f"lead ended with 0 ({wanted.value})")
        assert [end.stays for end in ends(road, "lead")] == [True] * (
            wanted is DesiredState.STOPPED
        )

    story(tmp_path, tell)


def test_a_kill_has_no_exit_code(tmp_path: Path) -> None:
    async def tell(road: Road) -> None:
        await road.want(DesiredState.STOPPED, "lead", goal="stopped", grace=0)
        (end,) = ends(road, "lead")
        assert (end.code, end.asked, end.clean) == (None, True, False)

    story(tmp_path, tell)


def test_a_restart_is_an_end_that_nobody_has_to_collect(tmp_path: Path) -> None:
    async def tell(road: Road) -> None:
        await road.want(DesiredState.RUNNING, "lead", fresh=True)
        assert [kind for kind, _ in notices(road, "lead")] == ["start", "exit", "start"]
        assert ends(road, "lead") == []

    story(tmp_path, tell)


def test_a_daemon_that_crashes_comes_back_and_its_parent_hears_of_it(tmp_path: Path) -> None:
    """K10: it is no end for `wait_child` until it is parked."""

    async def tell(road: Road) -> None:
        for _ in range(road.settings.back_off.failures - 1):
            road.host.crash(road.uuid("maid"))
            await road.settle()
            assert ends(road, "maid") == []
            await road.advance(300)
        mail = [letter.body for letter in road.mail("lead")]
        assert mail
        assert all("next try" in body for body in mail)

    story(tmp_path, tell)


def test_what_ended_while_no_daemon_ran_is_told_by_the_next(tmp_path: Path) -> None:
    """K32."""

    async def tell(road: Road) -> None:
        road.host.forget_watchers()
        road.host.crash(road.uuid("once"), "3")
        with road.ledger.transaction():
            road.ledger.runs.want(road.uuid("lead"), DesiredState.STOPPED, road.clock.now())
        road.host.stop_by_hand(road.uuid("lead"))
        for _ in range(2):
            road.restart()
            await road.settle()
            assert [end.code for end in ends(road, "once")] == [3]
            assert [end.asked for end in ends(road, "lead")] == [True]

    story(tmp_path, tell)


def test_a_host_that_went_down_ended_everybody(tmp_path: Path) -> None:
    """K32: no record is left of how; who is there for one task is not begun anew."""

    async def tell(road: Road) -> None:
        road.host.forget_watchers()
        road.host.reboot()
        road.restart()
        await road.settle()
        assert road.state("lead") is road.state("maid") is State.RUNNING
        assert [kind for kind, _ in notices(road, "lead")] == ["start", "exit", "start"]
        assert notices(road, "lead")[1] == ("exit", "lead the host went down")
        assert road.state("once") is State.FAILED
        (end,) = ends(road, "once")
        assert (end.code, end.reason) == (None, "the host went down")
        assert "once crashed: the host went down" in road.mail("lead")[0].body
        await road.want(DesiredState.RUNNING, "once", fresh=True)
        assert road.state("once") is State.RUNNING

    story(tmp_path, tell)


def test_an_end_that_cannot_be_written_down_is_told_later(tmp_path: Path) -> None:
    """Nothing is half told: the count, the message and the end are one transaction."""

    async def tell(road: Road) -> None:
        perform = road.road.broker.perform
        road.host.crash(road.uuid("lead"), "5")

        def full(*_: object) -> Any:  # noqa: ANN401 - it never answers
            raise StorageFull("the disk of the host is full")

        object.__setattr__(road.road.broker, "perform", full)
        await road.road.converge()
        await asyncio.gather(*road.road.runner.busy.values())
        assert ends(road, "lead") == []
        assert road.mail("root") == []
        object.__setattr__(road.road.broker, "perform", perform)
        await road.advance(1)
        assert [end.code for end in ends(road, "lead")] == [5]
        assert len(road.mail("root")) == 1

    story(tmp_path, tell)


def test_whose_end_cannot_be_written_down_waits_and_the_others_do_not(tmp_path: Path) -> None:
    """A full disk: what starts anew would hide how it ended, and others can still be stopped."""

    async def tell(road: Road) -> None:
        perform = road.road.broker.perform

        def full(*_: object) -> Any:  # noqa: ANN401 - it never answers
            raise StorageFull("the disk of the host is full")

        object.__setattr__(road.road.broker, "perform", full)
        await road.want(DesiredState.RUNNING, "lead", fresh=True)
        await road.want(DesiredState.STOPPED, "maid", goal="stopped")
        assert {road.uuid("lead"), road.uuid("maid")}.isdisjoint(road.host.units)
        assert any("cannot record starts" in alarm for alarm in road.look.alarms())
        object.__setattr__(road.road.broker, "perform", perform)
        await road.advance(1)
        assert [kind for kind, _ in notices(road, "lead")] == ["start", "exit", "start"]
        assert notices(road, "maid")[-1][0] == "exit"
        assert not [alarm for alarm in road.look.alarms() if "cannot record starts" in alarm]

    story(tmp_path, tell)


def test_an_end_from_before_lives_were_counted_is_old(tmp_path: Path) -> None:
    """An upgrade must not tell, nor reap, what had ended long before."""

    async def tell(road: Road) -> None:
        await road.want(DesiredState.STOPPED, "once", goal="stopped")
        with road.ledger.transaction():
            road.ledger.connection.run("DELETE FROM lives")
            road.ledger.connection.run("DELETE FROM ends")
            road.ledger.connection.run(
                "INSERT INTO lives (agent, ended) SELECT agent, '*' FROM runs"
            )
        road.restart()
        await road.settle()
        assert ends(road, "once") == []
        await road.want(DesiredState.RUNNING, "once")
        await road.want(DesiredState.STOPPED, "once", goal="stopped")
        assert len(ends(road, "once")) == 1

    story(tmp_path, tell)


NAMES = st.sampled_from(["lead", "once", "maid"])
ACTS = st.sampled_from(
    ["stop", "sleep", "start", "restart", "crash", "exit", "vanish", "by hand", "reboot guest",
     "reboot", "daemon"]
)  # fmt: skip


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(ACTS, NAMES, st.booleans()), max_size=12))
def test_every_machine_that_ran_ended_once(acts: list[tuple[str, str, bool]]) -> None:
    """Whatever happens, in whatever order, with a daemon that looks or with none."""

    async def tell(road: Road) -> None:
        for act, name, unseen in acts:
            if unseen:
                road.host.forget_watchers()
            await _act(road, act, name)
            if unseen:
                road.restart()
            await road.advance(400)
        up = {unit.invocation for unit in road.host.units.values()}
        rows = road.ledger.connection.rows("SELECT invocation FROM ends")
        ended = [invocation for (invocation,) in rows]
        assert len(ended) == len({*ended})
        assert {*ended} | up == {f"{n:032x}" for n in range(1, len(road.host.starts) + 1)}
        assert up.isdisjoint(ended)

    with TemporaryDirectory(dir="/dev/shm") as folder:
        story(Path(folder), tell)


async def _act(road: Road, act: str, name: str) -> None:
    uuid, wishes = road.uuid(name), {"stop": DesiredState.STOPPED, "sleep": DesiredState.SLEEPING}
    there = uuid in road.host.units
    if act in ("stop", "sleep", "start", "restart"):
        wanted = wishes.get(act, DesiredState.RUNNING)
        with road.ledger.transaction():
            road.ledger.runs.want(uuid, wanted, road.clock.now(), fresh=act == "restart")
        road.road.on_topics(frozenset({f"run:{uuid}"}))
    elif act == "reboot":
        road.host.reboot()
        road.road.requeue("")
    elif act == "daemon":
        road.restart()
    elif there:
        _end(road, act, uuid)


def _end(road: Road, act: str, uuid: str) -> None:
    host, unit = road.host, road.host.units[uuid]
    match act:
        case "crash" | "exit":
            host.crash(uuid, "1" if act == "crash" else "0")
        case "vanish":
            host.vanish(uuid)
        case "by hand":
            host.stop_by_hand(uuid)
        case _:
            host.end(uuid, Exit(unit.invocation, "exit-code", "exited", "133", unit.nonce))
