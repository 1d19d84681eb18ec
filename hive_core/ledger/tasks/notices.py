"""The news about tasks for each assigner: what the last message contained, and what is pending."""

from __future__ import annotations

from typing import Final, NamedTuple

from hive_core.ledger.core.connection import Connection

# Statements that shift times when the clock is set (ledger/core/clock_shift.py); ?1 is the shift in
# seconds.
CLOCK_SHIFT: Final[tuple[str, ...]] = ("UPDATE task_news SET at = at + ?1, due = due + ?1",)


TASKS_PER_MESSAGE: Final = 256  # tasks in one message
# All ids have the same length.
_ADD: Final = (
    "UPDATE task_news SET due = at + ?4,"
    " fresh = substr(ltrim(replace(rtrim(fresh) || ' ', ?2, '')) || ?2, ?5)"
    " WHERE assigner = ?1 AND ?3 >= at AND ?3 - at < ?4"
)


class NewsState(NamedTuple):
    """The tasks in the last `message` to an assigner, sent `at`, and those pending until `due`."""

    assigner: str
    message: str = ""
    in_message: tuple[str, ...] = ()
    pending: tuple[str, ...] = ()
    at: float = 0.0
    due: float | None = None


class TaskNews:
    def __init__(self, connection: Connection) -> None:
        self._db = connection

    def get(self, assigner: str) -> NewsState:
        row = self._db.row(
            "SELECT message, told, fresh, at, due FROM task_news WHERE assigner = ?", (assigner,)
        )
        if row is None:
            return NewsState(assigner)
        return NewsState(assigner, row[0], tuple(row[1].split()), tuple(row[2].split()), *row[3:])

    def add(self, assigner: str, task: str, now: float, moment: float) -> bool:
        """Add a task to the pending news; False if no message was sent recently.

        Every end of a task calls this, so it is one statement without parsing.
        """
        word = f"{task} "
        return self._db.run(_ADD, (assigner, word, now, moment, -TASKS_PER_MESSAGE * len(word))) > 0

    def save(self, news: NewsState) -> None:
        self._db.run(
            "INSERT OR REPLACE INTO task_news (assigner, message, told, fresh, at, due)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            (
                news.assigner, news.message, " ".join(news.in_message),
                "".join(f"{id_} " for id_ in news.pending), news.at, news.due,
            ),
        )  # fmt: skip

    def drop(self, assigner: str) -> None:
        self._db.run("DELETE FROM task_news WHERE assigner = ?", (assigner,))

    def next_due(self) -> float | None:
        due: float | None = self._db.value("SELECT MIN(due) FROM task_news WHERE due IS NOT NULL")
        return due

    def due_assigners(self, now: float, limit: int) -> list[str]:
        """Assigners whose news is due."""
        sql = "SELECT assigner FROM task_news WHERE due <= ? ORDER BY due LIMIT ?"
        return [row[0] for row in self._db.rows(sql, (now, limit))]
