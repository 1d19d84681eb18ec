"""Figures for Prometheus, worked out when somebody asks. No label names a task or a message."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import accumulate, islice
from math import inf
from typing import Final

from pydantic import Field

from hive_core.broker.call import Call
from hive_core.broker.happening import Arrived, Ended, TaskEnded, when
from hive_core.broker.operation import Params, Result, operation
from hive_core.model.record import DAEMON, OPERATOR
from hive_core.policy.rules import OPERATOR as THE_OPERATOR

# Series of one family; agents come and go, and a page has an end.
SERIES_MOST: Final = 5000
_MILLIONTHS: Final = 1e6
# Seconds that a turn of a model takes, at most, in each bucket.
BUCKETS: Final = (0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, inf)
_MESSAGES, _RESTARTS, _TASKS = "messages", "restarts", "tasks"
# Kinds that agents make up do not become labels.
_KINDS: Final = frozenset({"message", "request", "reply", "topic", "copy"})


class MetricsParams(Params):
    """Nothing: the whole page."""


class Sample(Result):
    labels: dict[str, str] = Field(description="By name.")
    value: float = Field(description="The figure.")
    suffix: str = Field("", description="Of a summary or a histogram: _count, _sum, _bucket.")


class Family(Result):
    name: str = Field(description="As Prometheus has it, without a suffix.")
    type: str = Field(description="counter, gauge, summary or histogram.")
    help: str = Field(description="What it says.")
    samples: list[Sample] = Field(description="One a series.")


class Metrics(Result):
    families: list[Family] = Field(description="By name.")


@operation(action="administer", allow=THE_OPERATOR)
def get_metrics(call: Call, _params: MetricsParams) -> Metrics:
    """Give the figures that `hive metrics` prints for Prometheus.

    Counters of messages, restarts and ended tasks begin at 0 when the daemon starts. Tokens and
    cost are sums of what the ledger still keeps.
    """
    found = (_family(call, *each) for each in _FAMILIES)
    return Metrics(families=sorted(found, key=lambda each: each.name))


@when(Arrived)
def message_counted(call: Call, what: Arrived) -> frozenset[str]:
    """Mail by kind; a kind that an agent made up counts as `other`."""
    message = what.message
    known = message.sender == DAEMON or message.kind in _KINDS
    call.ledger.events.tally.count(_MESSAGES, message.kind if known else "other")
    return frozenset()


@when(Ended)
def restart_counted(call: Call, what: Ended) -> frozenset[str]:
    if what.returns:
        call.ledger.events.tally.count(_RESTARTS, "asked" if what.asked else "failure")
    return frozenset()


@when(TaskEnded)
def task_counted(call: Call, what: TaskEnded) -> frozenset[str]:
    call.ledger.events.tally.count(_TASKS, what.status)
    return frozenset()


def turns_counted(call: Call, seconds: Iterable[float]) -> None:
    """Turns that the caller took, by its role."""
    spec = call.hive.specs.get(call.caller)
    role = "" if spec is None else spec.role.value
    for each in seconds:
        call.ledger.events.tally.turn(role, BUCKETS[bisect_left(BUCKETS, each)], each)


Samples = Iterator[tuple[dict[str, str], float, str]]


def _family(
    call: Call, name: str, kind: str, text: str, samples: Callable[[Call], Samples]
) -> Family:
    rows = [
        Sample(labels=labels, value=value, suffix=suffix)
        for labels, value, suffix in islice(samples(call), SERIES_MOST)
    ]
    return Family(name=name, type=kind, help=text, samples=rows)


def _by(label: str, counts: Mapping[str, float]) -> Samples:
    for key, value in sorted(counts.items()):
        yield {label: key}, value, ""


def _one(value: float) -> Samples:
    yield {}, value, ""


def _states(call: Call) -> Samples:
    return _by("state", Counter(call.states.state(uuid).value for uuid in call.hive.names))


def _activities(call: Call) -> Samples:
    return _by("activity", Counter(map(call.states.activity, call.hive.names)))


def _counted(name: str, label: str) -> Callable[[Call], Samples]:
    return lambda call: _by(label, call.ledger.events.tally.counted(name))


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
        sums = accumulate(turns.counts[each] for each in BUCKETS)
        for bucket, count in zip(BUCKETS, sums, strict=True):
            most = "+Inf" if bucket == inf else f"{bucket}"
            yield {"role": role, "le": most}, count, "_bucket"
        yield {"role": role}, turns.counts.total(), "_count"
        yield {"role": role}, turns.seconds, "_sum"


def _usage(kind: str, unit: float) -> Callable[[Call], Samples]:
    def samples(call: Call) -> Samples:
        sums: Counter[tuple[str, str, str, str]] = Counter()
        for uuid, model, of, source, amount in call.ledger.budgets.usage.by_model(kind):
            sums[call.hive.name(uuid) or "", model, of, source] += amount
        for (agent, model, of, source), amount in sorted(sums.items()):
            labels = {"agent": agent, "model": model, "type": of, "source": source}
            yield labels, amount / unit, ""

    return samples


_FAMILIES: Final[tuple[tuple[str, str, str, Callable[[Call], Samples]], ...]] = (
    ("hive_agents", "gauge", "Agents by the state of their machine.", _states),
    ("hive_activity", "gauge", "Agents by what they are at.", _activities),
    ("hive_messages", "counter", "Messages by kind, since the daemon started.",
     _counted(_MESSAGES, "kind")),
    ("hive_queue_depth", "gauge", "Messages that wait or are given out.", _queue),
    ("hive_dead_letters", "gauge", "Messages that were given up.", _dead),
    ("hive_tasks", "gauge", "Open tasks by state.",
     lambda call: _by("state", call.ledger.events.tally.tasks())),
    ("hive_tasks_ended", "counter", "Ended tasks by status, since the daemon started.",
     _counted(_TASKS, "status")),
    ("hive_restarts", "counter", "Machines that were started again, since the daemon started.",
     _counted(_RESTARTS, "cause")),
    ("hive_approvals_pending", "gauge", "Approvals that wait for the operator.",
     lambda call: _one(call.ledger.events.tally.approvals()[0])),
    ("hive_approval_wait_seconds", "summary", "Seconds from a request to its decision.", _waits),
    ("hive_questions_open", "gauge", "Questions and escalations without an answer.",
     lambda call: _one(call.ledger.events.tally.questions())),
    ("hive_tokens", "counter", "Tokens by agent and model, as far back as usage is kept.",
     _usage("token", 1)),
    ("hive_cost", "counter", "Cost by agent and model, in the host's currency, likewise.",
     _usage("money", _MILLIONTHS)),
    ("hive_turn_duration_seconds", "histogram",
     "Turns of models as agents report them, by role, since the daemon started.", _turns),
    ("hive_start_time_seconds", "gauge", "When the daemon started, in seconds since 1970.",
     lambda call: _one(call.states.since())),
    ("hive_events", "counter", "Number of the last event of the log.",
     lambda call: _one(call.ledger.events.last)),
    ("hive_alarms", "gauge", "What the operator has to know, by number.",
     lambda call: _one(len(call.states.alarms()))),
)  # fmt: skip
