"""The built-in lead: splits a job into groups, assigns them to workers, combines the results.

It stores no state of a job: each try of each line is a task in the daemon. So a lead that was
killed reads the progress of its job from the daemon and continues.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from hive_core.agent import language
from hive_core.agent.agent_loop import StateFile, advance_tasks
from hive_core.agent.language import JobText
from hive_core.agent.task_client import TaskClient, TaskSnapshot

TRIES: Final = 3  # the last try is by another worker
_LEARNED: Final = 50
_SECONDS: Final = 120
KEEP, CLEAR = "keep", "clear"
_BEFORE: Final = 16 * 1024


@dataclass(frozen=True)
class JobLine:
    """One line of a job: its group, its position in the group, and its tries so far."""

    group: int
    number: int
    text: str
    tries: tuple[TaskSnapshot, ...]

    @property
    def value(self) -> str | None:
        """The result of the line; None without one."""
        well = next((row for row in self.tries if row.succeeded), None)
        return None if well is None else str(well.data.get("result", well.summary))

    @property
    def busy(self) -> bool:
        return any(row.open for row in self.tries)

    @property
    def given_up(self) -> bool:
        return self.value is None and not self.busy and len(self.tries) >= TRIES

    @property
    def title(self) -> str:
        """The title of its next try."""
        return f"{self.group}.{self.number}.{len(self.tries) + 1}"


class Lead:
    """A lead of up to five workers, three by default; groups run in parallel.

    With more groups than workers, a worker does several groups one after the other.
    """

    def __init__(self, client: TaskClient, memory: StateFile) -> None:
        self._client = client
        self._memory = memory

    def on_message(self, letter: dict[str, Any]) -> None:
        """Ignore messages: the tasks have all the work."""

    def step(self) -> None:
        """Advance each job."""
        advance_tasks(self._client, self._advance)

    def _advance(self, row: TaskSnapshot) -> None:
        text, data = self._client.description(row)
        job = language.parse(self._plan_of(data) or text)
        lines = list(_lines(job, self._client.parts(row)))
        lost = [line for line in lines if line.given_up]
        if lost:
            self._give_up(row, job, lines, lost)
        elif all(line.value is not None for line in lines):
            self._finish(row, job, lines)
        else:
            self._assign_lines(row, job, lines)

    def _plan_of(self, data: dict[str, Any]) -> str:
        """The architect's plan of the job: an artifact, or a part of the task."""
        if "plan_artifact" in data:
            return self._client.read_artifact(str(data["plan_artifact"]))
        return str(data.get("plan", ""))

    def _assign_lines(self, row: TaskSnapshot, job: JobText, lines: list[JobLine]) -> None:
        """Assign the next line to each worker that is idle in this job."""
        workers = self._worker_count(job)
        for first in range(workers):
            mine = [line for line in lines if line.group % workers == first]
            line = next((own for own in mine if own.value is None), None)
            if line is None or (line.busy and not self._take_back(line)):
                continue
            before = _line_before(line, lines)
            usual = f"{self._client.name}-{first + 1}" if before is None else before.agent
            last = len(line.tries) == TRIES - 1
            worker = self._other_worker(usual, first, workers) if last else usual
            self._client.ensure_child(
                worker, role="worker", command=["hive-agent", "worker"], parallel=1,
                title=f"worker of {self._client.name}",
            )  # fmt: skip
            keeps = job.keeps_context or row.context == KEEP
            goes_on = before is not None and worker == usual
            self._client.assign_part(
                row, worker, line.title, line.text, deadline=_SECONDS,
                data={"try": len(line.tries) + 1, "before": _earlier_values(line, lines)},
                budget=job.line_budget, context=KEEP if keeps or goes_on else CLEAR,
            )  # fmt: skip

    def _take_back(self, line: JobLine) -> bool:
        """Withdraw the line from a stopped worker; return whether it can be tried again."""
        return any(self._client.take_back(row) for row in line.tries if row.open)

    def _other_worker(self, usual: str, first: int, workers: int) -> str:
        """Another worker for the last try: a new one if there is room, otherwise the next one."""
        most = language.WORKERS_MOST
        names = [f"{self._client.name}-{number + 1}" for number in range(most)]
        rest = [names[workers]] if workers < most else [*names[first + 1 :], *names[:first]]
        return next((name for name in rest if name != usual), names[first])

    def _finish(self, row: TaskSnapshot, job: JobText, lines: list[JobLine]) -> None:
        values = [str(line.value) for line in lines]
        result = language.combine(job.combine, values)
        self._learn(job, row, well=True)
        stored = self._client.store(f"result-{row.id}", result)
        data = {"result": result, "lines": values}
        self._client.finish(row, "success", result, data=data, artifacts=stored or None)
        self._destroy_workers(job)

    def _give_up(
        self, row: TaskSnapshot, job: JobText, lines: list[JobLine], lost: list[JobLine]
    ) -> None:
        """Escalate and report: the line failed three times, the last time with another worker."""
        why = "; ".join(f"{line.text}: {line.tries[-1].why}" for line in lost)
        self._client.try_change("escalate", issue=why[:1000], severity="error", task=row.id)
        self._learn(job, row, well=False)
        done = [str(line.value) for line in lines if line.value is not None]
        faults = [line.text for line in lost]
        self._client.finish(row, "failed", why, data={"faults": faults, "lines": done})
        self._destroy_workers(job)

    def _destroy_workers(self, job: JobText) -> None:
        """Destroy the workers of a job, unless the job keeps them."""
        if job.keeps_workers:
            return
        for child in self._client.children().values():
            if child.role == "worker" and child.name.startswith(f"{self._client.name}-"):
                self._client.destroy_child(child.name)

    def _worker_count(self, job: JobText) -> int:
        """The number of workers: that of the job, or the best so far.

        At most the number of groups.
        """
        learned = self._memory.read().get("splits", {}).get(job.signature, {})
        wanted = job.workers or int(learned.get("workers", language.WORKERS))
        return max(1, min(wanted, language.WORKERS_MOST, len(job.groups)))

    def _learn(self, job: JobText, row: TaskSnapshot, *, well: bool) -> None:
        """Record the outcome and the cost of a split, to use the best one again."""
        state = self._memory.read()
        splits: dict[str, Any] = state.get("splits", {})
        seconds = round(max(0.0, time.time() - row.created), 1)
        best = splits.get(job.signature)
        parts = self._client.parts(row).values()
        new = {
            "workers": self._worker_count(job), "seconds": seconds, "well": well,
            "tokens": sum(part.tokens for part in parts),
            "cost": sum(part.cost for part in parts),
        }  # fmt: skip
        if best is None or _split_rank(new) >= _split_rank(best):
            splits.pop(job.signature, None)
            splits[job.signature] = new
        state["splits"] = dict(list(splits.items())[-_LEARNED:])
        self._memory.write(state)


