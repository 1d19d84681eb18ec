"""The built-in worker: executes the lines of its task one after the other (rows K34, T1, T6).

It uses no model, so its results can be checked. An architect is the same program: its tasks request
a plan instead of a result.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from hive_core.agent import language
from hive_core.agent.agent_loop import StateFile, advance_tasks
from hive_core.agent.language import CommandFailed, UnknownCommand
from hive_core.agent.task_client import OPEN, TaskClient, TaskSnapshot, say

CRASHED: Final = 70
_WATCH: Final = 5.0  # seconds that one call of `watch_task` waits
_REMEMBERED: Final = 100


class LineInterrupted(Exception):
    """The work on this task is being ended."""


class LineWorker:
    """The built-in worker. Its memory of earlier tasks is lost with its machine.

    The assigner decides whether a task begins with that memory; by default it does not.
    """

    def __init__(
        self, client: TaskClient, memory: StateFile, end: Callable[[int], object] = os._exit
    ) -> None:
        del memory
        self._client = client
        self._end = end
        self._results: list[str] = []

    def on_message(self, letter: dict[str, Any]) -> None:
        """Nothing: the tasks say what to do."""

    def step(self) -> None:
        """Work on each task, one after the other."""
        advance_tasks(self._client, self._work)

    def _work(self, row: TaskSnapshot) -> None:
        text, data = self._client.description(row)
        self._remember(row, data)
        done: list[str] = []
        try:
            if data.get("make") == "plan":
                self._make_plan(row, text, data)
                return
            for line in language.parse(text).lines:
                done.append(self._do_line(row, line, data))
                self._report_progress(row, f"{len(done)} lines are done")
        except LineInterrupted:
            self._client.finish(row, "stopped", "\n".join(done))
        except (CommandFailed, UnknownCommand) as error:
            self._client.finish(row, "failed", f"{error}", data={"done": done, "line": text})
        else:
            self._finish(row, done)

    def _remember(self, row: TaskSnapshot, data: dict[str, Any]) -> None:
        """Choose the memory that the task begins with.

        The data of the task has what the worker lacks.
        """
        if row.context != "keep":
            self._results = []
        before = [str(result) for result in data.get("before") or []]
        if before and self._results[-len(before) :] != before:
            self._results = before

    def _finish(self, row: TaskSnapshot, done: list[str]) -> None:
        result = "\n".join(done)
        self._results = [*self._results, result[: language.KEPT]][-_REMEMBERED:]
        self._client.finish(row, "success", result, data={"result": result})

    def _make_plan(self, row: TaskSnapshot, text: str, data: dict[str, Any]) -> None:
        """Make a plan, and store it as an artifact for the architect to read after its sleep."""
        before = str(data.get("plan", text))
        if "plan_artifact" in data:
            before = self._client.read_artifact(str(data["plan_artifact"]))
        plan = self._plan_text(before, data.get("faults") or [])
        stored = self._client.store(f"plan-{row.id}", plan, "subtree")
        self._client.finish(
            row,
            "success",
            plan,
            artifacts=stored or None,
            data=None if stored else {"result": plan},
        )

    def _do_line(self, row: TaskSnapshot, line: str, data: dict[str, Any]) -> str:
        word, _, rest = line.partition(" ")
        if word == "sleep":
            return self._sleep(row, float(rest))
        if word == "crash":
            times, _, value = rest.partition(" ")
            if row.attempt <= int(times):
                say(f"as asked: ends on try {row.attempt}")
                self._end(CRASHED)
            return value
        return language.compute(line, data, self._results)

    def _sleep(self, row: TaskSnapshot, seconds: float) -> str:
        """Wait, and raise LineInterrupted at once when the work is ended."""
        ends, after = time.monotonic() + seconds, None
        while (left := ends - time.monotonic()) > 0:
            seen = self._client.ask("watch_task", task=row.id, after=after, wait=min(left, _WATCH))
            if seen["state"] not in OPEN:
                raise LineInterrupted
            after = seen.get("next")
        return ""

    def _report_progress(self, row: TaskSnapshot, text: str) -> None:
        """Report the progress; a refusal, such as too many reports, is only logged."""
        if len(text) and self._client.ask("watch_task", task=row.id)["state"] not in OPEN:
            raise LineInterrupted
        self._client.try_change("report_progress", task=row.id, text=text)

    def _plan_text(self, text: str, faults: list[object]) -> str:
        """The plan of a job: its groups, with the faults of an earlier plan corrected."""
        job = language.parse(text)
        bad = {str(fault) for fault in faults}
        groups = tuple(
            tuple(language.without_unknown_words(line) if line in bad else line for line in group)
            for group in job.groups
        )
        return replace(job, groups=groups).text
