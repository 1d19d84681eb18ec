"""Reminders: mail to be sent later. A row stays until it is delivered or cancelled."""

from __future__ import annotations

from typing import Any, Final
from uuid import uuid4

from hive_core.ledger.core.connection import Connection
from hive_core.model.work.question import Reminder

_DIGITS: Final = 12
_COLUMNS: Final = "id, owner, setter, body, due, relative, made"


def _reminder(row: tuple[Any, ...]) -> Reminder:
    id_, owner, setter, body, due, relative, made = row
    return Reminder(id_, owner, setter, body, due, bool(relative), made)


class ReminderStore:
    def __init__(self, connection: Connection) -> None:
        self._db = connection

    def create(self, new: Reminder) -> Reminder:
        """Save a reminder under a new id."""
        id_ = uuid4().hex[:_DIGITS]
        while self.get(id_) is not None:
            id_ = uuid4().hex[:_DIGITS]
        self._db.run(
            f"INSERT INTO reminders ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)",  # noqa: S608
            (id_, new.owner, new.setter, new.body, new.due, int(new.relative), new.made),
        )
        return Reminder(id_, new.owner, new.setter, new.body, new.due, new.relative, new.made)

    def get(self, id_: str) -> Reminder | None:
        return next(iter(self._all("WHERE id = ?", id_)), None)

    def of(self, owner: str) -> list[Reminder]:
        """The reminders that an agent will get, in order."""
        return self._all("WHERE owner = ? ORDER BY due, number", owner)

    def page(self, owner: str | None, after: Reminder | None, most: int) -> list[Reminder]:
        """Reminders that an agent (None: any) will get, in order, after the one of before."""
        where, values = ["TRUE"], list[object]()
        if owner is not None:
            where, values = [*where, "owner = ?"], [*values, owner]
        if after is not None:
            where.append("(due, number) > (SELECT due, number FROM reminders WHERE id = ?)")
            values.append(after.id)
        return self._all(f"WHERE {' AND '.join(where)} ORDER BY due, number LIMIT ?", *values, most)

    def count(self, setter: str) -> int:
        return int(self._db.value("SELECT COUNT(*) FROM reminders WHERE setter = ?", (setter,)))

    def owners(self) -> list[str]:
        """The agents that will get reminders."""
        return [owner for (owner,) in self._db.rows("SELECT DISTINCT owner FROM reminders")]

    def drop(self, id_: str) -> None:
        """Delete a reminder that was delivered or cancelled."""
        self._db.run("DELETE FROM reminders WHERE id = ?", (id_,))

    def drop_all_of(self, owner: str) -> None:
        """Delete all reminders that an agent would get."""
        self._db.run("DELETE FROM reminders WHERE owner = ?", (owner,))

    def put_off(self, id_: str, due: float) -> None:
        """Try a reminder again at this time, which no longer follows the wall clock."""
        self._db.run("UPDATE reminders SET due = ?, relative = 1 WHERE id = ?", (due, id_))

    @property
    def any(self) -> bool:
        """Whether there are reminders."""
        return self._db.value("SELECT 1 FROM reminders LIMIT 1") is not None

    def next_due(self) -> float | None:
        due: float | None = self._db.value("SELECT MIN(due) FROM reminders")
        return due

    def due(self, now: float, most: int) -> list[Reminder]:
        """The reminders that are due, the earliest first."""
        return self._all("WHERE due <= ? ORDER BY due, number LIMIT ?", now, most)

    def _all(self, where: str, *values: object) -> list[Reminder]:
        sql = f"SELECT {_COLUMNS} FROM reminders {where}"  # noqa: S608 - our own words
        return [_reminder(row) for row in self._db.rows(sql, values)]
