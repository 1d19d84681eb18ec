"""The letters of tasks, and the news that an assigner gets about its tasks.

The news is one message with the state of all tasks of the assigner. Until the assigner receives the
message, a newer one replaces it, at most once in `MOMENT`. So 64 tasks that end together make one
or two messages. An unread message is never out of date: the daemon rewrites or withdraws it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from math import inf
from typing import Final, Unpack

from hive_core.broker.call import Call, Record
from hive_core.broker.operation import Result
from hive_core.broker.timers import due
from hive_core.errors import InboxFull
from hive_core.ledger.mail.letters import NewMessage
from hive_core.ledger.mail.posting import one_line
from hive_core.ledger.tasks.notices import TASKS_PER_MESSAGE, NewsState
from hive_core.model.wire.record import DAEMON, OPERATOR, Relation
from hive_core.model.wire.trace_context import TraceParent, attempt_span
from hive_core.model.work.judgement import ResultVerdict
from hive_core.model.work.task import Task
from hive_core.operations.approvals.outcome import display_name
from hive_core.operations.notices import PRIORITY, More, deliver, inbox
from hive_core.operations.questions.letters import quote_lines
from hive_core.operations.tasks.spend import task_spend

TASKS: Final = "tasks"
MOMENT: Final = 0.1  # seconds between two messages to the same assigner
_AT_ONCE: Final = 50
# Bounds of the lines in a message, so that a whole notice stays far below the bound of a message.
_SUMMARY: Final = 400
SHOWN: Final = 64


def task_letter(call: Call, task: Task) -> str:
    """The body of the letter to the assignee: a head of `key: value` lines, then text and data."""
    request = task.request
    parts = ["\n".join(_letter_head(call, task)), request.description]
    if request.data is not None:
        parts.append(f"data:\n{json.dumps(dict(request.data), indent=1, ensure_ascii=False)}")
    parts.extend(_feedback_before(call, task))
    parts.extend(_results_before(call, request.after))
    return "\n\n".join(parts)


def task_traceparent(call: Call, task: Task) -> str:
    """What the work on the task hands on, so that spans of other programs belong to its trace."""
    trace = call.ledger.events.traces.of(task.id)
    return str(TraceParent(trace, attempt_span(task.id, max(1, task.attempt))))


def _letter_head(call: Call, task: Task) -> list[str]:
    request, plan = task.request, ""
    if request.plan_required:
        plan = f"{task.plan} is approved" if task.plan else "required"
    fields = {
        "task": task.id, "attempt": str(task.attempt), "from": party_name(call, task.assigner),
        "title": one_line(request.title),
        "deadline": f"{request.deadline:g} s" if request.deadline else "",
        "budget": ", ".join(f"{amount} {kind}" for kind, amount in request.budget.items()),
        "part_of": request.part_of, "traceparent": task_traceparent(call, task),
        "artifacts": one_line(" ".join(request.artifacts)),
        "plan": plan, "context": request.context,
        "without": f"{', '.join(request.without_tools)}, for want of a credential"
        if request.without_tools else "",
    }  # fmt: skip
    return [f"{key}: {value}" for key, value in fields.items() if value or key == "from"]


def _feedback_before(call: Call, task: Task) -> Iterator[str]:
    """What the task has to meet, and why an earlier result was not accepted."""
    if text := str(task.request.criteria.get("text") or ""):
        yield "\n".join(("its result has to meet:", *quote_lines(text)))
    for judgement in call.ledger.tasks.judgements.of(task.id):
        if judgement.verdict is ResultVerdict.RETRY and judgement.feedback:
            head = f"the result of attempt {judgement.attempt} was not accepted:"
            yield "\n".join((head, *quote_lines(judgement.feedback)))


def _results_before(call: Call, after: Sequence[str]) -> list[str]:
    """A paragraph with the results of the tasks that this one waited for.

    Empty without such tasks.
    """
    tasks = [task for id_ in after if (task := call.ledger.tasks.get(id_)) is not None]
    if not tasks:
        return []
    return ["\n".join(("results before this:", *(task_line(call, task) for task in tasks)))]


def task_line(call: Call, task: Task) -> str:
    """One line about a task: `3f2a... worker [what it is about] done, success: "..."`."""
    state = task.state.value.replace("_", " ")
    result = task.result
    if result is not None:
        summary = _excerpt(result.summary or result.error)
        spend = task_spend(call, task).text(call.settings.budgets.currency)
        state = f"{state}, {result.status}{f' ({spend})' if spend else ''}"
        state += f": {summary}" if summary else ""
    elif task.why:
        state = f"{state}: {_excerpt(task.why)}"
    elif task.progress:
        state = f"{state}, {'' if task.percent is None else f'{task.percent} % '}{task.progress}"
    # Text of agents is made one line, since the next line is about another task.
    return one_line(f"{task.id} {display_name(call, task.assignee)} [{task.label}] {state}")


def board_text(call: Call, changed: Iterable[Task], some: Sequence[Task], count: int) -> str:
    """The lines of changed tasks, then of open tasks: `some` of them, `count` in all."""
    lines = [task_line(call, task) for task in changed]
    ids = {line.partition(" ")[0] for line in lines}
    rest = [task_line(call, task) for task in some if task.id not in ids]
    left = count - sum(task.id in ids for task in some)
    body = ["changed:", *lines[-SHOWN:]]
    if len(lines) > SHOWN:
        body.insert(1, f"({len(lines) - SHOWN} more before these)")
    body.append(f"\nopen: {count}")
    body += rest[:SHOWN]
    if left > SHOWN:
        body.append(f"({left - SHOWN} more)")
    return "\n".join(body)


def party_name(call: Call, party: str) -> str:
    """The name of an agent, also of a destroyed one, or `operator`."""
    return party if party == OPERATOR else display_name(call, party)


def _excerpt(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= _SUMMARY else f"{words[:_SUMMARY]}..."


class NewsSent(Result):
    """Number of assigners that got a message."""

    assigners: int


def notify_assigner(call: Call, task: Task) -> None:
    """Tell the assigner the state of the task, now or at the end of the current moment."""
    party, store = task.assigner, call.ledger.tasks.news
    if store.add(party, task.id, call.now, MOMENT):
        call.notify(f"task_news:{party}")
        return
    news = store.get(party)
    pending = (*(id_ for id_ in news.pending if id_ != task.id), task.id)[-TASKS_PER_MESSAGE:]
    _send_news(call, news._replace(pending=pending))


def correct_news(call: Call, party: str, task: str, *, forget: bool) -> None:
    """Rewrite an unread message after a step about which the assigner gets no message.

    `forget`: leave the task out, because the party took the step itself, or the task has another
    assigner now.
    """
    before = call.ledger.tasks.news.get(party)
    news = before
    if forget:
        news = news._replace(
            in_message=tuple(id_ for id_ in news.in_message if id_ != task),
            pending=tuple(id_ for id_ in news.pending if id_ != task),
        )
    if news.message and call.ledger.messages.untaken(party, news.message):
        news = news._replace(due=min(news.due or inf, max(call.now, news.at + MOMENT)))
    if news != before:
        call.ledger.tasks.news.save(news)
        call.notify(f"task_news:{party}")


def forget_end(call: Call, party: str, id_: str) -> bool:
    """Leave a task that has ended out of the news of its assigner. The assigner has seen the end.

    Return whether the news had it.
    """
    task, news = call.ledger.tasks.get(id_), call.ledger.tasks.news.get(party)
    is_told = id_ in (*news.in_message, *news.pending)
    if task is None or task.assigner != party or task.ended is None or not is_told:
        return False
    correct_news(call, party, id_, forget=True)
    return True


@due(at=lambda ledger: ledger.tasks.news.next_due(), topics=frozenset({"task_news"}))
def task_news(call: Call) -> Record[NewsSent]:
    """Send the messages that are due."""
    assigners = call.ledger.tasks.news.due_assigners(call.now, _AT_ONCE)
    for party in assigners:
        _send_news(call, call.ledger.tasks.news.get(party))
    return Record(NewsSent(assigners=len(assigners)))


def _send_news(call: Call, news: NewsState) -> None:
    """Send one message, in place of the unread one."""
    party, tasks, mail = news.assigner, call.ledger.tasks, call.ledger.messages
    name = OPERATOR if party == OPERATOR else call.hive.name(party)
    if name is None:
        tasks.news.save(NewsState(party, at=call.now))
        return
    unread = bool(news.message) and mail.untaken(party, news.message)
    if unread:
        mail.ack(party, [news.message])
    before = (id_ for id_ in news.in_message if unread and id_ not in news.pending)
    ids = (*before, *news.pending)[-TASKS_PER_MESSAGE:]
    changed = [task for id_ in ids if (task := tasks.get(id_)) and task.assigner == party]
    if not changed:
        tasks.news.save(NewsState(party, at=news.at))
        call.notify(inbox(party))
        return
    count = tasks.count_open("assigner", party)
    body = board_text(call, changed, tasks.tasks_from(party, 2 * SHOWN), count)
    message = send_daemon_mail(call, name, TASKS, body)
    tasks.news.save(NewsState(party, message, ids, at=call.now))


def send_daemon_mail(call: Call, name: str, kind: str, body: str, **more: Unpack[More]) -> str:
    """Send a notice; return the id of the message, empty when the inbox is full."""
    try:
        return deliver(call, daemon_letter(call, name, kind, body, **more)).id
    except InboxFull:
        return ""


def daemon_letter(call: Call, name: str, kind: str, body: str, **more: Unpack[More]) -> NewMessage:
    """A message of the daemon to an agent, or to the operator."""
    uuid = OPERATOR if name == OPERATOR else call.hive.spec(name).id
    return NewMessage(
        sender=DAEMON, sender_name=DAEMON, recipient=uuid, recipient_name=name,
        relation=Relation.DAEMON, body=body, kind=kind, priority=more.get("priority", PRIORITY),
        thread=more.get("thread") or None, hops=more.get("hops", 0),
    )  # fmt: skip
