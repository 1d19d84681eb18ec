"""Metrics for Prometheus, computed on request. No label names a task or a message."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import accumulate
from math import inf
from typing import Final

from pydantic import Field

from hive_core.broker.call import Call
from hive_core.broker.hooks import AgentEnded, MessageArrived, TaskEnded, on
from hive_core.broker.operation import Params, Result, operation
from hive_core.errors import InvalidArgument
from hive_core.model.wire.record import DAEMON, OPERATOR
from hive_core.operations.pages import Page
from hive_core.policy.rules import OPERATOR as THE_OPERATOR

# Number of agents on one page.
AGENTS: Final = 50
_MILLIONTHS: Final = 1e6
# Upper bounds of the buckets, in seconds of a turn of a model.
BUCKETS: Final = (0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, inf)
_MESSAGES, _RESTARTS, _TASKS = "messages", "restarts", "tasks"
# Kinds that become labels; those that agents invent do not.
_KINDS: Final = frozenset({"message", "request", "reply", "topic", "copy"})


class MetricsParams(Params):
    after: str | None = Field(
        None,
        pattern=r"^[0-9]{1,3}:[0-9]{1,6}$",
        description="`next` of the page before; absent: the first page.",
    )


class Sample(Result):
    labels: dict[str, str] = Field(description="Labels by name.")
    value: float = Field(description="The value.")
    suffix: str = Field("", description="For a summary or a histogram: _count, _sum, _bucket.")


class Family(Result):
    name: str = Field(description="Name in Prometheus, without a suffix.")
    type: str = Field(description="counter, gauge, summary or histogram.")
    help: str = Field(description="Description.")
    samples: list[Sample] = Field(description="The samples, one for each series.")


class Metrics(Page):
    families: list[Family] = Field(
        description="One family, or a part of it: one with samples of each agent takes several"
        " pages."
    )


@operation(action="administer", allow=THE_OPERATOR)
def get_metrics(call: Call, params: MetricsParams) -> Metrics:
    """Show the metrics that `hive metrics` prints for Prometheus.

    Counters of messages, restarts and ended tasks begin at 0 when the daemon starts. Tokens and
    cost are sums of the usage that the ledger keeps. Called with `more`, it returns all pages.
    """
    family, part = map(int, (params.after or "0:0").split(":"))
    if family >= len(_FAMILIES):
        raise InvalidArgument("is not `next` of a page", field="after")
    name, kind, text, samples = _FAMILIES[family]
    figures, whole = samples(call, part)
    rows = [
        Sample.model_construct(labels=labels, value=value, suffix=suffix)
        for labels, value, suffix in figures
    ]
    shown = Family(name=name, type=kind, help=text, samples=rows)
    following = f"{family + 1}:0" if whole else f"{family}:{part + 1}"
    last = whole and family + 1 == len(_FAMILIES)
    return Metrics(families=[shown], next=None if last else following)


@on(MessageArrived)
def count_message(call: Call, event: MessageArrived) -> None:
    """Mail by kind; a kind that an agent invented counts as `other`."""
    message = event.message
    known = message.sender == DAEMON or message.kind in _KINDS
    call.ledger.events.tally.count(_MESSAGES, message.kind if known else "other")


@on(AgentEnded)
def count_restart(call: Call, event: AgentEnded) -> None:
    if event.returns:
        call.ledger.events.tally.count(_RESTARTS, "asked" if event.asked else "failure")


@on(TaskEnded)
def count_task(call: Call, event: TaskEnded) -> None:
    call.ledger.events.tally.count(_TASKS, event.status)


def count_turns(call: Call, seconds: Iterable[float]) -> None:
    """Count turns of the caller, by its role."""
    spec = call.hive.specs.get(call.caller)
    role = "" if spec is None else spec.role.value
    for duration in seconds:
        call.ledger.events.tally.turn(role, BUCKETS[bisect_left(BUCKETS, duration)], duration)


Samples = Iterator[tuple[dict[str, str], float, str]]
# The samples of one part of a family, numbered from 0, and whether it is the last part.
Parts = Callable[[Call, int], tuple[Samples, bool]]


def _whole(samples: Callable[[Call], Samples]) -> Parts:
    return lambda call, _: (samples(call), True)


def _by(label: str, counts: Mapping[str, float]) -> Samples:
    for key, value in sorted(counts.items()):
        yield {label: key}, value, ""


def _one(value: float) -> Samples:
    yield {}, value, ""


def _states(call: Call) -> Samples:
    return _by("state", Counter(call.states.state(uuid).value for uuid in call.hive.names))


def _activities(call: Call) -> Samples:
    return _by("activity", Counter(map(call.states.activity, call.hive.names)))


def _counter(name: str, label: str) -> Callable[[Call], Samples]:
    return lambda call: _by(label, call.ledger.events.tally.counts_by_label(name))


def _queue(call: Call) -> Samples:
    size = call.ledger.messages.size
    return _one(sum(size(party)[0] for party in (OPERATOR, *call.hive.names)))


def _dead(call: Call) -> Samples:
    return _one(sum(map(call.ledger.messages.dead, (OPERATOR, *call.hive.names))))


def _waits(call: Call) -> Samples:
    _, count, seconds = call.ledger.events.tally.approvals()
    yield {}, count, "_count"
    yield {}, seconds, "_sum"


def _turns(call: Call) -> Samples:
    for role, turns in sorted(call.ledger.events.tally.turns.items()):
        sums = accumulate(turns.counts[bucket_] for bucket_ in BUCKETS)
        for bucket, count in zip(BUCKETS, sums, strict=True):
            most = "+Inf" if bucket == inf else f"{bucket}"
            yield {"role": role, "le": most}, count, "_bucket"
        yield {"role": role}, turns.counts.total(), "_count"
        yield {"role": role}, turns.seconds, "_sum"


def _usage(kind: str, unit: float) -> Parts:
    """Some agents in each part, in the order of the tree; all destroyed agents in the last part."""

    def samples(call: Call, agents: Iterable[str]) -> Samples:
        sums: Counter[tuple[str, str, str, str]] = Counter()
        for uuid, model, of, source, amount in call.ledger.budgets.usage.by_model(kind, agents):
            sums[call.hive.name(uuid) or "", model, of, source] += amount
        for (agent, model, of, source), amount in sorted(sums.items()):
            labels = {"agent": agent, "model": model, "type": of, "source": source}
            yield labels, amount / unit, ""

    def part(call: Call, number: int) -> tuple[Samples, bool]:
        names = call.hive.topology.order[AGENTS * number : AGENTS * (number + 1)]
        if names:
            return samples(call, [call.hive.spec(name).id for name in names]), False
        gone = call.ledger.budgets.usage.agents().difference(call.hive.names)
        return samples(call, gone), True

    return part


_FAMILIES: Final[tuple[tuple[str, str, str, Parts], ...]] = (
    ("hive_agents", "gauge", "Agents by the state of their machine.", _whole(_states)),
    ("hive_activity", "gauge", "Agents by activity.", _whole(_activities)),
    ("hive_messages", "counter", "Messages by kind, since the daemon started.",
     _whole(_counter(_MESSAGES, "kind"))),
    ("hive_queue_depth", "gauge", "Messages that were not acknowledged.", _whole(_queue)),
    ("hive_dead_letters", "gauge", "Dead letters.", _whole(_dead)),
    ("hive_tasks", "gauge", "Open tasks by state.",
     _whole(lambda call: _by("state", call.ledger.events.tally.tasks()))),
    ("hive_tasks_ended", "counter", "Ended tasks by status, since the daemon started.",
     _whole(_counter(_TASKS, "status"))),
    ("hive_restarts", "counter", "Machines that were started again, since the daemon started.",
     _whole(_counter(_RESTARTS, "cause"))),
    ("hive_approvals_pending", "gauge", "Approvals that wait for the operator.",
     _whole(lambda call: _one(call.ledger.events.tally.approvals()[0]))),
    ("hive_approval_wait_seconds", "summary", "Seconds from a request to its decision.",
     _whole(_waits)),
    ("hive_questions_open", "gauge", "Questions and escalations without an answer.",
     _whole(lambda call: _one(call.ledger.events.tally.questions()))),
    ("hive_tokens", "counter", "Tokens by agent and model, of the kept usage.",
     _usage("token", 1)),
    ("hive_cost", "counter", "Cost by agent and model in the host's currency, of the kept usage.",
     _usage("money", _MILLIONTHS)),
    ("hive_turn_duration_seconds", "histogram",
     "Turns of models as agents report them, by role, since the daemon started.", _whole(_turns)),
    ("hive_start_time_seconds", "gauge", "When the daemon started, in seconds since 1970.",
     _whole(lambda call: _one(call.states.since()))),
    ("hive_events", "counter", "Number of the last event of the log.",
     _whole(lambda call: _one(call.ledger.events.last))),
    ("hive_alarms", "gauge", "Number of alarms.",
     _whole(lambda call: _one(len(call.states.alarms())))),
)  # fmt: skip
