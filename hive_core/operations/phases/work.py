"""The run of a colony: its tasks and batches, and what happens when the last of them has ended."""

from __future__ import annotations

from typing import Final

from hive_core.broker.call import Call, Record
from hive_core.broker.hooks import AgentDestroyed, BatchEnded, TaskEnded, on
from hive_core.broker.operation import Result
from hive_core.broker.timers import due
from hive_core.ledger.mail.posting import one_line
from hive_core.ledger.phases.storage import PhaseWork
from hive_core.model.agents.phase import PhaseCause, QueenPhase
from hive_core.operations.approvals.outcome import display_name
from hive_core.operations.phases.transitions import PhaseStep, move_phase

_LINES: Final = 32
_SUMMARY: Final = 200


def note_work(call: Call, queen: str, work: str, title: str) -> None:
    """Count a task or batch of a queen (a UUID) into the present run of her colony, if one runs."""
    name = call.hive.name(queen)
    if name is None or not call.hive.spec(name).has_phases:
        return
    if call.ledger.phases.get(queen).phase is QueenPhase.RUNNING:
        call.ledger.phases.add_work(PhaseWork(work, queen, one_line(title)[:_SUMMARY]))


@on(TaskEnded)
def end_run_with_last_task(call: Call, event: TaskEnded) -> None:
    """Move the queen to editing when this was the last work of her run (row Q7)."""
    work = call.ledger.phases.find_work(event.id)
    if work is not None:
        task = call.ledger.tasks.require(event.id)
        result = task.result
        summary = one_line(result.summary or result.error)[:_SUMMARY] if result else ""
        agent = display_name(call, event.assignee)
        _end_work(call, work, f"task {event.id} ({agent}): {event.status}: {summary}")


@on(BatchEnded)
def end_run_with_last_batch(call: Call, event: BatchEnded) -> None:
    """The same for a batch. Its tasks do not belong to the run one by one."""
    work = call.ledger.phases.find_work(event.id)
    if work is not None:
        _end_work(call, work, f"batch {event.id}: {event.state}")


@on(AgentDestroyed)
def close_destroyed_colony(call: Call, event: AgentDestroyed) -> None:
    """Have a colony closed whose agent is destroyed, after all else that this ends."""
    call.ledger.phases.delete(event.uuid)
    queen = call.ledger.phases.queen_of_colony(event.uuid)
    if queen is not None:
        call.ledger.phases.close_at(queen, call.now)
        call.notify(f"phase:{queen}")


@due(at=lambda ledger: ledger.phases.next_close(), topics=frozenset({"phase"}))
def close_due_colony(call: Call) -> Record[Result]:
    """Close a colony whose agent was destroyed."""
    queen = call.ledger.phases.closing(call.now)
    name = None if queen is None else call.hive.name(queen)
    if name is None:
        if queen is not None:
            call.ledger.phases.delete(queen)
        return Record(Result())
    move_phase(
        call, name, PhaseStep(QueenPhase.INDEPENDENT, PhaseCause.SYSTEM),
        "the agent of your colony is gone",
        colony="", goal="", criteria="", constraints="",
    )  # fmt: skip
    return Record(Result())


def _end_work(call: Call, work: PhaseWork, outcome: str) -> None:
    if work.outcome:
        return
    call.ledger.phases.end_work(work.work, outcome)
    rows = call.ledger.phases.work_of(work.agent)
    queen = call.hive.name(work.agent)
    if queen is None or any(not row.outcome for row in rows):
        return
    lines = [f"{row.outcome}" for row in rows][-_LINES:]
    text = "\n".join(["the run of your colony is over", *lines])
    move_phase(call, queen, PhaseStep(QueenPhase.EDITING, PhaseCause.SYSTEM), text)
