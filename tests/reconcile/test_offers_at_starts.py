"""Tasks that come while an agent waits for its next start, or while the daemon starts, are offered.

A session reads its letters until it ends, so an offer that is missed once is missed for ever.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from fixtures.reconciler import ReconcilerHarness, hive, play

from hive_core.broker.call import Call, Record
from hive_core.broker.operation import Result
from hive_core.model.agents.machine import DesiredState, State
from hive_core.model.wire.record import OPERATOR
from hive_core.model.work.task import Task, TaskRequest
from hive_core.operations import load
from hive_core.operations.tasks.assign import create_task

load()
BOB = hive({"root": None, "bob": "root"}, bob={"role": "daemon"})
LONG = 600.0  # seconds, longer than the pause before a next start


class Assigned(Result):
    id: str


def assign(harness: ReconcilerHarness) -> str:
    """Assign bob a task, as `assign_task` does; the id of the task."""

    def create(call: Call) -> Record[Assigned]:
        return Record(Assigned(id=create_task(call, OPERATOR, "bob", TaskRequest("x"), None).id))

    return harness.reconciler.broker.perform("assign_task", create).id


def task(harness: ReconcilerHarness, id_: str) -> Task:
    return harness.ledger.tasks.require(id_)


async def crash(harness: ReconcilerHarness) -> None:
    """Bob crashes, and waits for its next start."""
    harness.host.crash(harness.uuid("bob"))
    await harness.settle()
    assert harness.state("bob") is State.FAILED


def test_a_task_that_came_in_the_pause_before_a_start_is_offered_at_the_start(
    tmp_path: Path,
) -> None:
    async def story(harness: ReconcilerHarness) -> None:
        await crash(harness)
        id_ = assign(harness)
        assert not task(harness, id_).offered
        await harness.advance(LONG)
        assert harness.state("bob") is State.RUNNING
        assert task(harness, id_).offered

    play(tmp_path, story, BOB)


def test_a_task_that_comes_before_the_first_pass_of_a_daemon_is_offered(tmp_path: Path) -> None:
    """A failure that is over is still in the ledger then; the agent runs."""

    async def story(harness: ReconcilerHarness) -> None:
        await crash(harness)
        await harness.advance(LONG)
        harness.restart()
        assert harness.state("bob") is State.RUNNING
        id_ = assign(harness)
        assert task(harness, id_).offered
        await harness.settle()
        assert task(harness, id_).offered
        assert len(harness.mail("bob")) == 1

    play(tmp_path, story, BOB)


@pytest.mark.parametrize("ends", [True, False])
def test_a_task_that_comes_while_the_daemon_restarts_in_the_pause_is_offered_at_the_start(
    tmp_path: Path, *, ends: bool
) -> None:
    """The agent has ended, seen by the daemon before or not."""

    async def story(harness: ReconcilerHarness) -> None:
        await crash(harness)
        if ends:
            await harness.advance(LONG)
            harness.host.crash(harness.uuid("bob"))
        harness.restart()
        id_ = assign(harness)
        await harness.settle()
        await harness.advance(LONG)
        assert harness.state("bob") is State.RUNNING
        assert task(harness, id_).offered
        assert len(harness.mail("bob")) == 1

    play(tmp_path, story, BOB)


@pytest.mark.parametrize("wanted", [DesiredState.STOPPED, DesiredState.SLEEPING])
def test_before_the_first_pass_an_agent_is_what_the_daemon_before_has_recorded(
    tmp_path: Path, wanted: DesiredState
) -> None:
    async def story(harness: ReconcilerHarness) -> None:
        states = harness.states()
        harness.restart()
        assert harness.states() == states
        await harness.settle()
        await harness.want(wanted, "bob")
        states = harness.states()
        assert states["bob"] is State(wanted.value)
        harness.restart()
        assert harness.states() == states

    play(tmp_path, story, BOB)
