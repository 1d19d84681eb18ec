"""Usage by day and agent and by task, and the limits of tasks.

Calls and messages are counted in memory and written at most once a second. Recorded calls are in
the audit log until then, and a ledger that is opened counts them from there. So their number is
exact, however the daemon ended. For calls that only read, the last counts may be lost.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from hive_core.ledger.audit.events import AuditLog
from hive_core.ledger.core.connection import Connection
from hive_core.model.wire.record import DAEMON, OPERATOR
from hive_core.model.work.budget import BudgetKind, UsageSource

MOVED: Final[tuple[str, ...]] = (
    "UPDATE departed SET at = at + ?1",
    "UPDATE task_usage SET at = at + ?1",
    "UPDATE task_caps SET stop_at = stop_at + ?1",
)
DAY: Final = 86_400
# Agents choose names of models: so many are stored for one agent and day, the rest as `other`.
MODELS: Final = 16
OTHER: Final = "other"
# Counts are written after so many seconds, counters or events.
PAUSE: Final = 1.0
KEYS: Final = 1000
EVENTS: Final = 5000
RECORDED: Final = frozenset({"record", "change"})
UNBILLED: Final = frozenset({OPERATOR, DAEMON})
_SEND: Final = "send"
_MARK: Final = "usage_mark"
_AGAIN: Final = 60.0
PAID_KINDS: Final = frozenset({"tokens", "tokens_in", "tokens_out", "money"})
_PAGE: Final = 1000
_ALL: Final = "''"
_ADD: Final = (
    "INSERT INTO usage (day, agent, kind, source, tier, model, amount) VALUES (?, ?, ?, ?, ?, ?, ?)"
    " ON CONFLICT DO UPDATE SET amount = amount + excluded.amount"
)
_ADD_TASK: Final = (
    "INSERT INTO task_usage (task, agent, kind, source, amount, at) VALUES (?, ?, ?, ?, ?, ?)"
    " ON CONFLICT DO UPDATE SET amount = amount + excluded.amount, at = excluded.at"
)


def day_of(now: float) -> int:
    return int(now // DAY)


class UsageAmount(NamedTuple):
    """An amount of one kind that one agent used on one day."""

    day: int
    agent: str
    kind: str
    source: str
    tier: str
    model: str
    amount: int


Sums = Counter[tuple[str | int, str, str]]
# Agent, kind and source.
UnmeasuredUse = tuple[str, str, str]


def column_value(column: str, amount: UsageAmount) -> str | int:
    """The value of the amount in this column."""
    value: str | int = getattr(amount, column) if column else ""
    return value


def is_unmeasured(usage: UsageAmount) -> bool:
    """Whether it is of tokens or money, and somebody else than the daemon said it."""
    is_use = usage.amount != 0 and usage.kind in PAID_KINDS
    return is_use and usage.source != UsageSource.MEASURED


@dataclass(frozen=True, slots=True)
class TaskCapRow:
    """The limits of a task. `reached` is the first limit that it reached."""

    task: str
    agent: str
    caps: Mapping[str, int]
    reached: str
    stop_at: float | None


class UsageStore:
    def __init__(self, connection: Connection, events: AuditLog) -> None:
        self._db = connection
        self._undo = connection.undo
        self._events = events
        self._counts: Counter[tuple[float, str, BudgetKind]] = Counter()
        # Times of the oldest and the newest count, and the last event before them.
        self._first = self._latest = 0.0
        self._sealed = 0
        # What `unmeasured_use` has found, and when; None: it has not looked.
        self._unmeasured: set[UnmeasuredUse] | None = None
        self._looked = 0.0

    def count(self, agent: str, kind: BudgetKind, now: float) -> None:
        """Count one more, as measured by the daemon."""
        if not self._counts:
            self._first = now
        self._latest = now
        key = (now // DAY, agent, kind)  # kept cheap: this runs for each call
        self._counts[key] += 1
        if self._undo.active:
            self._undo.steps.append((self._uncount, (key,)))

    def on_rollback(self, back: Callable[..., object], *values: object) -> None:
        """Call `back(*values)` if the transaction is rolled back and its counts are repeated."""
        if self._db.inside:
            self._db.undo.note(back, *values)

    def _uncount(self, key: tuple[float, str, BudgetKind]) -> None:
        self._counts[key] -= 1

    def flush(self, *, now: bool = False) -> None:
        """Write the counts if they are due. Called before COMMIT."""
        last = self._events.last
        if now or len(self._counts) > KEYS or last - self._sealed > EVENTS or self._is_old():
            self._write_down(last)

    def _is_old(self) -> bool:
        return bool(self._counts) and abs(self._latest - self._first) >= PAUSE

    def _write_down(self, last: int) -> None:
        measured = UsageSource.MEASURED.value
        rows = [
            (int(day), agent, str(kind), measured, "", "", amount)
            for (day, agent, kind), amount in self._counts.items() if amount
        ]  # fmt: skip
        self._db.undo.note(self._reopen, Counter(self._counts), self._sealed)
        self._counts.clear()
        self._db.run_each(_ADD, rows)
        self._db.run("INSERT OR REPLACE INTO meta VALUES (?, ?)", (_MARK, str(last)))
        self._sealed = last

    def _reopen(self, counts: Counter[tuple[float, str, BudgetKind]], sealed: int) -> None:
        self._counts.update(counts)
        self._sealed = sealed

    def open(self) -> None:
        """Count recorded calls whose usage was not written before the last daemon ended."""
        mark = self._db.value("SELECT value FROM meta WHERE key = ?", (_MARK,))
        at = self._sealed = self._events.last if mark is None else int(mark)
        while events := self._events.page(at, _PAGE):
            for event in events:
                if event.kind in RECORDED and event.caller not in UNBILLED:
                    self.count(event.caller, BudgetKind.CALLS, event.time)
                    if event.operation == _SEND:
                        self.count(event.caller, BudgetKind.MESSAGES, event.time)
            at = events[-1].seq
        self.flush(now=True)

    def add(self, usage: UsageAmount) -> None:
        if self._unmeasured is not None and is_unmeasured(usage):
            self._unmeasured.add((usage.agent, usage.kind, usage.source))
        model = self._known_model(usage) if usage.model else ""
        self._db.run(_ADD, (*usage[:5], model, usage.amount))

    def _known_model(self, usage: UsageAmount) -> str:
        sql = "SELECT DISTINCT model FROM usage WHERE agent = ? AND day = ? AND model != ''"
        known = {model for (model,) in self._db.rows(sql, (usage.agent, usage.day))}
        return usage.model if usage.model in known or len(known) < MODELS else OTHER

    def used_on_day(self, day: int, agent: str, kind: str) -> int:
        """The amount that an agent used of one kind on one day, for all tiers and models."""
        sql = "SELECT COALESCE(SUM(amount), 0) FROM usage WHERE agent = ? AND day = ? AND kind = ?"
        return int(self._db.value(sql, (agent, day, kind)))

    def totals_of_day(self, day: int, agent: str) -> tuple[int, int]:
        """Tokens of all kinds, and millionths of money, that an agent used on one day."""
        row = self._db.row(
            "SELECT COALESCE(SUM(amount) FILTER (WHERE kind <> 'money'), 0),"
            " COALESCE(SUM(amount) FILTER (WHERE kind = 'money'), 0) FROM usage"
            " WHERE agent = ? AND day = ? AND kind IN ('tokens', 'tokens_in', 'tokens_out',"
            " 'money')",
            (agent, day),
        )
        return (int(row[0]), int(row[1])) if row else (0, 0)

    def day_totals(self, day: int, agents: Iterable[str]) -> dict[str, tuple[int, int]]:
        """The same of those of these agents that used anything, in one query."""
        rows = self._db.rows(
            "SELECT agent, COALESCE(SUM(amount) FILTER (WHERE kind <> 'money'), 0),"
            " COALESCE(SUM(amount) FILTER (WHERE kind = 'money'), 0) FROM usage"
            " WHERE agent IN (SELECT value FROM json_each(?)) AND day = ?"
            " AND kind IN ('tokens', 'tokens_in', 'tokens_out', 'money') GROUP BY agent",
            (json.dumps(list(agents)), day),
        )
        return {agent: (int(tokens), int(cost)) for agent, tokens, cost in rows}

    def agents(self) -> set[str]:
        """All agents with usage; the query steps from one agent to the next in the index."""
        rows = self._db.rows(
            "WITH RECURSIVE each(agent) AS (SELECT MIN(agent) FROM usage UNION ALL"
            " SELECT (SELECT MIN(agent) FROM usage WHERE agent > each.agent) FROM each"
            " WHERE each.agent IS NOT NULL) SELECT agent FROM each WHERE agent IS NOT NULL"
        )
        return {agent for (agent,) in rows} | {agent for _, agent, _ in self._counts}

    def sums(self, by: str, day: int, agents: Iterable[str] | None = None) -> Sums:
        """Sums from this day on, of these agents or of all, by one column, kind and source.

        Without a column the key is empty. SQLite computes the sums.
        """
        words = None if agents is None else json.dumps(list(agents))
        whose = "" if words is None else " AND agent IN (SELECT value FROM json_each(?))"
        values = (day,) if words is None else (day, words)
        sums: Sums = Counter({
            (key, kind, source): amount for key, kind, source, amount in self._db.rows(
                f"SELECT {by or _ALL}, kind, source, SUM(amount) FROM usage"  # noqa: S608
                f" WHERE day >= ?{whose} GROUP BY 1, 2, 3", values,
            )
        })  # fmt: skip
        among = None if agents is None else set(agents)
        for usage in self._unsaved_amounts():
            if usage.day >= day and (among is None or usage.agent in among):
                sums[column_value(by, usage), usage.kind, usage.source] += usage.amount
        return sums

    def _unsaved_amounts(self) -> Iterator[UsageAmount]:
        """The counts that are not written yet."""
        for (on, agent, kind), amount in self._counts.items():
            if amount:
                yield UsageAmount(
                    int(on), agent, kind.value, UsageSource.MEASURED.value, "", "", amount
                )

    def by_model(self, kind: str, agents: Iterable[str]) -> list[tuple[str, str, str, str, int]]:
        """Agent, model, kind, source and amount, for all kinds that begin with `kind`."""
        rows = self._db.rows(
            "SELECT agent, model, kind, source, SUM(amount) FROM usage"
            " WHERE agent IN (SELECT value FROM json_each(?2))"
            " AND kind >= ?1 AND kind < ?1 || '~' GROUP BY 1, 2, 3, 4",
            (kind, json.dumps(list(agents))),
        )
        return [(agent, model, of, source, amount) for agent, model, of, source, amount in rows]

    # Tasks

    def add_task(self, task: str, usage: UsageAmount, now: float) -> None:
        _, agent, kind, source, _, _, amount = usage
        self._db.run(_ADD_TASK, (task, agent, kind, source, amount, now))

    def of_task(self, task: str) -> dict[str, int]:
        """The amounts that a task has used so far, by kind; measured and reported together."""
        rows = self._db.rows(
            "SELECT kind, SUM(amount) FROM task_usage WHERE task = ? GROUP BY kind", (task,)
        )
        return dict(rows)

    def unmeasured_use(self, now: float) -> Collection[UnmeasuredUse]:
        """Agent, kind and source of all tokens and money that the daemon has not measured.

        What comes is here at once. What is corrected goes within `_AGAIN` seconds, because a look
        at all use takes long, and any agent with a budget can ask for one (attack 61).
        """
        if self._unmeasured is None or not 0 <= now - self._looked < _AGAIN:
            self._unmeasured, self._looked = set(self._read_unmeasured_use()), now
        return self._unmeasured

    def _read_unmeasured_use(self) -> list[UnmeasuredUse]:
        rows = self._db.rows(
            "SELECT agent, kind, source FROM usage WHERE source <> ?"
            " AND kind IN ('tokens', 'tokens_in', 'tokens_out', 'money')"
            " GROUP BY 1, 2, 3 HAVING SUM(amount) <> 0", (UsageSource.MEASURED.value,),
        )  # fmt: skip
        return [(agent, kind, source) for agent, kind, source in rows]

    def parts_of_task(self, task: str) -> list[tuple[str, str, int]]:
        """Kind, source and amount of what a task has used so far."""
        rows = self._db.rows("SELECT kind, source, amount FROM task_usage WHERE task = ?", (task,))
        return [(kind, source, amount) for kind, source, amount in rows]

    def by_task(
        self, since: float, agents: Iterable[str] | None, limit: int
    ) -> list[tuple[str, str, str, int]]:
        """Task, kind, source and amount, of these agents or of all, the newest first."""
        words = None if agents is None else json.dumps(list(agents))
        whose = "" if words is None else " AND agent IN (SELECT value FROM json_each(?))"
        values = (since, limit) if words is None else (since, words, limit)
        rows = self._db.rows(
            "SELECT task, kind, source, amount FROM task_usage"  # noqa: S608
            f" WHERE at >= ?{whose} ORDER BY at DESC LIMIT ?", values,
        )  # fmt: skip
        return [(task, kind, source, amount) for task, kind, source, amount in rows]

    def set_caps(self, task: str, agent: str, caps: Mapping[str, int]) -> None:
        self._db.run(
            "INSERT OR REPLACE INTO task_caps (task, agent, caps) VALUES (?, ?, ?)",
            (task, agent, json.dumps(dict(caps), sort_keys=True)),
        )

    def task_caps(self, task: str) -> TaskCapRow | None:
        row = self._db.row("SELECT * FROM task_caps WHERE task = ?", (task,))
        return _task_cap_row(row) if row else None

    def mark_reached_cap(self, task: str, which: str, stop_at: float | None) -> None:
        self._db.run(
            "UPDATE task_caps SET reached = ?, stop_at = ? WHERE task = ?", (which, stop_at, task)
        )

    def remove_caps(self, task: str) -> None:
        self._db.run("DELETE FROM task_caps WHERE task = ?", (task,))

    def next_cap_stop(self) -> float | None:
        """When a task that reached its limit is next to be stopped."""
        stop_at: float | None = self._db.value("SELECT MIN(stop_at) FROM task_caps")
        return stop_at

    def caps_to_stop(self, now: float, limit: int) -> list[TaskCapRow]:
        rows = self._db.rows(
            "SELECT * FROM task_caps WHERE stop_at <= ? ORDER BY stop_at LIMIT ?", (now, limit)
        )
        return [_task_cap_row(row) for row in rows]

    def prune(self, now: float, retention: float) -> None:
        """Delete usage that is older than `retention` seconds."""
        self._db.run("DELETE FROM usage WHERE day < ?", (day_of(now - retention),))
        self._db.run("DELETE FROM task_usage WHERE at < ?", (now - retention,))


def _task_cap_row(row: tuple[Any, ...]) -> TaskCapRow:
    task, agent, caps, reached, stop_at = row
    return TaskCapRow(task, agent, json.loads(caps), reached, stop_at)
