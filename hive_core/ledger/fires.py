"""Fires of triggers, and what was delivered to webhooks."""

from __future__ import annotations

from typing import Final
from uuid import uuid4

from hive_core.ledger.connection import Connection
from hive_core.model.trigger import FIRE, OUTPUT, Fire, Trigger

_MINUTE: Final = 60.0
_KEPT: Final = 20  # fires of a trigger that can be listed
_AT_ONCE: Final = 1000
_FIRE: Final = (
    'number, id, "trigger", agent, at, due, count, state, detail, ref, spawned, ended, status,'
    " code, output"
)


class Fires:
    def __init__(self, connection: Connection) -> None:
        self._db = connection

    def used(self, agent: str, now: float) -> tuple[int, float]:
        """Fires of an agent in the last minute, and when the first of them was."""
        row = self._db.row(
            "SELECT COUNT(*), MIN(at) FROM fires WHERE agent = ? AND at > ?"
            " AND state IN ('open', 'done', 'refused')",
            (agent, now - _MINUTE),
        )
        count, first = row or (0, None)
        return count, now if first is None else first

    def begin(self, trigger: Trigger, at: float, due: float, count: int) -> Fire:
        """One more."""
        id_ = uuid4().hex[:12]
        self._db.run(
            'INSERT INTO fires (id, "trigger", agent, at, due, count, state)'
            " VALUES (?, ?, ?, ?, ?, ?, ?)",
            (id_, trigger.number, trigger.agent, at, due, count, FIRE.start),
        )
        self._db.run("UPDATE triggers SET fired = fired + 1 WHERE number = ?", (trigger.number,))
        self._db.run(
            "DELETE FROM fires WHERE \"trigger\" = ?1 AND at < ?3 AND state <> 'open' AND number"
            ' <= (SELECT number FROM fires WHERE "trigger" = ?1 ORDER BY number DESC'
            " LIMIT 1 OFFSET ?2)",
            (trigger.number, _KEPT, at - _MINUTE),
        )
        return self.known(id_)

    def known(self, id_: str) -> Fire:
        found = self._fires("id = ?", id_)
        return found[0]

    def began(self, fire: Fire, ref: str, spawned: str = "") -> None:
        """Its work goes on: the next one of this trigger waits for its end."""
        self._db.run(
            "UPDATE fires SET ref = ?, spawned = ? WHERE number = ?", (ref, spawned, fire.number)
        )
        self._db.run("UPDATE triggers SET open = ? WHERE number = ?", (fire.number, fire.trigger))

    def end(self, fire: Fire, event: str, now: float, *, output: str = "", **more: object) -> None:
        """`more`: detail, ref, status, code."""
        words = "".join(f", {key} = ?" for key in more)  # our own names
        self._db.run(
            f"UPDATE fires SET state = ?, ended = ?, output = ?{words} WHERE number = ?",  # noqa: S608
            (FIRE.next(fire.state, event), now, output[-OUTPUT:], *more.values(), fire.number),
        )
        self._db.run(
            "UPDATE triggers SET open = NULL WHERE number = ? AND open = ?",
            (fire.trigger, fire.number),
        )

    def exited(self, fire: Fire, code: int | None) -> None:
        self._db.run("UPDATE fires SET code = ? WHERE number = ?", (code, fire.number))

    def of_task(self, ref: str) -> list[Fire]:
        """Those whose task this is."""
        return self._fires("ref = ? AND state = 'open'", ref)

    def spawner(self, uuid: str) -> Fire | None:
        """The fire that made an agent."""
        return next(iter(self._fires("spawned = ? AND spawned <> ''", uuid)), None)

    def of(self, number: int, after: int | None, limit: int) -> list[Fire]:
        """The newest first."""
        behind = 1 << 62 if after is None else after
        return self._fires(
            '"trigger" = ? AND number < ? ORDER BY number DESC LIMIT ?', number, behind, limit
        )

    # Deliveries.

    def delivered(self, hook: str, key: str) -> str | None:
        """The fire of a delivery that has come before."""
        found = self._db.value(
            "SELECT fire FROM deliveries WHERE hook = ? AND key = ?", (hook, key)
        )
        return None if found is None else str(found)

    def deliver(self, hook: str, key: str, fire: str, now: float) -> None:
        self._db.run("INSERT INTO deliveries VALUES (?, ?, ?, ?)", (hook, key, fire, now))

    def oldest_delivery(self) -> float | None:
        found = self._db.value("SELECT MIN(at) FROM deliveries")
        return None if found is None else float(found)

    def prune_deliveries(self, before: float) -> int:
        return self._db.run(
            "DELETE FROM deliveries WHERE (hook, key) IN"
            " (SELECT hook, key FROM deliveries WHERE at <= ? ORDER BY at LIMIT ?)",
            (before, _AT_ONCE),
        )

    def _fires(self, where: str, *values: object) -> list[Fire]:
        rows = self._db.rows(f"SELECT {_FIRE} FROM fires WHERE {where}", values)  # noqa: S608
        return [Fire(*row) for row in rows]
