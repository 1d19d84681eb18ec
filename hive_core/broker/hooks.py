"""Events in the life of agents, messages and tasks, and the handlers that each noun registers.

Handlers write in the transaction of the event. So a task cannot outlive its assignee, even if the
daemon ends in between.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

from hive_core.model.wire.record import Message
from hive_core.model.work.question import Question

if TYPE_CHECKING:
    from hive_core.broker.call import Call
    from hive_core.broker.operation import Params
    from hive_core.errors import HiveError


@dataclass(frozen=True, slots=True)
class AgentStarted:
    """The machine of an agent runs; `nonce` tells this start from others."""

    uuid: str
    name: str
    nonce: int


@dataclass(frozen=True, slots=True)
class AgentEnded:
    """The machine of an agent ended: by itself, by a failure, or on request.

    `code` is the exit status, None where there is none (a signal, a host that went down).
    `asked`: stop, kill, sleep or restart; `wanted` is what the agent should be now. `returns`: it
    is started again by itself.
    """

    uuid: str
    name: str
    code: int | None
    reason: str
    clean: bool
    asked: bool
    wanted: str
    returns: bool = False
    fields: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True)
class AgentDestroyed:
    """An agent is destroyed by this call; `call.hive` still has it, with its old place."""

    uuid: str
    name: str


@dataclass(slots=True)
class MessageArrived:
    """A message was put into an inbox. Not frozen: there is one for each message."""

    message: Message


@dataclass(frozen=True, slots=True)
class MessageGivenUp:
    """A message became a dead letter: its agent gave it up, or did not ack it in all attempts."""

    message: Message


@dataclass(frozen=True, slots=True)
class TaskEnded:
    """A task has ended. Parties are UUIDs (or `operator`); `status` is that of its result."""

    id: str
    assignee: str
    assigner: str
    status: str


@dataclass(frozen=True, slots=True)
class BatchEnded:
    """All tasks of a batch have ended; `state` is its final state."""

    id: str
    owner: str
    state: str


@dataclass(frozen=True, slots=True)
class TaskHandedBack:
    """A begun task is queued again: its agent ended, and another attempt follows."""

    id: str
    why: str


@dataclass(frozen=True, slots=True)
class QuestionSettled:
    """A question or an escalation has ended; `question` is its final state."""

    question: Question


@dataclass(frozen=True, slots=True)
class CallRefused:
    """A handler refused a call that would have recorded something; nothing of it is recorded."""

    operation: str
    params: Params
    error: HiveError


Event = (
    AgentStarted
    | AgentEnded
    | AgentDestroyed
    | MessageArrived
    | MessageGivenUp
    | TaskEnded
    | BatchEnded
    | TaskHandedBack
    | QuestionSettled
    | CallRefused
)
E = TypeVar(
    "E",
    AgentStarted,
    AgentEnded,
    AgentDestroyed,
    MessageArrived,
    MessageGivenUp,
    TaskEnded,
    BatchEnded,
    TaskHandedBack,
    QuestionSettled,
    CallRefused,
)
Handler = Callable[["Call", E], None]
HANDLERS: defaultdict[type, list[Handler[Any]]] = defaultdict(list)


def on(kind: type[E]) -> Callable[[Handler[E]], Handler[E]]:
    """Register a handler of an event: it writes rows and notifies topics in the same transaction.

    No handler may depend on the order in which the handlers of an event run.
    """

    def register(handler: Handler[E]) -> Handler[E]:
        HANDLERS[kind].append(handler)
        return handler

    return register


def emit(call: Call, event: Event) -> None:
    """Run every handler of this event."""
    for handler in HANDLERS[type(event)]:  # runs for each message, so it must be cheap
        handler(call, event)
