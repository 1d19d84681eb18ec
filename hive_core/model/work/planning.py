"""Plans of tasks, waits for tasks, and batches of tasks."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from hive_core.model.states import StateMachine, Transition


class PlanState(StrEnum):
    SUBMITTED = "submitted"
    APPROVED = "approved"
    REJECTED = "rejected"
    VOID = "void"


class StepState(StrEnum):
    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    DONE = "done"
    FAILED = "failed"
    SKIPPED = "skipped"


class WaitState(StrEnum):
    WAITING = "waiting"
    MET = "met"
    EXPIRED = "expired"
    CANCELLED = "cancelled"


class BatchState(StrEnum):
    RUNNING = "running"
    DONE = "done"
    TIMEOUT = "timeout"
    STOPPED = "stopped"


class ItemState(StrEnum):
    """State of one task of a batch: not assigned yet, assigned, ended."""

    QUEUED = "queued"
    GIVEN = "given"
    ENDED = "ended"


_P, _S, _W, _B, _I = PlanState, StepState, WaitState, BatchState, ItemState
_DECIDES: Final = "the assigner or an ancestor"
PLAN: Final = StateMachine(
    noun="plan",
    start=_P.SUBMITTED,
    finals=frozenset({_P.REJECTED, _P.VOID}),
    transitions=(
        Transition(_P.SUBMITTED, "approve", _P.APPROVED, _DECIDES, "exactly this plan"),
        Transition(_P.SUBMITTED, "adopt", _P.APPROVED, "the daemon", "a main manager's own plan"),
        Transition(_P.SUBMITTED, "reject", _P.REJECTED, _DECIDES, "not in this way"),
        Transition(_P.SUBMITTED, "void", _P.VOID, "the daemon", "a newer plan, or the task ended"),
        Transition(_P.APPROVED, "void", _P.VOID, "the daemon", "a newer plan, or the task ended"),
    ),
)
STEP: Final = StateMachine(
    noun="step",
    start=_S.PENDING,
    finals=frozenset({_S.DONE, _S.SKIPPED}),
    transitions=tuple(
        Transition(source, event, to, "the assignee", "as it reports")
        for source, event, to in (
            (_S.PENDING, "start", _S.IN_PROGRESS),
            (_S.PENDING, "finish", _S.DONE),
            (_S.PENDING, "fail", _S.FAILED),
            (_S.PENDING, "skip", _S.SKIPPED),
            (_S.IN_PROGRESS, "finish", _S.DONE),
            (_S.IN_PROGRESS, "fail", _S.FAILED),
            (_S.IN_PROGRESS, "skip", _S.SKIPPED),
            (_S.FAILED, "start", _S.IN_PROGRESS),
            (_S.FAILED, "skip", _S.SKIPPED),
        )
    ),
)
WAIT: Final = StateMachine(
    noun="wait",
    start=_W.WAITING,
    finals=frozenset({_W.MET, _W.EXPIRED, _W.CANCELLED}),
    transitions=(
        Transition(_W.WAITING, "meet", _W.MET, "the daemon", "what was waited for is there"),
        Transition(_W.WAITING, "expire", _W.EXPIRED, "the clock", "its deadline"),
        Transition(
            _W.WAITING, "cancel", _W.CANCELLED, "the waiting agent", "the agent no longer waits"
        ),
    ),
)
BATCH: Final = StateMachine(
    noun="batch",
    start=_B.RUNNING,
    finals=frozenset({_B.DONE, _B.TIMEOUT, _B.STOPPED}),
    transitions=(
        Transition(_B.RUNNING, "end", _B.DONE, "the daemon", "each of its tasks has ended"),
        Transition(_B.RUNNING, "expire", _B.TIMEOUT, "the clock", "its deadline"),
        Transition(
            _B.RUNNING,
            "stop",
            _B.STOPPED,
            "the party that stops work",
            "no part of it is needed",
        ),
    ),
)
ITEM: Final = StateMachine(
    noun="item",
    start=_I.QUEUED,
    finals=frozenset({_I.ENDED}),
    transitions=(
        Transition(_I.QUEUED, "give", _I.GIVEN, "the daemon", "a worker is free"),
        Transition(_I.QUEUED, "end", _I.ENDED, "the daemon", "the batch ended before its turn"),
        Transition(_I.GIVEN, "end", _I.ENDED, "the daemon", "its task has ended"),
    ),
)


@dataclass(frozen=True, slots=True)
class PlanStep:
    """One step of a plan. `tools`: names of the tools that it needs."""

    title: str
    detail: str = ""
    tools: tuple[str, ...] = ()
    state: StepState = StepState.PENDING
    note: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """How an agent means to do a task; no task: a main manager's own. Parties are UUID texts."""

    id: str
    task: str
    agent: str
    note: str
    state: PlanState
    created: float
    decided_by: str
    decided: float | None
    reason: str
    steps: tuple[PlanStep, ...]

    @property
    def open(self) -> bool:
        return self.state in (PlanState.SUBMITTED, PlanState.APPROVED)


@dataclass(frozen=True, slots=True)
class WaitCondition:
    """What is waited for. Neither tasks nor agents: a word from below, from above, or of the
    daemon's.
    """

    tasks: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()
    all: bool = False


@dataclass(frozen=True, slots=True)
class ParkedWait:
    """One wait. `ends`: how each task that has ended came out."""

    id: str
    agent: str
    condition: WaitCondition
    state: WaitState
    created: float
    deadline: float
    ended: float | None
    message: str
    reason: str
    ends: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Batch:
    """Tasks that are given to several at once. `keeps`: workers made for it stay when it ends."""

    id: str
    owner: str
    title: str
    state: BatchState
    concurrency: int
    requeue: int
    keeps: bool
    created: float
    deadline: float
    ended: float | None
    reason: str


@dataclass(frozen=True, slots=True)
class BatchItem:
    """One task of a batch, from 0 in the order in which they were given."""

    batch: str
    number: int
    title: str
    body: str
    task: str
    worker: str
    state: ItemState
    reason: str
