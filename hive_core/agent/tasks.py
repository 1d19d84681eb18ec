"""Tasks as `hive-agent serve` does them: one run of the command for each, ended when the task is.

What the daemon says about a task is looked at before it is begun and while it runs, so nothing is
done twice because a letter came twice, and work that is cancelled ends: the command's whole process
group gets TERM, and KILL two seconds later.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from hive_core.agent.letter import Letter
from hive_core.agent.link import Link
from hive_core.agent.task_run import (
    GOES_ON,
    OUTPUT_MOST,
    TOO_LATE,
    Given,
    Run,
    ended,
    mapping,
    task_of,
)
from hive_core.errors import Conflict, HiveError, NotFound

TASK, STOP, REPORT = "task", "task_stop", "task_report"
WORKING: Final = frozenset({"in_progress", "pending_delegation"})
WAITING: Final = frozenset({"awaiting_plan_approval", "awaiting_more_information"})
AGAIN: Final = 75  # EX_TEMPFAIL: the command asks for another try
TRIES: Final = 3
POLL: Final = 50
SUMMARY_MOST, DATA_MOST = 16 * 1024, 24 * 1024
LEFT: Final = "the agent stopped"
ELSEWHERE: Final = "it was given anew"
_BACK: Final = 1.0
_CUT: Final = "\n[cut]"


def say(text: str) -> None:
    sys.stderr.write(f"hive-agent: {text}\n")
    sys.stderr.flush()


@dataclass
class Tasks:
    """All tasks of this agent that run, at most `parallel` at once."""

    path: str
    command: Sequence[str]
    environment: Mapping[str, str]
    parallel: int = 1
    timeout: float | None = None
    sleep: Callable[[float], object] = threading.Event().wait
    _runs: dict[str, Run] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._room = threading.BoundedSemaphore(self.parallel)

    def again(self) -> None:
        """After a start in a machine that was up: what had begun and has no end is done again."""
        with Link(self.path, answer=POLL) as link:
            for row in _rows(link.ask("list_tasks", only=True, open=True)):
                if row.get("state") in WORKING:
                    letter = Letter("", "daemon", "daemon", "", TASK, "", "")
                    self.begin(str(row.get("id")), letter)

    def take(self, letter: Letter) -> bool:
        """Whether the letter is about a task and was seen to."""
        task = task_of(letter)
        if not task or letter.kind not in (TASK, STOP, REPORT, *GOES_ON):
            return False
        if letter.kind == STOP:
            self.stop(task, letter.body.partition("\n\n")[2])
        elif letter.kind == REPORT:
            say(f"task {task}: a report is asked for")
        else:
            self.begin(task, letter)
        return True

    def begin(self, task: str, letter: Letter) -> None:
        """Start it when there is room; what runs already is not started twice."""
        with self._lock:
            if task in self._runs:
                return
        self._room.acquire()
        found = self._look(task)
        row = mapping(found.get("task"))
        if row.get("state") not in WORKING:
            self._room.release()
            say(f"task {task}: nothing to do, it is {row.get('state') or 'gone'}")
            return
        run = Run(self.command, Given.of(found, letter), self.timeout)
        with self._lock:
            self._runs[task] = run
        threading.Thread(target=self._whole, args=(run,), name=f"task {task}").start()

    def stop(self, task: str, why: str) -> None:
        with self._lock:
            run = self._runs.get(task)
        if run is not None:
            run.stop(why)

    def close(self) -> None:
        """End everything that runs; the tasks stay as they are."""
        with self._lock:
            runs = list(self._runs.values())
        for run in runs:
            run.stop(LEFT)

    def settle(self) -> None:
        """Wait until there is room for all: nothing runs."""
        for _ in range(self.parallel):
            self._room.acquire()
        for _ in range(self.parallel):
            self._room.release()

    def _look(self, task: str) -> Mapping[str, object]:
        with Link(self.path, answer=POLL) as link, suppress(NotFound):
            return link.ask("get_task", task=task)
        return {}

    def _whole(self, run: Run) -> None:
        """One task in a thread of its own: run, watched, reported."""
        try:
            threading.Thread(target=self._watch, args=(run,), daemon=True).start()
            report = self._tried(run)
            if report is not None:
                self._report(run.given.id, report)
        except HiveError as error:
            say(f"task {run.given.id}: {error.reason}")
        finally:
            with self._lock:
                self._runs.pop(run.given.id, None)
            self._room.release()

    def _tried(self, run: Run) -> dict[str, object] | None:
        """What to report; None: nothing, somebody has to answer before."""
        status, output = 0, b""
        for attempt in range(TRIES):
            if attempt:
                self.sleep(4.0**attempt)
            try:
                status, output = run.work(self.environment)
            except OSError as error:
                return {"status": "failed", "summary": f"cannot run the command: {error}"}
            if status != AGAIN or run.stopped:
                break
            say(f"task {run.given.id}: not now (try {attempt + 1} of {TRIES})")
        if run.stopped in (LEFT, ELSEWHERE):
            return None
        return self._outcome(run, status, output)

    def _outcome(self, run: Run, status: int, output: bytes) -> dict[str, object] | None:
        if run.stopped:
            how = "timeout" if run.stopped == TOO_LATE else "stopped"
            return {"status": how, **self._said(run.given.id, output)}
        if status != 0:
            why = ended(status)
            said = self._said(run.given.id, output)
            return {**said, "status": "failed", "summary": f"{why}\n{said['summary']}".strip()}
        state = mapping(self._look(run.given.id).get("task")).get("state")
        if state in WAITING:
            say(f"task {run.given.id}: {str(state).replace('_', ' ')}")
            return None
        return {"status": "success", **self._said(run.given.id, output)}

    def _said(self, task: str, output: bytes) -> dict[str, object]:
        """Text as the summary, a JSON object as data; what is too big for both as an artifact."""
        text = output.decode(errors="replace").removesuffix("\n")
        with suppress(ValueError):
            found = json.loads(text)
            if isinstance(found, dict) and len(text.encode()) <= DATA_MOST:
                return {"summary": str(found.get("summary") or "")[:SUMMARY_MOST], "data": found}
        if len(text.encode()) <= SUMMARY_MOST:
            return {"summary": text}
        kept = self._stored(task, text)
        short = text.encode()[: SUMMARY_MOST - len(_CUT)].decode(errors="ignore") + _CUT
        return {"summary": short, **({"artifacts": [kept]} if kept else {})}

    def _stored(self, task: str, text: str) -> str:
        """The whole output in the store; empty where the agent may not keep anything."""
        try:
            with Link(self.path, answer=POLL) as link:
                reply = link.change(
                    "store_artifact", name=f"tasks/{task}.txt", type="text/plain",
                    visibility="subtree", text=text.encode()[:OUTPUT_MOST].decode(errors="ignore"),
                )  # fmt: skip
        except HiveError as error:
            say(f"task {task}: its output is cut: {error.reason}")
            return ""
        return str(reply.get("id") or "")

    def _report(self, task: str, report: dict[str, object]) -> None:
        with Link(self.path, answer=POLL) as link:
            while True:
                try:
                    link.change("finish_task", task=task, **report)
                except Conflict as error:
                    say(f"task {task}: {error.reason}")
                except HiveError as error:
                    if error.exit_code not in (69, 75, 124):  # it may be otherwise in a moment
                        raise
                    say(f"task {task}: {error.reason}; trying again")
                    self.sleep(_BACK)
                    continue
                else:
                    say(f"task {task}: {report['status']}")
                return

    def _watch(self, run: Run) -> None:
        """Hear of a stop. A daemon that is away is asked again."""
        after: str | None = None
        with Link(self.path, answer=POLL) as link:
            while not run.stopped:
                try:
                    seen = link.ask("watch_task", task=run.given.id, after=after, wait=POLL)
                except NotFound:
                    return
                except HiveError:
                    self.sleep(_BACK)
                    continue
                after = str(seen.get("next") or "") or None
                if seen.get("attempt") != run.given.attempt:
                    run.stop(ELSEWHERE)
                elif seen.get("state") == "stopping":
                    run.stop(str(seen.get("why") or "cancelled"))
                if after is None:
                    return


def _rows(reply: Mapping[str, object]) -> Iterator[Mapping[str, object]]:
    rows = reply.get("tasks")
    return (mapping(each) for each in (rows if isinstance(rows, list) else []))
