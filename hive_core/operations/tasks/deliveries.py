"""Results that wait for a verdict: requests to the judge, and results of early ends."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from hive_core.broker.call import Call
from hive_core.broker.hooks import TaskEnded, on
from hive_core.model.wire.record import OPERATOR
from hive_core.model.work.judgement import ResultVerdict
from hive_core.model.work.task import ResultStatus, Task, TaskResult
from hive_core.operations.notices import inbox
from hive_core.operations.tasks.notices import notify_assigner, party_name, send_daemon_mail

JUDGE: Final = "judge"


def request_judgement(call: Call, task: Task) -> Task:
    """Ask the assigner for a verdict: its session, or, where it has none, the assigner itself."""
    name = OPERATOR if task.assigner == OPERATOR else call.hive.name(task.assigner)
    letter = ""
    if name and name != OPERATOR and call.hive.spec(name).runtime is not None:
        letter = send_daemon_mail(call, name, JUDGE, _request_text(task))
    call.ledger.tasks.judgements.set_letter(task.id, task.assigner, letter)
    who = party_name(call, task.assigner)
    if name == OPERATOR:
        why = "waits for the verdict of the operator"
    elif letter:
        why = f"waits for the judge of {who}"
    else:
        why = f"no judge: {who} decides with judge_task"
    task = call.ledger.tasks.update(task.id, why=why)
    if not letter:
        notify_assigner(call, task)
    return task


def renew_request(call: Call, task: Task) -> None:
    """Ask the new assigner of a task whose result waits for a verdict."""
    if task.is_delivered:
        withdraw_request(call, task.id)
        request_judgement(call, task)


def withdraw_request(call: Call, task: str) -> None:
    """Withdraw the unread message that asks for a verdict."""
    delivery = call.ledger.tasks.judgements.delivery(task)
    if delivery is None or not delivery.letter:
        return
    if call.ledger.messages.untaken(delivery.asked, delivery.letter):
        call.ledger.messages.ack(delivery.asked, [delivery.letter])
        call.notify(inbox(delivery.asked))


def early_result(call: Call, task: Task, status: ResultStatus, why: str) -> TaskResult:
    """The result of a task that ends without a verdict: what was delivered, as not accepted."""
    delivery = call.ledger.tasks.judgements.delivery(task.id)
    if delivery is None:
        return TaskResult(status, error=why)
    return replace(delivery.result, status=status, error=f"{why}; its result was not accepted")


def is_left_to_assigner(call: Call, task: Task) -> bool:
    """Whether no judge decides on the present result: none was asked, or it has escalated."""
    delivery = call.ledger.tasks.judgements.delivery(task.id)
    if delivery is None or not delivery.letter:
        return delivery is not None
    verdicts = call.ledger.tasks.judgements.of(task.id)
    return any(
        row.attempt == task.attempt and row.verdict is ResultVerdict.ESCALATE for row in verdicts
    )


@on(TaskEnded)
def forget_delivery(call: Call, event: TaskEnded) -> None:
    """Forget what waited for a verdict."""
    withdraw_request(call, event.id)
    call.ledger.tasks.judgements.remove_delivery(event.id)


def _request_text(task: Task) -> str:
    return (
        f"task: {task.id}\nattempt: {task.attempt}\n\nIts result waits for a verdict: judge_task"
        f" {task.id}. get_task shows the result and what it has to meet."
    )
