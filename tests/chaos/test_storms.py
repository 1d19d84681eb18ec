"""Attack 50 and row R22: storms of starts. No host is needed: the tests advance a manual clock."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from itertools import pairwise
from pathlib import Path
from statistics import pstdev
from tempfile import TemporaryDirectory

import pytest
from fixtures.reconciler import ReconcilerHarness, hive
from long import figure, times

from hive_core.model.agents.machine import DesiredState, State
from hive_core.model.config.settings import Settings
from hive_core.plan import actions as a
from hive_core.plan.failure import retry_pause

pytestmark = pytest.mark.sized

MANY = times(200, 1000)
TREE: dict[str, str | None] = {
    "root": None,
    **{f"agent-{number:04}": "root" for number in range(MANY - 1)},
}
DAEMONS = {name: {"role": "daemon"} for name in list(TREE)[1 : times(41, MANY)]}
AT_ONCE = 8


def play(
    story: Callable[[ReconcilerHarness], Awaitable[None]],
    parents: Mapping[str, str | None] = TREE,
    **specs: object,
) -> None:
    async def run(folder: Path) -> None:
        tree = hive(parents, **specs)  # type: ignore[arg-type]
        harness = ReconcilerHarness(
            folder, tree, Settings.model_validate({"limits": {"starts_at_once": AT_ONCE}})
        )
        await harness.settle()
        try:
            await story(harness)
        finally:
            await harness.close()
        assert not harness.faults

    # Every crash is a commit of the ledger, and a slow disk is not what is looked at.
    with TemporaryDirectory(dir="/dev/shm") as folder:
        asyncio.run(run(Path(folder)))


async def settle_starts(harness: ReconcilerHarness) -> int:
    """Let what is on its way arrive, one after another; how many were on it at once at most."""
    most = 0
    while coming := [u for u, unit in harness.host.units.items() if unit.active == "activating"]:
        most = max(most, len(coming))
        harness.host.settle(coming[0])
        await harness.settle()
    return most


def test_a_reboot_starts_every_wanted_agent_once_and_eight_at_a_time() -> None:
    """Row R22 and attack 50: 200 machines come back; stopped ones stay stopped."""

    async def story(harness: ReconcilerHarness) -> None:
        stopped = [f"agent-{number:04}" for number in range(0, MANY - 1, 10)]
        await harness.want(DesiredState.STOPPED, *stopped)
        harness.host.reboot()
        harness.host.slow = True
        harness.host.starts.clear()
        harness.restart()
        await harness.settle()
        most = await settle_starts(harness)
        wanted = {harness.uuid(name) for name in TREE if name not in stopped}
        assert Counter(harness.host.starts) == Counter(wanted)
        assert most == AT_ONCE
        assert {harness.state(name) for name in stopped} == {State.STOPPED}
        assert all(harness.state(name) is State.RUNNING for name in TREE if name not in stopped)
        figure("simulated reboot", units=len(wanted), at_once=most)

    play(story)


def test_a_crash_loop_of_many_ends_parked_and_never_floods_the_host() -> None:
    """Attack 50: they crash whenever they run; pauses grow, all are parked, visibly."""

    async def story(harness: ReconcilerHarness) -> None:
        harness.host.starts.clear()
        started: list[tuple[float, str]] = []
        states = Counter[State]()
        for _ in range(10_000):
            for uuid in map(harness.uuid, DAEMONS):
                if uuid in harness.host.units:
                    harness.host.crash(uuid)
            before = len(harness.host.starts)
            await harness.advance(0.25)
            new = harness.host.starts[before:]
            started += [(harness.clock.monotonic(), uuid) for uuid in new]
            states = Counter(harness.states().values())
            if states[State.PARKED] == len(DAEMONS):
                break
        assert states == {State.PARKED: len(DAEMONS), State.RUNNING: MANY - len(DAEMONS)}
        # The first crash was that of the start before; four more tries each, no more ever.
        counts = Counter(uuid for _, uuid in started)
        assert set(counts.values()) == {4}
        alarms = [text for text in harness.observed.alarms() if " is parked: " in text]
        assert len(alarms) == len(DAEMONS)
        before = len(harness.host.starts)
        await harness.advance(3600)
        assert len(harness.host.starts) == before
        tries = list(_tries(started).values())
        gaps = [[later - sooner for sooner, later in pairwise(one)]
                for one in tries]  # fmt: skip
        assert all(sooner < later for one in gaps for sooner, later in pairwise(one))

    play(story, **DAEMONS)


def _tries(started: list[tuple[float, str]]) -> dict[str, list[float]]:
    result: dict[str, list[float]] = {}
    for when, uuid in started:
        result.setdefault(uuid, []).append(when)
    return result


def test_restart_pauses_double_up_to_five_minutes_with_random_spread() -> None:
    """Attack 50: 1 s to 5 min, with jitter that is another one for each agent and each try."""
    figures = Settings().back_off
    crowd = [f"0a0b0c0d-0000-4000-8000-{number:012}" for number in range(200)]
    for count in range(1, 9):
        pauses = [retry_pause(figures, uuid, count) for uuid in crowd]
        least = min(figures.most, figures.first * 2 ** (count - 1))
        assert least <= min(pauses) <= max(pauses) <= least * (1 + figures.jitter)
        assert pstdev(pauses) > least * figures.jitter / 10
    assert {retry_pause(figures, uuid, 30) for uuid in crowd} == {figures.most}


def test_a_parked_agent_starts_only_on_a_new_request() -> None:
    """Attack 50: not by the daemon's restart, a reboot, or time; by somebody's start it is."""

    async def story(harness: ReconcilerHarness) -> None:
        name, uuid = "agent-0000", harness.uuid("agent-0000")
        while harness.state(name) is not State.PARKED:
            if harness.host.units.get(uuid):
                harness.host.crash(uuid)
            await harness.advance(30)
        harness.host.starts.clear()
        harness.restart()
        await harness.settle()
        harness.host.reboot()
        harness.restart()
        await harness.advance(7200)
        assert uuid not in harness.host.starts
        assert harness.state(name) is State.PARKED
        await harness.want(DesiredState.RUNNING, name, fresh=True)
        assert harness.state(name) is State.RUNNING
        assert sum(isinstance(action, a.StartUnit) and action.uuid == uuid
                   for action in harness.host.applied[-20:]) == 1  # fmt: skip

    play(story, **DAEMONS)


def test_attack_60_endless_starts_delay_no_other_branch() -> None:
    """Time does nothing for them; a stranger starts at once, and one beyond as soon as it may."""

    async def story(harness: ReconcilerHarness) -> None:
        harness.host.slow = True
        stuck = [f"lead-{number}" for number in range(20)]
        await harness.want(DesiredState.RUNNING, *stuck, fresh=True)
        await harness.advance(60)
        for other in [id_ for id_, unit in harness.host.units.items() if unit.active != "active"]:
            harness.host.settle(other)  # they stop, and start anew
        await harness.advance(60)
        coming = [uuid for uuid, unit in harness.host.units.items() if unit.active == "activating"]
        assert len(coming) == AT_ONCE // 2
        harness.host.slow = False
        await harness.want(DesiredState.RUNNING, "stranger", fresh=True)
        assert harness.state("stranger") is State.RUNNING

    tree = {"root": None, "lead": "root", "stranger": "root"}
    tree |= {f"lead-{number}": "lead" for number in range(20)}
    play(story, tree)
