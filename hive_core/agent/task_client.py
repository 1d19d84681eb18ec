"""The client of the built-in agents: their tasks, the tasks that they assigned, their children.

The client has no state of its own: an agent that was killed reads its state from the daemon and
continues. A repeated call has the same key, so it changes nothing.
"""

from __future__ import annotations

import base64
import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

from hive_core.agent.reconnect import Link, new_key
from hive_core.errors import AlreadyExists, Conflict, HiveError, NotFound, TimedOut, Unreachable
from hive_core.varlink import Message

POLL: Final = 50
OPEN: Final = frozenset({"in_progress", "pending_delegation"})
WELL: Final = frozenset({"success", "partial"})
_TRY_AGAIN: Final = 75
_TRIES: Final = 8
_BACK: Final = (0.1, 0.2, 0.5, 1.0, 2.0)
_PAGE: Final = 200
# Limits of the daemon for one report.
SUMMARY_MOST, DATA_MOST = 16 * 1024, 24 * 1024
_CUT: Final = "\n[cut]"
# In the data: the whole data is an artifact with this id.
_WHOLE: Final = "whole"
_REMEMBERED: Final = 7
_DOWN: Final = frozenset({"stopped", "failed", "parked"})
_ENDED: Final = frozenset({"done", "cancelled"})


@dataclass(frozen=True, slots=True)
class TaskSnapshot:
    """One task. `status` is empty until it has ended; `tokens` and `cost` are as reported.

    `offered`: whether its agent may begin it and has not begun it.
    """

    id: str
    agent: str
    assigner: str
    title: str
    state: str
    offered: bool
    attempt: int
    part_of: str
    created: float
    plan: str
    plan_required: bool
    context: str
    status: str
    summary: str
    error: str
    data: Message
    artifacts: tuple[str, ...] = ()
    tokens: int = 0
    cost: int = 0

    @classmethod
    def of(cls, row: Any) -> TaskSnapshot:  # noqa: ANN401 - JSON is anything
        result = row["result"] or {}
        return cls(
            row["id"], row["agent"], row["assigner"], row["title"], row["state"], row["offered"],
            row["attempt"], row["part_of"], row["created"], row["plan"], row["plan_required"],
            row["context"],
            result.get("status", ""), result.get("summary", ""), result.get("error", ""),
            result.get("data") or {}, tuple(result.get("artifacts", ())),
            result.get("tokens") or 0, result.get("cost") or 0,
        )  # fmt: skip

    @property
    def open(self) -> bool:
        return self.state not in _ENDED

    @property
    def succeeded(self) -> bool:
        return self.status in WELL

    @property
    def why(self) -> str:
        """The reason why it did not succeed."""
        return self.error or self.summary or self.status


@dataclass(frozen=True, slots=True)
class ChildAgent:
    """A child of this agent."""

    name: str
    role: str
    title: str
    state: str


