"""Judges whether a deploy is in place, and whether the agent stays healthy. Pure.

A failure is one that the change path counted (`plan/failure.py`), an unrequested exit of the agent,
or a fault that the agent reports. A requested stop or restart is not a failure. A stopped agent
cannot be watched, so its configuration counts as deployed. After a requested restart, the agent is
watched for a whole window again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from hive_core.ledger.machines.check_ins import CheckIn
from hive_core.model.agents.agent import AfterTask, AgentSpec
from hive_core.model.agents.machine import DesiredRun, DesiredState, FailureHistory, Machine, State
from hive_core.model.agents.roles import ROLE_DEFAULTS
from hive_core.model.config.approval import Effect
from hive_core.reconcile.jobs.goals import ENDED, UP

SAID_MOST: Final = 500


class TrialOutcome(StrEnum):
    WAIT = "wait"  # judge again when something changes, or at `until`
    GOOD = "good"
    BAD = "bad"
    ANEW = "anew"  # good so far, but a requested restart needs a new window


@dataclass(frozen=True, slots=True)
class TrialVerdict:
    outcome: TrialOutcome
    why: str = ""
    until: float | None = None


@dataclass(frozen=True, slots=True)
class Trial:
    """One deploy under trial: its start, its effect, and the time limits of its parts."""

    effect: Effect
    at: float
    nonce: int | None
    patience: float
    until: float | None = None
    invocation: str = ""


@dataclass(frozen=True, slots=True)
class TrialState:
    """The current state of one agent. `spec` is None if it was destroyed.

    `held`: a revocation prevents its start; `released`: when the last such hold ended.
    """

    now: float
    spec: AgentSpec | None
    run: DesiredRun | None
    machine: Machine
    state: State
    starts: FailureHistory | None
    hello: CheckIn | None
    held: bool = False
    released: float = 0.0

    @property
    def config(self) -> str:
        return self.spec.config or "" if self.spec else ""

    @property
    def wanted(self) -> bool:
        return self.run is not None and self.run.wanted is DesiredState.RUNNING

    @property
    def nonce(self) -> int:
        return self.run.nonce if self.run else 0


def is_up(scene: TrialState) -> bool:
    """Whether the agent runs, by the latest requested start."""
    return scene.state in UP and scene.machine.nonce == scene.nonce


def judge_placement(trial: Trial, scene: TrialState) -> TrialVerdict:
    """Whether the deployed configuration is in place; GOOD too if there is nothing to wait for."""
    return next(_placement_verdicts(trial, scene))


def judge_health(trial: Trial, scene: TrialState) -> TrialVerdict:
    """Whether the agent is healthy, once the window is over."""
    return next(_health_verdicts(trial, scene))


# The first verdict counts.


def _placement_verdicts(trial: Trial, scene: TrialState) -> Iterator[TrialVerdict]:
    yield from _final_verdicts(trial, scene)
    due, switches = max(trial.at, scene.released) + trial.patience, trial.effect is Effect.SWITCH
    shown = scene.machine.config == scene.config and is_up(scene)
    if shown and (not switches or _has_switched(trial, scene)):
        yield TrialVerdict(TrialOutcome.GOOD)
    if scene.now >= due and not scene.held:
        failure = "has not switched" if switches else "did not come up"
        yield TrialVerdict(TrialOutcome.BAD, f"the agent {failure} within {trial.patience:.0f} s")
    yield TrialVerdict(TrialOutcome.WAIT, until=None if scene.held else due)


def _health_verdicts(trial: Trial, scene: TrialState) -> Iterator[TrialVerdict]:
    yield from _final_verdicts(trial, scene)
    until = trial.until or scene.now
    if is_up(scene) and trial.invocation and scene.machine.invocation != trial.invocation:
        yield TrialVerdict(TrialOutcome.ANEW)
    if scene.now < until:
        yield TrialVerdict(TrialOutcome.WAIT, until=until)
    if scene.state is not State.RUNNING or scene.machine.nonce != scene.nonce:
        latest = max(until, scene.released) + trial.patience
        if scene.now >= latest and not scene.held:
            yield TrialVerdict(
                TrialOutcome.BAD, f"the agent is {scene.state} at the end of the window"
            )
        yield TrialVerdict(TrialOutcome.WAIT, until=None if scene.held else latest)
    if scene.spec and scene.spec.harness and not _has_said_hello(trial, scene):
        yield TrialVerdict(TrialOutcome.BAD, "the agent has not called hello")
    yield TrialVerdict(TrialOutcome.GOOD)


def _final_verdicts(trial: Trial, scene: TrialState) -> Iterator[TrialVerdict]:
    """The verdicts that can end the trial at any time."""
    if scene.spec is None:
        yield TrialVerdict(TrialOutcome.BAD, "the agent was destroyed")
    elif why := _failure(trial, scene):
        yield TrialVerdict(TrialOutcome.BAD, why)
    elif not scene.wanted:
        yield _stopped_verdict(trial, scene, scene.spec)
    hello = scene.hello
    if hello and hello.fault and hello.at >= trial.at and hello.nonce == scene.nonce:
        yield TrialVerdict(TrialOutcome.BAD, f"the agent reports: {hello.fault[:SAID_MOST]}")


def _failure(trial: Trial, scene: TrialState) -> str:
    starts = scene.starts
    if starts is None or starts.nonce < scene.nonce or not starts.failures:
        return ""
    return f"the agent crashed: {starts.why}" if starts.failures[-1] > trial.at else ""


def _stopped_verdict(trial: Trial, scene: TrialState, spec: AgentSpec) -> TrialVerdict:
    """The verdict on an agent that should not run: it was stopped, or it exited with 0."""
    run, starts = scene.run, scene.starts
    if run is None or not run.reason.startswith(ENDED) or run.since < trial.at:
        return TrialVerdict(TrialOutcome.GOOD, "the agent is stopped")
    if ROLE_DEFAULTS[spec.role].after_task is AfterTask.EXITS:
        return TrialVerdict(TrialOutcome.GOOD, "its work is done")
    return TrialVerdict(
        TrialOutcome.BAD, f"the agent exited by itself: {starts.why if starts else run.reason}"
    )


def _has_switched(trial: Trial, scene: TrialState) -> bool:
    """Whether the agent reports that it has switched. The window shows whether it stays healthy."""
    hello, spec = scene.hello, scene.spec
    if hello is None or spec is None or hello.at < trial.at:
        return False
    return hello.nonce == scene.nonce and hello.system == (spec.system or "")


def _has_said_hello(trial: Trial, scene: TrialState) -> bool:
    hello = scene.hello
    if hello is None or hello.at < trial.at:
        return False
    return hello.nonce == scene.nonce and hello.commit == scene.config
