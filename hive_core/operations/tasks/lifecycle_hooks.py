"""What becomes of tasks when a machine starts or ends, and when an agent is destroyed (row T13).

What an agent had begun is lost with its machine: it ends, or is done again where its assigner asked
for that. What it had not begun waits, as its mail does, as long as somebody may start the agent
again; it ends with one that crashed and stays down, and when its letter is a dead one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hive_core.broker.call import Call, Record
from hive_core.broker.delegation import call_as
from hive_core.broker.hooks import AgentDestroyed, AgentEnded, AgentStarted, MessageGivenUp, when
from hive_core.broker.operation import Result
from hive_core.broker.timers import due
from hive_core.errors import HiveError
from hive_core.ledger.tasks.end_in_batches import Handover, Sweep
from hive_core.model.agents.hive import Hive
from hive_core.model.wire.record import DAEMON, OPERATOR
from hive_core.model.work.task import ResultStatus, Task, TaskResult, TaskState
from hive_core.operations.plans.requests import take_back
from hive_core.operations.tasks.end_in_batches import swept
from hive_core.operations.tasks.notices import correct_news, news
from hive_core.operations.tasks.offers import TASK, start_next, takes, withdraw
from hive_core.operations.tasks.steps import held_by, log, topic
from hive_core.operations.tasks.transitions import AT_ONCE, end, move

HEIRS: Final = "heirs"


@when(AgentStarted)
def given_at_start(call: Call, what: AgentStarted) -> frozenset[str]:
    """A machine that is up is given what its agent has room for."""
    return start_next(call, what.uuid)


@when(AgentEnded)
def ended_with_machine(call: Call, what: AgentEnded) -> frozenset[str]:
    """Each task of an agent whose machine ended goes its way."""
    why = f"{what.name} {'was ended' if what.asked else 'ended'}: {what.reason}"
    tasks, down = call.ledger.tasks, not (what.asked or what.returns)
    held, waiting = tasks.offered_tasks(what.uuid), list[Task]()
    if down:
        waiting = [each for each in tasks.open_tasks(what.uuid) if not each.begun]
    # A restart that takes away access is nobody's try.
    revoked = call.ledger.revocations.is_restart_requested(
        what.uuid, int(str(what.fields.get("nonce", 0)))
    )
    lost = [*waiting, *(each for each in held if each.begun and not revoked)]
    refused, started = _started(call, what.name, lost) if down else ("", frozenset[str]())
    # What was not given yet comes first, or it would be given when another one ends.
    topics, gone = {*started, *_never(call, waiting, why, refused)}, {each.id for each in lost}
    for task in _still_open(call, held):
        if task.state is TaskState.STOPPING:
            topics |= confirmed(call, task, TaskResult(ResultStatus.STOPPED))[1]
        elif task.id in gone:
            topics |= _lost(call, task, why, refused)
        elif task.begun:
            call.ledger.messages.ack(task.assignee, [task.message])
            untried = task.attempt - 1
            topics |= move(call, task, "hand_back", why=why, message="", attempt=untried)[1]
        elif task.offered and not _lies_ready(call, task, what):
            topics |= withdraw(call, task, why)[1]
    return frozenset(topics) | start_next(call, what.uuid)


@when(MessageGivenUp)
def letter_given_up(call: Call, what: MessageGivenUp) -> frozenset[str]:
    """A task is lost whose letter does not come again, unless its agent has begun it."""
    letter = what.message
    if letter.sender != DAEMON or letter.kind != TASK:
        return frozenset()
    held = call.ledger.tasks.offered_tasks(letter.recipient)
    task = next((each for each in held if each.offered and each.message == letter.id), None)
    if task is None:
        return frozenset()
    why = f"{letter.recipient_name} gave it up: {letter.dead_why}"
    return _lost(call, task, why, "") | start_next(call, task.assignee)


@when(AgentDestroyed)
def ended_with_agent(call: Call, what: AgentDestroyed) -> frozenset[str]:
    """What a destroyed agent had to do ends; what it gave to others belongs to who is above it."""
    topics = set[str]()
    why = f"{what.name} was destroyed"
    tasks = call.ledger.tasks
    sweep = Sweep(call.uuid, call.caller, ResultStatus.FAILED, why)
    # Most of them go on waiting for their end a little: nothing is begun of one who is gone.
    topics |= swept(call, sweep, call.ledger.plans.sweeps.open_tasks([what.uuid]).waiting)
    for task in _still_open(call, tasks.begun_tasks(what.uuid)):
        if task.state is TaskState.STOPPING:
            topics |= confirmed(call, task, TaskResult(ResultStatus.STOPPED))[1]
        else:
            topics |= end(call, task, "fail", TaskResult(ResultStatus.FAILED, error=why))[1]
    return frozenset(topics) | _inherited(call, what)


def given_on(call: Call, hive: Hive, agent: str) -> frozenset[str]:
    """An agent was moved: what it has from one who is not above it any more has another giver."""
    after = call._replace(hive=hive)
    topics = set[str]()
    for name in hive.topology.subtree(agent):
        for task in call.ledger.tasks.open_tasks(hive.spec(name).id):
            holder = held_by(after, task)
            if holder != task.assigner:
                topics |= _handed_on(
                    after, task, holder, f"{agent} was moved: its task is yours now"
                )
    return frozenset(topics)


def _handed_on(call: Call, task: Task, holder: str, why: str) -> frozenset[str]:
    found = call.ledger.tasks.update(task.id, assigner=holder, why=why)
    log(call, found, "inherit", why)
    topics = news(call, found) | {topic(task.id), "events"}
    topics |= correct_news(call, task.assigner, task.id, known=True)
    return topics | take_back(call, task.id)


def confirmed(call: Call, task: Task, partial: TaskResult) -> tuple[Task, frozenset[str]]:
    """The work on a task that was stopping is over; what there was of it is kept."""
    status = ResultStatus(task.stop)
    result = TaskResult(
        status, partial.summary, partial.data, task.why, partial.artifacts, partial.tokens,
        partial.cost,
    )  # fmt: skip
    return end(call, task, "stopped" if status is ResultStatus.STOPPED else "expired", result)


def _still_open(call: Call, tasks: list[Task]) -> Iterator[Task]:
    """Each as it is when its turn has come: the end of one may be that of another."""
    for each in tasks:
        now = call.ledger.tasks.require(each.id)
        if now.open:
            yield now


def _lies_ready(call: Call, task: Task, what: AgentEnded) -> bool:
    """Whether its letter is there for the next start of the agent, as nobody has read it."""
    if not (what.returns or takes(call, what.name)):
        return False
    return call.ledger.messages.untaken(task.assignee, task.message)


def _again(task: Task) -> bool:
    """Whether its assigner asked for another try, and it has one left."""
    return task.request.requeue >= max(task.attempt, 1)


def _lost(call: Call, task: Task, why: str, refused: str) -> frozenset[str]:
    """Done again, or ended."""
    if refused or not _again(task):
        error = f"{why}; {refused}" if refused and _again(task) else why
        return end(call, task, "fail", TaskResult(ResultStatus.FAILED, error=error))[1]
    again = f"{why}; try {task.attempt + 1} of {task.request.requeue + 1}"
    if task.offered:
        return withdraw(call, task, again, tried=True)[1]
    return move(call, task, "hand_back", why=again, message="")[1]


def _never(call: Call, waiting: list[Task], why: str, refused: str) -> frozenset[str]:
    """What was not begun ends, but for what its assigner wants another try of, if there is one."""
    once = [each.id for each in waiting if not _again(each)]
    again = [each.id for each in waiting if refused and _again(each)]
    topics = frozenset[str]()
    for error, found in ((why, once), (f"{why}; {refused}", again)):
        topics |= swept(call, Sweep(call.uuid, call.caller, ResultStatus.FAILED, error), found)
    return topics


def _started(call: Call, name: str, lost: list[Task]) -> tuple[str, frozenset[str]]:
    """Who asked for another try starts the agent that stays down, if it still may: or why not."""
    again = next((task for task in lost if _again(task) and task.open), None)
    if again is None:
        return "", frozenset()
    try:
        found = call_as(call, held_by(call, again), "restart", {"agent": name})
    except HiveError as error:
        return f"it cannot be started again: {error.reason}", frozenset()
    return "", found.wakes if isinstance(found, Record) else frozenset()


def _inherited(call: Call, what: AgentDestroyed) -> frozenset[str]:
    parent = call.hive.topology.parent(what.name)
    heir = OPERATOR if parent is None else call.hive.spec(parent).id
    why = f"{what.name} was destroyed: its task is yours now"
    found = call.ledger.tasks.reassign_all(what.uuid, heir, why)
    handing, later = Handover(call.uuid, call.caller, why), found[AT_ONCE:]
    call.ledger.plans.sweeps.add_handovers(handing, later)
    told = (_told(call, each, handing) for each in found[:AT_ONCE])
    return frozenset({HEIRS} if later else ()).union(*told)


@due(
    at=lambda ledger: 0.0 if ledger.plans.sweeps.has_handovers else None, topics=frozenset({HEIRS})
)
def heirs_are_told(call: Call) -> Record[Result]:
    """Of more tasks that are theirs, each with a line in its history."""
    found = call.ledger.plans.sweeps.take_handovers(AT_ONCE)
    topics = frozenset({HEIRS}).union(*(_told(call, *each) for each in found))
    return Record(Result(), topics, audited=True)


def _told(call: Call, id_: str, handing: Handover) -> frozenset[str]:
    task = call.ledger.tasks.get(id_)
    if task is None or not task.open:
        return frozenset()
    theirs = call._replace(caller=handing.name, uuid=handing.party)
    log(theirs, task, "inherit", handing.why)
    return news(theirs, task) | {topic(task.id), "events"}
