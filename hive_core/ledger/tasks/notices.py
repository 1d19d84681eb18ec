"""What assigners were told of their tasks, and what they are told next."""

from __future__ import annotations

from typing import Final, NamedTuple

from hive_core.ledger.core.connection import Connection

# What moves along when the clock is set (ledger/core/clock_shift.py); ?1 is by how many seconds.
MOVED: Final[tuple[str, ...]] = ("UPDATE task_news SET at = at + ?1, due = due + ?1",)


KEPT: Final = 256  # tasks that one message tells of
# All ids are of one length.
_ADD: Final = (
    "UPDATE task_news SET due = at + ?4,"
    " fresh = substr(ltrim(replace(rtrim(fresh) || ' ', ?2, '')) || ?2, ?5)"
    " WHERE assigner = ?1 AND ?3 >= at AND ?3 - at < ?4"
)


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

    def add(self, assigner: str, task: str, now: float, moment: float) -> bool:
        """Put it last among what is told when the moment is over; False: none has begun.

        Each end of a task comes here, so that nothing is read and taken apart for it.
        """
        word = f"{task} "
        return self._db.run(_ADD, (assigner, word, now, moment, -KEPT * len(word))) > 0

    def keep(self, news: News) -> None:
        self._db.run(
            "INSERT OR REPLACE INTO task_news (assigner, message, told, fresh, at, due)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            (
                news.assigner, news.message, " ".join(news.told),
                "".join(f"{each} " for each in news.fresh), news.at, news.due,
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
