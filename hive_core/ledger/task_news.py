"""What assigners were told of their tasks, and what they are told next."""

from __future__ import annotations

from typing import Final, NamedTuple

from hive_core.ledger.connection import Connection

# What moves along when the clock is set (ledger/shifts.py); ?1 is by how many seconds.
MOVED: Final[tuple[str, ...]] = ("UPDATE task_news SET at = at + ?1, due = due + ?1",)


class News(NamedTuple):
    """What an assigner was told at `at` in `message`, and what it is told at `due`."""

    assigner: str
    message: str = ""
    told: tuple[str, ...] = ()
    fresh: tuple[str, ...] = ()
    at: float = 0.0
    due: float | None = None


class TaskNews:
    def __init__(self, connection: Connection) -> None:
        self._db = connection

    def get(self, assigner: str) -> News:
        row = self._db.row(
            "SELECT message, told, fresh, at, due FROM task_news WHERE assigner = ?", (assigner,)
        )
        if row is None:
            return News(assigner)
        return News(assigner, row[0], tuple(row[1].split()), tuple(row[2].split()), *row[3:])

    def keep(self, news: News) -> None:
        self._db.run(
            "INSERT OR REPLACE INTO task_news (assigner, message, told, fresh, at, due)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            (
                news.assigner, news.message, " ".join(news.told), " ".join(news.fresh), news.at,
                news.due,
            ),
        )  # fmt: skip

    def drop(self, assigner: str) -> None:
        self._db.run("DELETE FROM task_news WHERE assigner = ?", (assigner,))

    def next_due(self) -> float | None:
        found: float | None = self._db.value("SELECT MIN(due) FROM task_news WHERE due IS NOT NULL")
        return found

    def untold(self, now: float, limit: int) -> list[str]:
        """Assigners who are to be told now."""
        sql = "SELECT assigner FROM task_news WHERE due <= ? ORDER BY due LIMIT ?"
        return [row[0] for row in self._db.rows(sql, (now, limit))]
