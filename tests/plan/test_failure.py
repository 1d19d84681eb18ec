"""Who comes back after which end (rows K10, H23)."""

from __future__ import annotations

import pytest
from each import for_each
from fixtures.plans import hive, spec

from hive_core.model.agents.machine import DesiredRun, DesiredState, Exit, FailureHistory
from hive_core.model.config.limits import BackOffSettings
from hive_core.model.config.settings import Settings
from hive_core.plan.failure import ExitCase, ExitVerdict, retry_pause
from hive_core.plan.placement import Placements

NOW = 1_000_000.0
FAILED = Exit("one", "exit-code", "exited", "1", nonce=1)
KILLED = Exit("one", "signal", "killed", "KILL", nonce=1)
PAYLOAD_KILLED = Exit("one", "exit-code", "exited", "255", nonce=1)
OUT_OF_MEMORY = Exit("one", "oom-kill", "killed", "KILL", nonce=1)


def judge(role: str, end: Exit, starts: FailureHistory | None = None) -> ExitVerdict:
    settings = Settings()
    tree = hive({"root": None, "dan": "root"}, {"dan": spec(2, role=role)})
    place = Placements.build(tree, settings).by_name("dan")
    run = DesiredRun(place.uuid, DesiredState.RUNNING, nonce=1)
    return ExitCase(place, run, starts or FailureHistory(), settings).judge(end, NOW)


@for_each(
    "role, end",
    [
        (role, end)
        for role in ["agent", "lead", "worker", "architect", "task"]
        for end in [FAILED, PAYLOAD_KILLED, OUT_OF_MEMORY]
    ],
)
def test_k10_a_failed_agent_stays_down_and_its_parent_is_told(role: str, end: Exit) -> None:
    verdict = judge(role, end)
    assert (verdict.crash, verdict.starts.returns, verdict.parked) == (True, False, False)


@for_each("end", [FAILED, PAYLOAD_KILLED, OUT_OF_MEMORY, KILLED])
def test_k10_a_daemon_comes_back_from_everything(end: Exit) -> None:
    verdict = judge("daemon", end)
    assert (verdict.crash, verdict.starts.returns) == (True, True)
    assert NOW + 1 <= verdict.starts.next_at <= NOW + 1.2


@pytest.mark.parametrize(
    ("role", "returns"),
    [("agent", True), ("lead", True), ("worker", True), ("architect", False), ("task", False)],
)
def test_an_agent_that_was_killed_from_the_host_did_not_fail(role: str, *, returns: bool) -> None:
    verdict = judge(role, KILLED)
    assert (verdict.crash, verdict.starts.returns) == (True, returns)


def test_an_agent_that_is_killed_again_and_again_is_parked() -> None:
    starts = FailureHistory()
    for number in range(5):
        end = Exit(str(number), "signal", "killed", "KILL", nonce=1)
        verdict = judge("agent", end, starts)
        assert verdict.parked == (number == 4)
        starts = verdict.starts


def test_pauses_double_or_grow_by_the_first_one_as_is_set() -> None:
    """K10: 5, 10 and 15 s where `growth` is `add` and `first` is 5."""
    added = BackOffSettings(first=5.0, growth="add", jitter=0.0)
    assert [retry_pause(added, "x", count) for count in (1, 2, 3)] == [5.0, 10.0, 15.0]
    assert [retry_pause(BackOffSettings(jitter=0.0), "x", count) for count in (1, 2, 3)] == [
        1.0,
        2.0,
        4.0,
    ]
