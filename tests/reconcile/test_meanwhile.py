"""Orders that arrive while the host is looked at are judged by their own tree."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import pytest
from fixtures.reconciler import ReconcilerHarness, play

from hive_core.model.agents.agent import AgentSpec
from hive_core.model.agents.hive import Hive
from hive_core.model.agents.machine import DesiredState

ORDERS: dict[str, tuple[Callable[[Hive], Hive], dict[str, str]]] = {
    "destroyed": (lambda hive: hive.without("cat"), {"cat": "absent"}),
    "spawned": (
        lambda hive: hive.with_agent("eve", "root", AgentSpec(uuid=uuid4())), {"eve": "running"},
    ),
    "moved": (lambda hive: hive.with_parent("dan", "ann"), {"dan": "moved"}),
}  # fmt: skip


@pytest.mark.parametrize("order", ORDERS)
def test_a_job_that_comes_during_a_look_waits_for_the_next_one(tmp_path: Path, order: str) -> None:
    """In the same moment a step for somebody else ends, after which rows are read again."""
    change, goals = ORDERS[order]

    async def story(harness: ReconcilerHarness) -> None:
        jobs = []

        def meanwhile() -> None:
            jobs.append(harness.begin(change(harness.hive), **goals).id)
            harness.observed.cache.refresh((harness.uuid("ann"),))

        harness.host.meanwhile.append(meanwhile)
        harness.reconciler.requeue("")
        await harness.reconciler.converge()
        assert harness.job(jobs[0]).state == "running"
        await harness.settle()
        assert harness.job(jobs[0]).state == "done"

    play(tmp_path, story)


@pytest.mark.parametrize("wanted", [DesiredState.RUNNING, DesiredState.STOPPED])
def test_what_is_wanted_while_a_new_tree_is_put_in_place_is_not_forgotten(
    tmp_path: Path, wanted: DesiredState
) -> None:
    """It was looked at by the rows from before, so nothing was to do, until the next look at all.

    `StopWork(grace=0, wait=15)` took its whole wait so: workers of a batch were destroyed, and in
    that moment the container of another agent was to end.
    """

    async def story(harness: ReconcilerHarness) -> None:
        before = harness.unit("dan").invocation

        def meanwhile() -> None:
            with harness.ledger.transaction():
                uuid, now = harness.uuid("dan"), harness.clock.now()
                harness.ledger.runs.want(uuid, wanted, now, grace=0.0, fresh=True)
            harness.reconciler.on_topics(frozenset({f"run:{uuid}"}))

        harness.host.beside["MoveNode"] = meanwhile
        harness.begin(harness.hive.with_parent("cat", "root"), cat="moved")
        await harness.settle()
        assert not harness.host.beside
        assert harness.state("dan").value == wanted.value
        unit = harness.host.units.get(harness.uuid("dan"))
        assert unit is None or unit.invocation != before

    play(tmp_path, story)