class TaskClient:
    """Calls that wait, without a limit, while the daemon restarts."""

    def __init__(
        self, link: Link, name: str, sleep: Callable[[float], object] = time.sleep
    ) -> None:
        self.name = name
        self._link = link
        self._sleep = sleep
        self._read: dict[str, str] = {}

    def ask(self, operation: str, /, **params: object) -> Message:
        """Call until an answer comes; raise a refusal that a retry cannot change."""
        tries = 0
        while True:
            try:
                return self._link.ask(operation, **params)
            except (Unreachable, TimedOut):
                self._link.close()
            except HiveError as error:
                tries += 1
                if error.exit_code != _TRY_AGAIN or tries > _TRIES:
                    raise
            self._sleep(_BACK[min(tries, len(_BACK) - 1)])

    def change(self, operation: str, /, **params: object) -> Message:
        """Call an operation that records something; its key makes a repetition harmless."""
        return self.ask(operation, **{"idempotency_key": new_key(), **params})

    def try_change(self, operation: str, /, **params: object) -> Message:
        """Call; a refusal is logged and gives an empty answer."""
        try:
            return self.change(operation, **params)
        except HiveError as error:
            say(f"cannot {operation}: {error.reason}")
            return {}

    def receive(self, wait: float) -> list[Message]:
        """Receive and acknowledge messages, which only signal that something has changed."""
        messages = self.ask("recv", wait=wait, max=100)["messages"]
        if not isinstance(messages, list):
            return []
        if messages:
            self.try_change("ack", ids=[message["id"] for message in messages])
        return messages

    def own_tasks(self) -> list[TaskSnapshot]:
        """The open tasks of this agent, the oldest first."""
        tasks = self._rows(only=True, open=True)
        return sorted(tasks, key=lambda row: row.created)

    def delegated_tasks(self) -> list[TaskSnapshot]:
        """The open tasks of descendants, the newest first."""
        return [row for row in self._rows(open=True) if row.agent != self.name]

    def parts(self, task: TaskSnapshot) -> dict[str, TaskSnapshot]:
        """The parts of this task that were assigned to other agents; the last one of each title."""
        parts: dict[str, TaskSnapshot] = {}
        for row in self._rows(since=task.created):
            if row.part_of == task.id:
                parts.setdefault(row.title, row)
        return {title: self._with_whole_data(row) for title, row in parts.items()}

    def _with_whole_data(self, row: TaskSnapshot) -> TaskSnapshot:
        """The row with its whole data, also when that was too long for a report."""
        id_ = str(row.data.get(_WHOLE, ""))
        if not id_:
            return row
        if id_ not in self._read:
            self._read = {
                **dict(list(self._read.items())[-_REMEMBERED:]),
                id_: self.read_artifact(id_),
            }
        return replace(row, data=json.loads(self._read[id_]))

    def begin(self, task: TaskSnapshot) -> bool:
        """Begin a task; return False when it was withdrawn."""
        try:
            self.change("begin_task", task=task.id)
        except (Conflict, NotFound) as error:
            say(f"task {task.id}: {error.reason}")
            return False
        return True

    def take_back(self, part: TaskSnapshot) -> bool:
        """Withdraw a part whose agent was stopped before it began it."""
        if part.state != "queued" or part.offered:
            return False
        child = self.children().get(part.agent)
        if child is None or child.state != "stopped":
            return False
        why = f"{part.agent} is stopped"
        return bool(self.try_change("cancel_task", task=part.id, reason=why))

    def description(self, task: TaskSnapshot) -> tuple[str, Message]:
        """The text of a task, and its data."""
        reply = self.ask("get_task", task=task.id)
        data = reply.get("data")
        return str(reply["description"]), data if isinstance(data, dict) else {}

    def assign_part(
        self, task: TaskSnapshot, agent: str, title: str, text: str, **more: object
    ) -> None:
        """Assign a part of a task to a descendant; a repeated call changes nothing."""
        self.change(
            "assign_task", agent=agent, description=text, title=title, part_of=task.id,
            **{"requeue": 3, "idempotency_key": f"{task.id}:{title}", **_without_absent(more)},
        )  # fmt: skip

    def finish(self, task: TaskSnapshot, status: str, summary: str, **more: object) -> None:
        """Report the result; a task that has ended meanwhile does not change."""
        key = f"finish:{task.id}:{task.attempt}:{status}"
        fields = _without_absent(more)
        data = json.dumps(fields.get("data"), indent=1)
        if len(data.encode()) > DATA_MOST:
            fields["data"] = (
                {_WHOLE: stored[0]} if (stored := self.store(f"data-{task.id}", data)) else {}
            )
        self.try_change(
            "finish_task", task=task.id, status=status, summary=cut_summary(summary),
            idempotency_key=key, **fields,
        )  # fmt: skip

    def tier(self) -> str:
        """The tier of this agent, the highest that it may give."""
        return str(self.ask("whoami")["tier"])

    def children(self) -> dict[str, ChildAgent]:
        """The children of this agent, by name."""
        children: dict[str, ChildAgent] = {}
        after: object = None
        while True:
            page = self.ask("list_agents", after=after)
            rows = page["agents"]
            for row in rows if isinstance(rows, list) else []:
                if row["parent"] == self.name:
                    child = ChildAgent(row["name"], row["role"], row.get("title", ""), row["state"])
                    children[child.name] = child
            after = page.get("next")
            if not after:
                return children

    def ensure_child(self, name: str, **spec: object) -> None:
        """Create a child, or start the existing one."""
        child = self.children().get(name)
        if child is None:
            try:
                self.change("spawn", name=name, **spec)
            except AlreadyExists:
                say(f"{name} exists already")
        elif child.state in _DOWN:
            self.try_change("start", agent=name)

    def destroy_child(self, name: str) -> None:
        """Destroy a child with its descendants."""
        try:
            self.try_change("destroy", agent=name, recursive=True)
        except NotFound:
            say(f"{name} was destroyed already")

    def store(self, name: str, text: str, visibility: str = "user", **more: object) -> list[str]:
        """Store a text as an artifact; return its id in a list, which is empty after a refusal."""
        reply = self.try_change(
            "store_artifact", name=name, text=text, visibility=visibility, type="text/plain", **more
        )
        return [str(reply["id"])] if "id" in reply else []

    def read_artifact(self, artifact: str) -> str:
        """The text of an artifact."""
        data, after = b"", None
        while True:
            part = self.ask("get_artifact", id=artifact, after=after)
            data += base64.b64decode(str(part["data"]))
            after = part.get("next")
            if not after:
                return data.decode()

    def _rows(self, since: float = 0.0, **params: object) -> list[TaskSnapshot]:
        """Tasks of the agent and its descendants, the newest first, back to a time."""
        tasks: list[TaskSnapshot] = []
        after: object = None
        while True:
            page = self.ask("list_tasks", limit=_PAGE, after=after, **params)
            rows = page["tasks"]
            tasks += [TaskSnapshot.of(row) for row in rows] if isinstance(rows, list) else []
            after = page.get("next")
            if not after or tasks[-1].created < since:
                return tasks


def _without_absent(params: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in params.items() if value is not None}


def cut_summary(text: str) -> str:
    """The text, cut to what a report takes."""
    if len(text.encode()) <= SUMMARY_MOST:
        return text
    return text.encode()[: SUMMARY_MOST - len(_CUT)].decode(errors="ignore") + _CUT


def say(text: str) -> None:
    """Write a line to the log of the agent."""
    sys.stderr.write(f"hive-agent: {text}\n")
    sys.stderr.flush()
