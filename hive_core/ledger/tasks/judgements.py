"""Results that wait for a verdict, and the verdicts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from hive_core.ledger.core.connection import Connection
from hive_core.ledger.tasks.records import result_from_json, result_to_json
from hive_core.model.work.judgement import ResultVerdict, TaskVerdict
from hive_core.model.work.task import TaskResult

CLOCK_SHIFT: Final[tuple[str, ...]] = ("UPDATE judgements SET at = at + ?1",)


class DeliveredResult(NamedTuple):
    """A result that waits; `letter`: the message that asks the party `asked` for a verdict."""

    result: TaskResult
    asked: str
    letter: str


class JudgementStore:
    def __init__(self, connection: Connection) -> None:
        self._db = connection

    def deliver(self, task: str, agent: str, result: TaskResult) -> None:
        """Keep the result of an attempt until it is judged."""
        sql = "INSERT INTO delivered_results (task, agent, result) VALUES (?, ?, ?)"
        self._db.run(sql, (task, agent, result_to_json(result)))

    def delivery(self, task: str) -> DeliveredResult | None:
        """The result of the task that waits for a verdict."""
        row = self._db.row(
            "SELECT result, asked, letter FROM delivered_results WHERE task = ?", (task,)
        )
        return None if row is None else DeliveredResult(result_from_json(row[0]), row[1], row[2])

    def set_letter(self, task: str, asked: str, letter: str) -> None:
        """Note the message that asks for a verdict."""
        sql = "UPDATE delivered_results SET asked = ?, letter = ? WHERE task = ?"
        self._db.run(sql, (asked, letter, task))

    def remove_delivery(self, task: str) -> None:
        """Forget the result: it is judged, or the task has ended."""
        self._db.run("DELETE FROM delivered_results WHERE task = ?", (task,))

    def add(self, task: str, agent: str, verdict: TaskVerdict) -> None:
        """Append a verdict; of the escalations of an attempt the newest stays."""
        if verdict.verdict is ResultVerdict.ESCALATE:
            self._db.run(
                "DELETE FROM judgements WHERE task = ? AND attempt = ? AND verdict = ?",
                (task, verdict.attempt, verdict.verdict.value),
            )
        self._db.run(
            "INSERT INTO judgements (task, agent, attempt, verdict, judge, feedback, at)"
            " VALUES (?, ?, ?, ?, ?, ?, ?)",
            (
                task, agent, verdict.attempt, verdict.verdict.value, verdict.by, verdict.feedback,
                verdict.at,
            ),
        )  # fmt: skip

    def of(self, task: str) -> list[TaskVerdict]:
        """The verdicts on a task, the oldest first."""
        sql = "SELECT attempt, verdict, judge, feedback, at FROM judgements WHERE task = ?"
        rows = self._db.rows(f"{sql} ORDER BY number", (task,))
        return [TaskVerdict(row[0], ResultVerdict(row[1]), *row[2:]) for row in rows]

    def delete(self, tasks: Sequence[tuple[Any, ...]]) -> None:
        """Delete all of tasks that ended long ago."""
        self._db.run_each("DELETE FROM judgements WHERE task = ?", tasks)
        self._db.run_each("DELETE FROM delivered_results WHERE task = ?", tasks)
