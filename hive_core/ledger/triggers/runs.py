"""Runs of triggers, and deliveries to webhooks."""

from __future__ import annotations

from dataclasses import replace
from typing import Final, TypedDict, Unpack
from uuid import uuid4

from hive_core.ledger.core.connection import Connection
from hive_core.model.work.trigger import OUTPUT, RUN, Trigger, TriggerRun

_MINUTE: Final = 60.0
_RUNS_KEPT: Final = 20  # runs of a trigger that are kept
_THIN: Final = 8
_AT_ONCE: Final = 1000
_FIRE: Final = (
    'number, id, "trigger", agent, at, due, count, state, detail, ref, spawned, ended, status,'
    " code, output"
)


class RunOutcome(TypedDict, total=False):
    """The outcome of a run."""

    detail: str
    ref: str
    status: str
    code: int | None
    output: str


class TriggerRunStore:
    def __init__(self, connection: Connection) -> None:
        self._db = connection

    def recent_count(self, agent: str, now: float) -> tuple[int, float]:
        """The number of an agent's runs in the last minute, and the time of the first of them."""
        row = self._db.row(
            "SELECT COUNT(*), MIN(at) FROM fires WHERE agent = ? AND at > ?"
            " AND state IN ('open', 'done', 'refused')",
            (agent, now - _MINUTE),
        )
        count, first = row or (0, None)
        return count, now if first is None else first

    def start(self, trigger: Trigger, at: float, due: float, count: int) -> TriggerRun:
        """Start a run. Every few runs, delete the oldest ones."""
        id_ = uuid4().hex[:12]
        number = self._db.value(
            'INSERT INTO fires (id, "trigger", agent, at, due, count, state)'
            " VALUES (?, ?, ?, ?, ?, ?, ?) RETURNING number",
            (id_, trigger.number, trigger.agent, at, due, count, RUN.start),
        )
        self._db.run("UPDATE triggers SET fired = fired + 1 WHERE number = ?", (trigger.number,))
        if trigger.fired % _THIN == 0:
            self._thin(trigger.number, at)
        return TriggerRun(number, id_, trigger.number, trigger.agent, at, due, count, RUN.start)

    def _thin(self, trigger: int, at: float) -> None:
        self._db.run(
            "DELETE FROM fires WHERE \"trigger\" = ?1 AND at < ?3 AND state <> 'open' AND number"
            ' <= (SELECT number FROM fires WHERE "trigger" = ?1 ORDER BY number DESC'
            " LIMIT 1 OFFSET ?2)",
            (trigger, _RUNS_KEPT, at - _MINUTE),
        )

    def set_work(self, run: TriggerRun, ref: str, spawned: str = "") -> TriggerRun:
        """Save the work of an open run. The next run of this trigger waits for its end."""
        self._db.run(
            "UPDATE fires SET ref = ?, spawned = ? WHERE number = ?", (ref, spawned, run.number)
        )
        self._db.run("UPDATE triggers SET open = ? WHERE number = ?", (run.number, run.trigger))
        return replace(run, ref=ref, spawned=spawned)

    def end(
        self, run: TriggerRun, event: str, now: float, **more: Unpack[RunOutcome]
    ) -> TriggerRun:
        """End a run with its outcome. Its trigger no longer waits for it."""
        more["output"] = more.get("output", "")[-OUTPUT:]
        ended = replace(run, state=RUN.next(run.state, event), ended=now, **more)
        self._db.run(
            "UPDATE fires SET state = ?, detail = ?, ref = ?, ended = ?, status = ?, code = ?,"
            " output = ? WHERE number = ?",
            (ended.state, ended.detail, ended.ref, now, ended.status, ended.code, ended.output,
             run.number),
        )  # fmt: skip
        if run.ref:
            self._db.run(
                "UPDATE triggers SET open = NULL WHERE number = ? AND open = ?",
                (run.trigger, run.number),
            )
        return ended

    def count_skipped(self, trigger: int, count: int, now: float) -> bool:
        """Add to the last run if it was skipped within this minute; return whether it was."""
        return bool(self._db.run(
            "UPDATE fires SET count = count + ?2 WHERE state = 'skipped' AND at > ?3 AND number ="
            ' (SELECT MAX(number) FROM fires WHERE "trigger" = ?1)',
            (trigger, count, now - _MINUTE),
        ))  # fmt: skip

    def set_exit_code(self, run: TriggerRun, code: int | None) -> None:
        self._db.run("UPDATE fires SET code = ? WHERE number = ?", (code, run.number))

    def of_task(self, ref: str) -> list[TriggerRun]:
        """The open runs of a task."""
        return self._runs("ref = ? AND state = 'open'", ref)

    def by_spawned(self, uuid: str) -> TriggerRun | None:
        """The run that created an agent."""
        return next(iter(self._runs("spawned = ? AND spawned <> ''", uuid)), None)

    def of(self, number: int, after: int | None, limit: int) -> list[TriggerRun]:
        """The runs of a trigger, the newest first."""
        behind = 1 << 62 if after is None else after
        return self._runs(
            '"trigger" = ? AND number < ? ORDER BY number DESC LIMIT ?', number, behind, limit
        )

    # Deliveries

    def delivery_run(self, hook: str, key: str) -> str | None:
        """The run of an earlier delivery with this key."""
        run = self._db.value("SELECT fire FROM deliveries WHERE hook = ? AND key = ?", (hook, key))
        return None if run is None else str(run)

    def save_delivery(self, hook: str, key: str, fire: str, now: float) -> None:
        self._db.run("INSERT INTO deliveries VALUES (?, ?, ?, ?)", (hook, key, fire, now))

    def oldest_delivery(self) -> float | None:
        at = self._db.value("SELECT MIN(at) FROM deliveries")
        return None if at is None else float(at)

    def prune_deliveries(self, before: float) -> int:
        return self._db.run(
            "DELETE FROM deliveries WHERE (hook, key) IN"
            " (SELECT hook, key FROM deliveries WHERE at <= ? ORDER BY at LIMIT ?)",
            (before, _AT_ONCE),
        )

    def _runs(self, where: str, *values: object) -> list[TriggerRun]:
        rows = self._db.rows(f"SELECT {_FIRE} FROM fires WHERE {where}", values)  # noqa: S608
        return [TriggerRun(*row) for row in rows]
