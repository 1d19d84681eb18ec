"""Reminders: what comes later, as mail. A row is there until it has come or was cancelled."""

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
        """Keep it under an id of its own."""
        id_ = uuid4().hex[:_DIGITS]
        while self.get(id_) is not None:
            id_ = uuid4().hex[:_DIGITS]
        self._db.run(
            f"INSERT INTO reminders ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)",  # noqa: S608
            (id_, new.owner, new.setter, new.body, new.due, int(new.relative), new.made),
        )
        return Reminder(id_, new.owner, new.setter, new.body, new.due, new.relative, new.made)

    def get(self, id_: str) -> Reminder | None:
        found = self._all("WHERE id = ?", id_)
        return found[0] if found else None

    def of(self, owner: str) -> list[Reminder]:
        """Those that an agent will get, in the order in which they come."""
        return self._all("WHERE owner = ? ORDER BY due, number", owner)

    def set_by(self, setter: str) -> list[Reminder]:
        """Those that an agent asked for, for itself or for others."""
        return self._all("WHERE setter = ? ORDER BY due, number", setter)

    def count(self, setter: str) -> int:
        return int(self._db.value("SELECT COUNT(*) FROM reminders WHERE setter = ?", (setter,)))

    def owners(self) -> list[str]:
        """Who will get any."""
        return [owner for (owner,) in self._db.rows("SELECT DISTINCT owner FROM reminders")]

    def drop(self, id_: str) -> None:
        """It has come, or is not wanted any more."""
        self._db.run("DELETE FROM reminders WHERE id = ?", (id_,))

    def drop_all_of(self, owner: str) -> None:
        """All that somebody would have got."""
        self._db.run("DELETE FROM reminders WHERE owner = ?", (owner,))

    def put_off(self, id_: str, due: float) -> None:
        """It could not be delivered: again then, whatever it was asked for by."""
        self._db.run("UPDATE reminders SET due = ?, relative = 1 WHERE id = ?", (due, id_))

    @property
    def any(self) -> bool:
        """Whether there is one at all."""
        return self._db.value("SELECT 1 FROM reminders LIMIT 1") is not None

    def next_due(self) -> float | None:
        found: float | None = self._db.value("SELECT MIN(due) FROM reminders")
        return found

    def due(self, now: float, most: int) -> list[Reminder]:
        """Those whose time has come, the earliest first."""
        return self._all("WHERE due <= ? ORDER BY due, number LIMIT ?", now, most)

    def _all(self, where: str, *values: object) -> list[Reminder]:
        sql = f"SELECT {_COLUMNS} FROM reminders {where}"  # noqa: S608 - our own words
        return [_reminder(row) for row in self._db.rows(sql, values)]