def _split_rank(split: Mapping[str, Any]) -> tuple[bool, int, float]:
    """Order splits by success, then cost, then time."""
    return bool(split["well"]), -int(split.get("cost", 0)), -float(split["seconds"])


def _line_before(line: JobLine, lines: list[JobLine]) -> TaskSnapshot | None:
    """The task that did the previous line of its group; the same worker continues."""
    candidates = (
        candidate
        for candidate in lines
        if (candidate.group, candidate.number + 1) == (line.group, line.number)
    )
    return next((row for candidate in candidates for row in candidate.tries if row.succeeded), None)


def _earlier_values(line: JobLine, lines: list[JobLine]) -> list[str]:
    """The results of its group so far, for a worker without memory of them.

    Only the last results, as many as fit into a task.
    """
    mine = [
        earlier for earlier in lines if earlier.group == line.group and earlier.number < line.number
    ]
    values, room = list[str](), _BEFORE
    for earlier in reversed(mine):
        value = str(earlier.value)[: language.KEPT]
        room -= len(json.dumps(value))
        if room < 0:
            break
        values.insert(0, value)
    return values


def _lines(job: JobText, parts: Mapping[str, TaskSnapshot]) -> Iterator[JobLine]:
    for group, texts in enumerate(job.groups):
        for number, text in enumerate(texts):
            tries: list[TaskSnapshot] = []
            while (row := parts.get(f"{group}.{number}.{len(tries) + 1}")) is not None:
                tries.append(row)
            yield JobLine(group, number, text, tuple(tries))
