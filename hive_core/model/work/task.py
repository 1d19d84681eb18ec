"""Tasks: their states, their legal transitions, their one result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from hive_core.model.states import StateMachine, Transition


class TaskState(StrEnum):
    QUEUED = "queued"
    WAITING = "waiting"
    PENDING_DELEGATION = "pending_delegation"
    IN_PROGRESS = "in_progress"
    AWAITING_PLAN_APPROVAL = "awaiting_plan_approval"
    AWAITING_MORE_INFORMATION = "awaiting_more_information"
    AWAITING_JUDGEMENT = "awaiting_judgement"
    STOPPING = "stopping"
    DONE = "done"
    CANCELLED = "cancelled"


class ResultStatus(StrEnum):
    """How a task came out. `stopped` and `timeout`: the result holds what there was until then."""

    SUCCESS = "success"
    PARTIAL = "partial"
    FAILED = "failed"
    TIMEOUT = "timeout"
    STOPPED = "stopped"


_S = TaskState
FINALS: Final = frozenset({_S.DONE, _S.CANCELLED})
# The agent has not begun it, so that nothing is lost with it.
UNSTARTED: Final = frozenset({_S.QUEUED, _S.WAITING})
# The agent waits for an answer or a decision: the clock of the task stands still.
AWAITING: Final = frozenset({_S.AWAITING_PLAN_APPROVAL, _S.AWAITING_MORE_INFORMATION})
# The agent works on it, or should.
ACTIVE: Final = frozenset({_S.PENDING_DELEGATION, _S.IN_PROGRESS, *AWAITING, _S.STOPPING})
# Its report is there, and has to meet its criteria: no agent works on it.
DELIVERED: Final = frozenset({_S.AWAITING_JUDGEMENT})
WELL: Final = frozenset({ResultStatus.SUCCESS, ResultStatus.PARTIAL})

_WORKING: Final = (_S.PENDING_DELEGATION, _S.IN_PROGRESS, *sorted(AWAITING))
_OPEN: Final = (_S.QUEUED, _S.WAITING, *_WORKING, _S.AWAITING_JUDGEMENT)


def _moves_from(
    sources: tuple[TaskState, ...], event: str, to: TaskState, by: str, why: str
) -> tuple[Transition, ...]:
    return tuple(Transition(source, event, to, by, why) for source in sources)


COURSE: Final = StateMachine(
    noun="task",
    start=_S.QUEUED,
    finals=FINALS,
    transitions=(
        Transition(_S.QUEUED, "wait", _S.WAITING, "the daemon", "it waits for other tasks"),
        Transition(_S.WAITING, "unblock", _S.QUEUED, "the daemon", "all it waited for ended well"),
        Transition(
            _S.QUEUED, "begin", _S.IN_PROGRESS, "the assignee", "it says that it works on it"
        ),
        Transition(
            _S.QUEUED, "delegate", _S.PENDING_DELEGATION, "the daemon", "a new manager has it"
        ),
        Transition(
            _S.PENDING_DELEGATION,
            "begin",
            _S.IN_PROGRESS,
            "the assignee",
            "its first sub-task, or its first report",
        ),
        *_moves_from(
            (_S.PENDING_DELEGATION, _S.IN_PROGRESS, _S.AWAITING_PLAN_APPROVAL),
            "submit",
            _S.AWAITING_PLAN_APPROVAL,
            "the assignee",
            "a plan for it",
        ),
        Transition(
            _S.AWAITING_PLAN_APPROVAL,
            "approve",
            _S.IN_PROGRESS,
            "the assigner",
            "exactly this plan",
        ),
        Transition(
            _S.AWAITING_PLAN_APPROVAL,
            "reject",
            _S.IN_PROGRESS,
            "the assigner",
            "it has to be planned anew",
        ),
        *_moves_from(
            (_S.PENDING_DELEGATION, _S.IN_PROGRESS),
            "ask",
            _S.AWAITING_MORE_INFORMATION,
            "the assignee",
            "a question without whose answer it cannot go on",
        ),
        Transition(
            _S.AWAITING_MORE_INFORMATION,
            "answer",
            _S.IN_PROGRESS,
            "the party that was asked",
            "the answer, or what holds without one",
        ),
        *_moves_from(
            _WORKING,
            "hand_back",
            _S.QUEUED,
            "the daemon",
            "the agent ended before it took it, or it is to be done again",
        ),
        *_moves_from(_WORKING, "finish", _S.DONE, "the assignee", "its one report"),
        *_moves_from(
            _WORKING,
            "deliver",
            _S.AWAITING_JUDGEMENT,
            "the assignee",
            "its report on a task with criteria",
        ),
        Transition(
            _S.AWAITING_JUDGEMENT, "accept", _S.DONE, "the assigner", "the report meets them"
        ),
        Transition(
            _S.AWAITING_JUDGEMENT, "retry", _S.QUEUED, "the assigner", "the report does not"
        ),
        *_moves_from(
            _OPEN, "fail", _S.DONE, "the daemon", "its agent, or a task that it depends on, ended"
        ),
        *_moves_from(_OPEN, "drop", _S.CANCELLED, "the canceller", "nothing of it runs"),
        *_moves_from(
            _WORKING, "stop", _S.STOPPING, "the canceller, or the clock", "its work is ended"
        ),
        Transition(
            _S.STOPPING,
            "stopped",
            _S.CANCELLED,
            "the assignee, or the daemon",
            "cancelled, and its work is over",
        ),
        Transition(
            _S.STOPPING,
            "expired",
            _S.DONE,
            "the assignee, or the daemon",
            "out of time, and its work is over",
        ),
    ),
)

# What A2A calls these states (row T15; https://a2a-protocol.org): many to one. Of a task that is
# done A2A asks how: `failed` where its result is neither success nor partial.
A2A: Final[Mapping[TaskState, str]] = MappingProxyType({
    _S.QUEUED: "submitted",
    _S.WAITING: "submitted",
    _S.PENDING_DELEGATION: "working",
    _S.IN_PROGRESS: "working",
    _S.AWAITING_PLAN_APPROVAL: "input-required",
    _S.AWAITING_MORE_INFORMATION: "input-required",
    _S.AWAITING_JUDGEMENT: "working",
    _S.STOPPING: "working",
    _S.DONE: "completed",
    _S.CANCELLED: "canceled",
})  # fmt: skip


def a2a_state(task: Task) -> str:
    """The state of this task in terms of A2A."""
    if task.state is TaskState.DONE and task.result is not None and task.result.status not in WELL:
        return "failed"
    return A2A[task.state]


@dataclass(frozen=True, slots=True)
class TaskRequest:
    """A task as it is requested. `after`: ids of the tasks that must succeed first.

    `requeue`: number of retries when its agent exits. `soft` and `deadline` are seconds of work: 0
    is none, and None the setting. `manager`: a new manager, which has to delegate first. `batch`:
    id of the batch that it belongs to. `context`: keep or clear what its agent remembers of earlier
    tasks; empty: default of the agent. `budget`: amounts of its own budget (tokens, cost); without
    one the budget of its agent pays. `hops`: those of the message that offers it. `without_tools`:
    tools that its agent lacked a credential for when it was assigned. `traceparent`: the span of
    another program that it was assigned in. `criteria`: what its result has to meet
    (`SuccessCriteria`); empty: the report ends it.
    """

    description: str
    data: Mapping[str, object] | None = None
    title: str = ""
    requeue: int = 0
    plan_required: bool = False
    soft: float | None = None
    deadline: float | None = None
    after: tuple[str, ...] = ()
    artifacts: tuple[str, ...] = ()
    thread: str = ""
    priority: int = 2
    part_of: str = ""
    manager: bool = False
    batch: str = ""
    context: str = ""
    budget: Mapping[str, int] = field(default_factory=dict)
    hops: int = 0
    without_tools: tuple[str, ...] = ()
    traceparent: str = ""
    criteria: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TaskResult:
    """The one report of a task. The agent reports `tokens` and `cost` (in millionths)."""

    status: ResultStatus
    summary: str = ""
    data: Mapping[str, object] | None = None
    error: str = ""
    artifacts: tuple[str, ...] = ()
    tokens: int | None = None
    cost: int | None = None


@dataclass(frozen=True, slots=True)
class Task:
    """One row. Parties are UUID texts, the assigner may be `operator`; times since 1970.

    `number` counts all tasks in the order of their creation. `attempt`: how often it was offered to
    its agent. `message`: the letter that offers it; empty: not offered. `started`: when the agent
    first began it. `plan`: the approved plan. `left`: seconds until its deadline, while its clock
    stands. `stop`: the status with which it will end, while it is stopping.
    """

    number: int
    id: str
    assignee: str
    assigner: str
    request: TaskRequest
    state: TaskState
    created: float
    attempt: int = 0
    started: float | None = None
    ended: float | None = None
    soft_at: float | None = None
    hard_at: float | None = None
    left: float | None = None
    stop: str = ""
    stop_at: float | None = None
    message: str = ""
    plan: str = ""
    why: str = ""
    percent: int | None = None
    progress: str = ""
    version: int = 0
    result: TaskResult | None = None

    @property
    def open(self) -> bool:
        return self.state not in FINALS

    @property
    def begun(self) -> bool:
        """Whether its agent has begun it; before that nothing of it runs.

        A new manager may have begun before its first sub-task.
        """
        if self.state is TaskState.PENDING_DELEGATION:
            return self.started is not None
        return self.state in ACTIVE

    @property
    def is_delivered(self) -> bool:
        """Whether its result waits for a verdict."""
        return self.state in DELIVERED

    @property
    def held(self) -> bool:
        """Whether its agent may work on it: it was offered, and has not ended."""
        return self.open and bool(self.message)

    @property
    def offered(self) -> bool:
        """Whether its agent was offered it and has not begun it."""
        return self.held and not self.begun

    @property
    def locked(self) -> str:
        """Why the work on it may not go on yet; empty: it may."""
        if self.state is TaskState.AWAITING_PLAN_APPROVAL:
            return f"the plan of task {self.id} is not approved yet"
        if self.held and self.request.plan_required and not self.plan:
            return f"task {self.id} needs an approved plan first"
        return ""

    @property
    def label(self) -> str:
        """A few words about the task: its title, or the beginning of its text."""
        text = self.request.title or self.request.description.strip().partition("\n")[0]
        return text if len(text) <= _WORDS else text[: _WORDS - 3] + "..."


_WORDS: Final = 60
