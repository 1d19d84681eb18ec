"""The activity of an agent: idle, running or blocked; each change is one event (row K5).

It follows from what is open: a parked wait, a task, a question; and from what a session reports.
Code that changes one of these calls `update_activity`.
"""

from __future__ import annotations

from hive_core.broker.call import Call
from hive_core.ledger.audit.events import AuditEntry
from hive_core.ledger.core.ledger import Ledger
from hive_core.model.agents.exits import Activity
from hive_core.model.wire.record import DAEMON, OPERATOR
from hive_core.model.work.task import AWAITING


def update_activity(call: Call, uuid: str) -> None:
    """Record the activity of an agent, with an event, if it has changed."""
    name = call.hive.name(uuid)
    if uuid == OPERATOR or name is None:
        return
    before, (now, tasks) = call.ledger.lives.activity(uuid), current_activity(call.ledger, uuid)
    if before == now:
        return
    call.ledger.lives.set_activity(uuid, now)
    call.ledger.events.append(AuditEntry(
        kind="activity", caller=DAEMON, operation="watch", target=uuid, allowed=None, rule="",
        reason=f"{name} is {now}", commit=call.hive.commit, request=call.request, now=call.now,
        fields={"target_name": name, "from": before, "to": now.value, "tasks": tasks},
    ))  # fmt: skip
    call.notify(f"activity:{uuid}", "events")


def current_activity(ledger: Ledger, uuid: str) -> tuple[Activity, list[str]]:
    """The activity of the agent, and the tasks that it has begun and not ended."""
    begun = ledger.tasks.begun_tasks(uuid)
    tasks = [task.id for task in begun]
    if ledger.plans.is_waiting(uuid) or ledger.lives.blocked_reason(uuid):
        return Activity.BLOCKED, tasks
    if any(task.state not in AWAITING for task in begun):
        return Activity.RUNNING, tasks
    blocked = bool(begun) or ledger.questions.has_open_question(uuid)
    return (Activity.BLOCKED if blocked else Activity.IDLE), tasks
