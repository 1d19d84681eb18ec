"""What the result of a task has to meet before the task is done, and the verdicts on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from hive_core.model.work.task import TaskRequest, TaskResult

RETRIES: Final = 2
CHECK, MODEL = "check", "model"


class ResultVerdict(StrEnum):
    ACCEPT = "accept"
    RETRY = "retry"
    ESCALATE = "escalate"


@dataclass(frozen=True, slots=True)
class SuccessCriteria:
    """`data`: names that the data must have. `artifacts`: how many the assignee must have stored.

    `text` is judged by a model, after these checks. `retries`: how often the work is given back.
    """

    text: str = ""
    data: tuple[str, ...] = ()
    artifacts: int = 0
    retries: int = RETRIES

    @classmethod
    def of(cls, request: TaskRequest) -> SuccessCriteria | None:
        """The criteria of a task; None: its report is its end."""
        values = request.criteria
        if not values:
            return None
        names, artifacts = values.get("data"), values.get("artifacts", 0)
        retries = values.get("retries", RETRIES)
        return cls(
            str(values.get("text", "")),
            tuple(map(str, names)) if isinstance(names, list | tuple) else (),
            artifacts if isinstance(artifacts, int) else 0,
            retries if isinstance(retries, int) else RETRIES,
        )


@dataclass(frozen=True, slots=True)
class TaskVerdict:
    """One verdict on the result of one attempt. `by`: `check`, `model`, or a party."""

    attempt: int
    verdict: ResultVerdict
    by: str
    feedback: str
    at: float


def find_unmet_check(criteria: SuccessCriteria, result: TaskResult, stored_artifacts: int) -> str:
    """The first check that the result does not pass, in words; empty: it passes all."""
    data: Mapping[str, object] = result.data or {}
    missing = [name for name in criteria.data if data.get(name) is None]
    if missing:
        return f"its data has no {', '.join(missing)}"
    if stored_artifacts < criteria.artifacts:
        return (
            f"it names {stored_artifacts} artifacts that its agent has stored, and"
            f" {criteria.artifacts} are required"
        )
    return ""
