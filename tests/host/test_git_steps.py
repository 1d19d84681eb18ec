"""git and the ledger change together: a kill at any of the five steps leaves the old or the new."""

from __future__ import annotations

import random
import signal
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from fixtures.change_until_killed import change_until_killed
from fixtures.forked import ForkedProgram, fork_program
from fixtures.meta_repo import Meta, spec

from hive_core.host.git.recovery import RecoveryKind

# What is there afterwards, in commits; the family itself is the first.
STEPS = {"objects": 1, "locked": 1, "commit": 1, "committed": 2, "moved": 2}


def changer(folder: Path, step: str) -> AbstractContextManager[ForkedProgram]:
    return fork_program(lambda: change_until_killed(folder, step))


def wake_up(folder: Path) -> Meta:
    """What a daemon finds after a kill, checked as a whole."""
    meta = Meta(folder)
    recovery = meta.repo.recover(meta.ledger.head)
    assert recovery.kind in (RecoveryKind.SAME, RecoveryKind.FORWARDED)
    assert meta.repo.head() == meta.ledger.head
    assert meta.repo.verify() == []
    assert meta.repo.refusals() == []
    hive = meta.hive
    assert hive.topology.parents.keys() == hive.specs.keys()
    assert int(meta.git("rev-list", "--count", "HEAD")) == len(hive.specs) - 1
    assert meta.git("fsck", "--strict", "--no-dangling") == ""
    assert meta.git("status", "--porcelain") == ""
    return meta


@pytest.mark.parametrize(("step", "commits"), STEPS.items())
def test_a_kill_at_a_step_leaves_exactly_old_or_new(folder: Path, step: str, commits: int) -> None:
    with changer(folder, step) as process:
        assert process.stdout.read() == ""
        assert process.wait() == -signal.SIGKILL
    meta = wake_up(folder)
    assert len(meta.hive.specs) - 1 == commits
    meta.change(meta.hive.with_agent("later", "anna", spec(99)))
    assert meta.git("status", "--porcelain") == ""
    meta.close()


def test_kills_at_any_moment_lose_no_change_that_was_acknowledged(folder: Path) -> None:
    chance = random.Random(5)  # noqa: S311 - no secret
    for _ in range(6):
        with changer(folder, "never") as process:
            seen = [process.stdout.readline() for _ in range(chance.randrange(1, 20))]
            process.kill()
            seen += [line for line in process.stdout.readlines() if line.endswith("\n")]
            process.wait()
        meta = wake_up(folder)
        behind = meta.git("rev-list", f"{seen[-1].strip()}..HEAD").split()
        assert len(behind) <= 1
        meta.close()
