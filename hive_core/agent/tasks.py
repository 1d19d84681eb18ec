"""The tasks of `hive-agent serve`: one run of the command for each.

The loop receives a task when it has room for it, and then begins it: until then the task is queued
at the daemon, its clock stands, and it can be withdrawn. While the command runs, the loop watches
the task: when the task is stopped, the process group of the command gets TERM, and KILL two seconds
later.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from hive_core.agent.letter import ReceivedLetter
from hive_core.agent.reconnect import Link
from hive_core.agent.secret_environment import with_secrets
from hive_core.agent.task_output import result_of
from hive_core.agent.task_run import (
    TOO_LATE,
    TaskInput,
    TaskRun,
    end_reason,
    mapping,
    task_of,
)
from hive_core.errors import Conflict, HiveError, NotFound

TASK, STOP, REPORT = "task", "task_stop", "task_report"
WORKING: Final = frozenset({"in_progress", "pending_delegation"})
WAITING: Final = frozenset({"awaiting_plan_approval", "awaiting_more_information"})
STOPPING: Final = "stopping"
AGAIN: Final = 75  # EX_TEMPFAIL: the command asks for another try
TRIES: Final = 3
POLL: Final = 50
NOT_RUNNING: Final = "no command was running for it"
NO_TASKS: Final = "this agent accepts no tasks: --kinds of its hive-agent serve excludes them"
LEFT: Final = "the agent stopped"
ELSEWHERE: Final = "it was begun again"
_BACK: Final = 1.0


def say(text: str) -> None:
    sys.stderr.write(f"hive-agent: {text}\n")
    sys.stderr.flush()


@dataclass
class TaskLoop:
    """The running tasks, at most `parallel` at once. `accepts`: whether the agent accepts tasks."""

    path: str
    command: Sequence[str]
    environment: Mapping[str, str]
    parallel: int = 1
    timeout: float | None = None
    sleep: Callable[[float], object] = threading.Event().wait
    accepts: bool = True
    secrets: Mapping[str, str] = field(default_factory=dict)
    _runs: dict[str, TaskRun] = field(default_factory=dict)
    _beginning: set[str] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _closed: bool = False

    def __post_init__(self) -> None:
        self._room = threading.Semaphore(self.parallel)

    def set_parallel(self, parallel: int) -> None:
        """Set the number of tasks at once, before any is begun."""
        self.parallel = parallel
        self._room = threading.Semaphore(parallel)

    def resume_begun(self) -> None:
        """After a restart in a running machine, run the begun tasks that have not ended again."""
        try:
            with Link(self.path, answer=POLL) as link:
                rows = list(_rows(link.ask("list_tasks", only=True, open=True)))
        except HiveError as error:
            say(f"cannot look for tasks: {error.reason}")
            return
        for row in rows:
            if row.get("state") in WORKING:
                self._room.acquire()
                self._resume(str(row.get("id")))
            elif row.get("state") == STOPPING:
                self._confirm_stop(str(row.get("id")))

    def _resume(self, task: str) -> None:
        try:
            self._begin(task, ReceivedLetter("", "daemon", "daemon", "", TASK, "", ""))
        except HiveError as error:
            say(f"task {task}: {error.reason}")

    def step(self, link: Link, lease: int, other: Callable[[ReceivedLetter], None]) -> bool:
        """Receive one task when there is room, and begin it; pass other letters to `other`."""
        self._room.acquire()
        try:
            reply = link.ask("recv", wait=POLL, max=1, lease=lease, only="work")
        except HiveError as error:
            self._room.release()
            say(f"cannot receive tasks: {error.reason}")
            self.sleep(_BACK)
            return False
        messages = reply.get("messages")
        letters = (
            [ReceivedLetter.of(message) for message in messages]
            if isinstance(messages, list)
            else []
        )
        if not letters:
            self._room.release()
        for letter in letters:
            self._take_letter(link, letter, other)
        return bool(letters)

    def _take_letter(
        self, link: Link, letter: ReceivedLetter, other: Callable[[ReceivedLetter], None]
    ) -> None:
        """Begin the task of a message in the reserved room, then acknowledge the message."""
        task = task_of(letter)
        if not task:
            self._room.release()
            other(letter)
            return
        try:
            self._begin(task, letter)
            link.ask("ack", ids=[letter.id])
        except HiveError as error:  # it comes again when its lease ends
            say(f"task {task}: {error.reason}")

    def hear(self, letter: ReceivedLetter) -> bool:
        """Handle a letter about a running task; return whether it was one."""
        task = task_of(letter)
        if not task or letter.kind not in (STOP, REPORT):
            return False
        if letter.kind == STOP:
            self.stop(task, letter.body.partition("\n\n")[2])
        else:
            say(f"task {task}: the daemon asks for a report")
        return True

    def _begin(self, task: str, letter: ReceivedLetter) -> None:
        """Begin a task in the reserved room; a running task is not begun twice."""
        run = None
        try:
            run = self._run_of(task, letter)
        finally:
            if run is None:
                self._room.release()
        if run is not None:
            threading.Thread(target=self._run_and_report, args=(run,), name=f"task {task}").start()

    def _run_of(self, task: str, letter: ReceivedLetter) -> TaskRun | None:
        """The run for a task; None: it runs already, was withdrawn, or is not accepted."""
        with self._lock:
            if task in self._runs or task in self._beginning or self._closed:
                return None
            self._beginning.add(task)
        try:
            return self._new_run(task, letter)
        finally:
            with self._lock:
                self._beginning.discard(task)

    def _new_run(self, task: str, letter: ReceivedLetter) -> TaskRun | None:
        reply = self._begin_at_daemon(task)
        if reply is None:
            return None
        if not self.accepts:
            self._report(task, {"status": "failed", "summary": NO_TASKS})
            return None
        run = TaskRun(self.command, TaskInput.of(reply, letter), self.timeout)
        with self._lock:
            self._runs[task] = run
        return run

    def _begin_at_daemon(self, task: str) -> Mapping[str, object] | None:
        """Begin the task at the daemon; None when it may not be begun."""
        try:
            with Link(self.path, answer=POLL) as link:
                state = link.change("begin_task", task=task).get("state")
                if state in WORKING:
                    return link.ask("get_task", task=task)
        except (Conflict, NotFound) as error:
            say(f"task {task}: {error.reason}")
        else:
            say(f"task {task}: nothing to do, it is {state}")
        return None

    def stop(self, task: str, why: str) -> None:
        """End the run of a task; a run that is starting sees the stop as soon as it is watched."""
        with self._lock:
            run, begins = self._runs.get(task), task in self._beginning
        if run is not None:
            run.stop(why)
        elif not begins:
            self._confirm_stop(task)

    def _confirm_stop(self, task: str) -> None:
        """Confirm the stop of a waiting task, for which no command runs.

        Otherwise the daemon would restart the container, and end the other tasks with it.
        """
        try:
            if mapping(self._get_task(task).get("task")).get("state") == STOPPING:
                self._report(task, {"status": "stopped", "summary": NOT_RUNNING})
        except HiveError as error:
            say(f"task {task}: {error.reason}")

    def close(self) -> None:
        """End all runs without reporting the tasks."""
        with self._lock:
            self._closed = True
            runs = list(self._runs.values())
        for run in runs:
            run.stop(LEFT)

    def settle(self) -> None:
        """Wait until no run is left."""
        for _ in range(self.parallel):
            self._room.acquire()
        for _ in range(self.parallel):
            self._room.release()

    def _get_task(self, task: str) -> Mapping[str, object]:
        with Link(self.path, answer=POLL) as link, suppress(NotFound):
            return link.ask("get_task", task=task)
        return {}

    def _run_and_report(self, run: TaskRun) -> None:
        """Run, watch and report one task, in a thread of its own."""
        report = None
        try:
            threading.Thread(target=self._watch, args=(run,), daemon=True).start()
            report = self._run_command(run)
            if report is not None:
                self._report(run.input.id, report)
        except HiveError as error:
            say(f"task {run.input.id}: {error.reason}")
        finally:
            with self._lock:
                self._runs.pop(run.input.id, None)
            if report is None and not run.stopped:  # a stop may have come after the last check
                self._confirm_stop(run.input.id)
            self._room.release()

    def _run_command(self, run: TaskRun) -> dict[str, object] | None:
        """Run the command.

        Return its report, or None when the task waits for an answer or a decision.
        """
        status, output = 0, b""
        for attempt in range(TRIES):
            if attempt:
                self.sleep(4.0**attempt)
            try:
                status, output = run.work(with_secrets(self.environment, self.secrets))
            except OSError as error:
                return {"status": "failed", "summary": f"cannot run the command: {error}"}
            if status != AGAIN or run.stopped:
                break
            say(f"task {run.input.id}: not now (try {attempt + 1} of {TRIES})")
        if run.stopped in (LEFT, ELSEWHERE):
            return None
        return self._outcome(run, status, output)

    def _outcome(self, run: TaskRun, status: int, output: bytes) -> dict[str, object] | None:
        if run.stopped:
            how = "timeout" if run.stopped == TOO_LATE else "stopped"
            return {"status": how, **result_of(self.path, run.input.id, output)}
        if status != 0:
            why = end_reason(status)
            said = result_of(self.path, run.input.id, output)
            return {**said, "status": "failed", "summary": f"{why}\n{said['summary']}".strip()}
        state = mapping(self._get_task(run.input.id).get("task")).get("state")
        if state in WAITING:
            say(f"task {run.input.id}: {str(state).replace('_', ' ')}")
            return None
        return {"status": "success", **result_of(self.path, run.input.id, output)}

    def _report(self, task: str, report: dict[str, object]) -> None:
        with Link(self.path, answer=POLL) as link:
            while True:
                try:
                    link.change("finish_task", task=task, **report)
                except Conflict as error:
                    say(f"task {task}: {error.reason}")
                except HiveError as error:
                    if error.exit_code not in (69, 75, 124):  # that may change soon
                        raise
                    say(f"task {task}: {error.reason}; trying again")
                    self.sleep(_BACK)
                    continue
                else:
                    say(f"task {task}: {report['status']}")
                return

    def _watch(self, run: TaskRun) -> None:
        """Watch for a stop, also after the run, while its task waits for an answer.

        The watch survives a restart of the daemon.
        """
        after: str | None = None
        with Link(self.path, answer=POLL) as link:
            while not run.stopped:
                try:
                    seen = link.ask("watch_task", task=run.input.id, after=after, wait=POLL)
                except NotFound:
                    return
                except HiveError:
                    self.sleep(_BACK)
                    continue
                after = str(seen.get("next") or "") or None
                if seen.get("attempt") != run.input.attempt:
                    run.stop(ELSEWHERE)
                elif seen.get("state") == STOPPING:
                    self.stop(run.input.id, str(seen.get("why") or "cancelled"))
                if after is None:
                    return


def _rows(reply: Mapping[str, object]) -> Iterator[Mapping[str, object]]:
    rows = reply.get("tasks")
    return (mapping(row) for row in (rows if isinstance(rows, list) else []))
