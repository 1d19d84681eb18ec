"""Fires of triggers, and deliveries to webhooks."""

from __future__ import annotations

from dataclasses import replace
from typing import Final, TypedDict, Unpack
from uuid import uuid4

from hive_core.ledger.core.connection import Connection
from hive_core.model.work.trigger import FIRE, OUTPUT, Trigger, TriggerFire

_MINUTE: Final = 60.0
_FIRES_KEPT: Final = 20  # fires of a trigger that are kept
_THIN: Final = 8
_AT_ONCE: Final = 1000
_COLUMNS: Final = (
    'number, id, "trigger", agent, at, due, count, state, detail, ref, spawned, ended, status,'
    " code, output"
)


class FireOutcome(TypedDict, total=False):
    """The outcome of a fire."""

    detail: str
    ref: str
    status: str
    code: int | None
    output: str


class TriggerFireStore:
    def __init__(self, connection: Connection) -> None:
        self._db = connection

    def recent_count(self, agent: str, now: float) -> tuple[int, float]:
        """The number of an agent's fires in the last minute, and the time of the first of them."""
        row = self._db.row(
            "SELECT COUNT(*), MIN(at) FROM fires WHERE agent = ? AND at > ?"
            " AND state IN ('open', 'done', 'refused')",
            (agent, now - _MINUTE),
        )
        count, first = row or (0, None)
        return count, now if first is None else first

    def start(self, trigger: Trigger, at: float, due: float, count: int) -> TriggerFire:
        """Start a fire. Every few fires, delete the oldest ones."""
        id_ = uuid4().hex[:12]
        number = self._db.value(
            'INSERT INTO fires (id, "trigger", agent, at, due, count, state)'
            " VALUES (?, ?, ?, ?, ?, ?, ?) RETURNING number",
            (id_, trigger.number, trigger.agent, at, due, count, FIRE.start),
        )
        self._db.run("UPDATE triggers SET fired = fired + 1 WHERE number = ?", (trigger.number,))
        if trigger.fired % _THIN == 0:
            self._thin(trigger.number, at)
        return TriggerFire(number, id_, trigger.number, trigger.agent, at, due, count, FIRE.start)

    def _thin(self, trigger: int, at: float) -> None:
        self._db.run(
            "DELETE FROM fires WHERE \"trigger\" = ?1 AND at < ?3 AND state <> 'open' AND number"
            ' <= (SELECT number FROM fires WHERE "trigger" = ?1 ORDER BY number DESC'
            " LIMIT 1 OFFSET ?2)",
            (trigger, _FIRES_KEPT, at - _MINUTE),
        )

    def set_work(self, fire: TriggerFire, ref: str, spawned: str = "") -> TriggerFire:
        """Save the work of an open fire. The next fire of this trigger waits for its end."""
        self._db.run(
            "UPDATE fires SET ref = ?, spawned = ? WHERE number = ?", (ref, spawned, fire.number)
        )
        self._db.run("UPDATE triggers SET open = ? WHERE number = ?", (fire.number, fire.trigger))
        return replace(fire, ref=ref, spawned=spawned)

    def end(
        self, fire: TriggerFire, event: str, now: float, **more: Unpack[FireOutcome]
    ) -> TriggerFire:
        """End a fire with its outcome. Its trigger no longer waits for it."""
        more["output"] = more.get("output", "")[-OUTPUT:]
        ended = replace(fire, state=FIRE.next(fire.state, event), ended=now, **more)
        self._db.run(
            "UPDATE fires SET state = ?, detail = ?, ref = ?, ended = ?, status = ?, code = ?,"
            " output = ? WHERE number = ?",
            (ended.state, ended.detail, ended.ref, now, ended.status, ended.code, ended.output,
             fire.number),
        )  # fmt: skip
        if fire.ref:
            self._db.run(
                "UPDATE triggers SET open = NULL WHERE number = ? AND open = ?",
                (fire.trigger, fire.number),
            )
        return ended

    def count_skipped_fire(self, trigger: int, count: int, now: float) -> bool:
        """Add to the last fire if it was skipped within this minute; return whether it was."""
        return bool(self._db.run(
            "UPDATE fires SET count = count + ?2 WHERE state = 'skipped' AND at > ?3 AND number ="
            ' (SELECT MAX(number) FROM fires WHERE "trigger" = ?1)',
            (trigger, count, now - _MINUTE),
        ))  # fmt: skip

    def set_exit_code(self, fire: TriggerFire, code: int | None) -> None:
        self._db.run("UPDATE fires SET code = ? WHERE number = ?", (code, fire.number))

    def of_task(self, ref: str) -> list[TriggerFire]:
        """The open fires of a task."""
        return self._fires("ref = ? AND state = 'open'", ref)

    def by_spawned_agent(self, uuid: str) -> TriggerFire | None:
        """The fire that created an agent."""
        return next(iter(self._fires("spawned = ? AND spawned <> ''", uuid)), None)

    def of(self, number: int, after: int | None, limit: int) -> list[TriggerFire]:
        """The fires of a trigger, the newest first."""
        behind = 1 << 62 if after is None else after
        return self._fires(
            '"trigger" = ? AND number < ? ORDER BY number DESC LIMIT ?', number, behind, limit
        )

    # Deliveries

    def delivery_fire(self, hook: str, key: str) -> str | None:
        """The fire of an earlier delivery with this key."""
        fire = self._db.value("SELECT fire FROM deliveries WHERE hook = ? AND key = ?", (hook, key))
        return None if fire is None else str(fire)

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

    def _fires(self, where: str, *values: object) -> list[TriggerFire]:
        rows = self._db.rows(f"SELECT {_COLUMNS} FROM fires WHERE {where}", values)  # noqa: S608
        return [TriggerFire(*row) for row in rows]
