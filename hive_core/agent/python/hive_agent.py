"""The hive client for Python programs that run as an agent. One file, standard library only.

    import hive_agent

    hive = hive_agent.AgentClient()
    while True:
        message = hive.recv()
        hive.reply(message, message.body.upper())

Every container finds this file on its PYTHONPATH. It depends on nothing else of hive, so it may
also be copied. A client is one connection to the daemon, for one thread: give each thread its own.

The connection survives a restart of the daemon. A call that changes something carries a key by
which the daemon recognises a repetition, so that it happens once.
"""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

SOCKET = "/run/hive/broker.sock"
INTERFACE = "org.hive.Broker."
LONGEST_WAIT = 50.0  # seconds: the daemon lets one call wait no longer than 60
LARGEST_REPLY = 1 << 20
LARGEST_SUMMARY = 16 * 1024  # bytes that the daemon takes in a report
TRY_AGAIN = frozenset({"Busy", "InboxFull", "LimitReached", "StorageFull"})
STOPPED_IDLE = "the task was stopped before its program worked on it"
_CUT = "\n[cut]"
_MARGIN = 10.0  # seconds that an answer may come later than the call waits
_PAUSES = (0.05, 0.1, 0.2, 0.5, 1.0)
_OPEN = frozenset({"in_progress", "pending_delegation"})

Values = dict[str, Any]


class CallError(Exception):
    """The daemon refused a call, or could not be reached.

    `name` is the error's name: NotFound, NotAllowed, InvalidArgument, Conflict, Unreachable and so
    on. `fields` holds what else the error says. `may_retry` tells whether the same call can succeed
    later.
    """

    def __init__(self, name: str, reason: str = "", fields: Values | None = None) -> None:
        super().__init__(f"{name}: {reason}" if reason else name)
        self.name = name
        self.reason = reason
        self.fields = fields or {}

    @property
    def may_retry(self) -> bool:
        return self.name in TRY_AGAIN


class TaskStopped(Exception):
    """The task was cancelled or reached its deadline: end the work and report `stopped`."""


@dataclass(frozen=True)
class InboxMessage:
    """One message of the inbox. `relation` says what the sender is to this agent.

    `task` is set for a message of kind `task`: begin that task with `AgentClient.begin`.
    """

    id: str
    sender: str
    relation: str
    body: str
    kind: str = ""
    thread: str = ""
    reply_to: str = ""
    source: str = ""

    @classmethod
    def from_wire(cls, row: Values) -> InboxMessage:
        names = ("id", "from", "relation", "body", "kind", "thread", "reply_to", "source")
        return cls(*(str(row.get(name) or "") for name in names))

    @property
    def is_notice(self) -> bool:
        """Whether the daemon tells a fact that asks for no answer, such as a new parent."""
        return self.relation == "daemon" and self.kind not in _ADDRESSED

    @property
    def task(self) -> str:
        """The id of the task that this message assigns; empty for every other message."""
        return self.subject if self.kind == "task" else ""

    @property
    def subject(self) -> str:
        """The id of the task that a message of the daemon is about; empty when it is about none."""
        first_line = self.body.partition("\n")[0]
        if self.relation == "daemon" and first_line.startswith("task: "):
            return first_line.removeprefix("task: ").strip()
        return ""


# Messages of the daemon that this agent has to act on, or asked for.
_ADDRESSED = frozenset({
    "task", "question", "escalation", "answer", "plan_submitted", "plan_approved", "plan_rejected",
    "reminder", "trigger", "wait_over", "batch_done", "resume", "revision",
})  # fmt: skip


@dataclass(frozen=True)
class Assignment:
    """A task that this agent works on. `attempt` counts how often it was given to the agent."""

    id: str
    assigner: str
    title: str
    text: str
    attempt: int = 1
    data: Values = field(default_factory=dict)


class AgentClient:
    """One connection of this agent to the daemon; it is opened by the first call.

    `patience`: seconds for which a call is repeated while the daemon cannot be reached. `recv`
    waits for the daemon without a limit.
    """

    def __init__(self, path: str | None = None, patience: float = 60.0) -> None:
        self.path = path or os.environ.get("HIVE_SOCKET", SOCKET)
        self._patience = patience
        self._socket: socket.socket | None = None
        self._unread = bytearray()

    def __enter__(self) -> AgentClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; the next call opens another one."""
        if self._socket is not None:
            self._socket.close()
        self._socket = None
        self._unread.clear()

    # Any operation of docs/reference/operations.md.

    def call(self, operation: str, /, **params: object) -> Values:
        """Call an operation, such as `list_agents`. A parameter that is None is left out.

        The call is repeated when the connection breaks: pass an `idempotency_key` to an operation
        that changes something, or use `change`.
        """
        present = {name: value for name, value in params.items() if value is not None}
        wire_name = INTERFACE + "".join(word.capitalize() for word in operation.split("_"))
        gives_up = time.monotonic() + self._patience
        attempt = 0
        while True:
            try:
                return self._exchange(wire_name, present)
            except OSError as error:
                self.close()
                if time.monotonic() >= gives_up:
                    raise CallError("Unreachable", f"{self.path}: {error}") from error
            time.sleep(_PAUSES[min(attempt, len(_PAUSES) - 1)])
            attempt += 1

    def change(self, operation: str, /, **params: object) -> Values:
        """Call an operation that changes something, under a key of its own: it happens once."""
        return self.call(operation, **{"idempotency_key": os.urandom(16).hex(), **params})

    # Messages.

    def recv(
        self, wait: float | None = None, *, lease: int = 60, notices: bool = False
    ) -> InboxMessage | None:
        """Take the next message; wait for it for ever, or for `wait` seconds, then return None.

        The daemon gives the message again after `lease` seconds (3600 at most) unless the program
        acknowledges it: by `reply`, `begin` or `ack`. Notices of the daemon are acknowledged here,
        unless `notices` is true, and so is a stop of a task that the program does not work on.
        """
        ends = None if wait is None else time.monotonic() + wait
        while True:
            left = LONGEST_WAIT if ends is None else ends - time.monotonic()
            params = {"wait": min(max(left, 0.0), LONGEST_WAIT), "max": 1, "lease": lease}
            rows = self._receive(params, for_ever=ends is None)
            for row in rows:
                message = InboxMessage.from_wire(row)
                if message.kind == "task_stop" and message.subject:
                    self._confirm_stop(message.subject)
                elif not message.is_notice or notices:
                    return message
                self.ack(message)
            if not rows and ends is not None and time.monotonic() >= ends:
                return None

    def ack(self, message: InboxMessage) -> None:
        """Acknowledge a message: the daemon does not give it again."""
        self.call("ack", ids=[message.id])

    def nack(self, message: InboxMessage, why: str = "", *, dead: bool = False) -> None:
        """Give a message back, to get it again; `dead` makes it a dead letter at once."""
        self.call("nack", ids=[message.id], why=why, dead=dead)

    def send(self, to: str, body: str, **more: object) -> str:
        """Send a message to an agent or to `operator`; returns its id."""
        return str(self.change("send", to=to, body=body, **more)["id"])

    def reply(self, message: InboxMessage, body: str, **more: object) -> None:
        """Answer a message and acknowledge it. After a crash in between, it is answered once.

        The daemon reads no replies: its messages are only acknowledged.
        """
        if message.relation == "daemon":
            self.ack(message)
            return
        params = {"to": message.sender, "body": body, "reply_to": message.id, **more}
        try:
            self.change(
                "send", idempotency_key=f"reply:{message.id}", thread=message.thread or None,
                **params,
            )  # fmt: skip
        except CallError as error:
            if error.name != "Conflict":  # a reply was sent before, with another text
                raise
        self.ack(message)

    # Agents and tasks below this one.

    def spawn(self, name: str, command: Sequence[str], **spec: object) -> Values:
        """Create and start a child agent that runs `command`. An existing child is kept.

        `spec` takes the parameters of the operation `spawn`: role, capabilities, limits and so on.
        """
        try:
            return self.change("spawn", name=name, command=list(command), **spec)
        except CallError as error:
            if error.name != "AlreadyExists" or name not in self.call("whoami")["children"]:
                raise
            return {"name": name}

    def assign(self, agent: str, description: str, **more: object) -> str:
        """Assign a task to an agent below this one; returns the id of the task.

        `more` takes the parameters of the operation `assign_task`. With a `title` and `part_of`, a
        repetition under the same title is recognised: pass `idempotency_key` for other rules.
        """
        if more.get("part_of") and more.get("title"):
            more = {"idempotency_key": f"{more['part_of']}:{more['title']}", **more}
        return str(self.change("assign_task", agent=agent, description=description, **more)["task"])

    def wait(self, tasks: Sequence[str], task: Assignment | None = None) -> list[Values]:
        """Wait until all these tasks have ended; each row has `task`, `status` and `summary`.

        `task` is the program's own task: the wait raises TaskStopped when that is stopped.
        """
        while True:
            if task is not None:
                self.check(task)
            ended = self.call(
                "wait_tasks", tasks=list(tasks), until="all", wait=5.0 if task else LONGEST_WAIT
            )
            if ended["done"]:
                return list(ended["tasks"])

    # The agent's own tasks.

    def begin(self, message: InboxMessage) -> Assignment | None:
        """Begin the task of a message and acknowledge the message.

        None: the task was taken back meanwhile, and there is nothing to do.
        """
        task: Assignment | None = None
        try:
            state = self.change("begin_task", task=message.task)["state"]
            if state in _OPEN:
                task = self._assignment(message.task)
            elif state == "stopping":
                self._confirm_stop(message.task)
        except CallError as error:
            if error.name not in ("Conflict", "NotFound"):
                raise
        self.ack(message)
        return task

    def progress(self, task: Assignment, text: str, percent: int | None = None) -> None:
        """Say how far a task is; raises TaskStopped when its work has to end."""
        reply = self.change("report_progress", task=task.id, text=text, percent=percent)
        if reply["state"] not in _OPEN:
            raise TaskStopped(task.id)

    def check(self, task: Assignment) -> None:
        """Raise TaskStopped when the work on a task has to end."""
        if self.call("get_task", task=task.id)["task"]["state"] not in _OPEN:
            raise TaskStopped(task.id)

    def report(
        self, task: Assignment, summary: str, status: str = "success", **more: object
    ) -> Values:
        """Report the result of a task, which ends it.

        `status` is success, partial, failed, timeout or stopped. `more` takes the parameters of the
        operation `finish_task`: `data` for programs, `artifacts`, `tokens`, `cost`. A
        summary of more than 16 KiB is cut.
        """
        if len(encoded := summary.encode()) > LARGEST_SUMMARY:
            summary = encoded[: LARGEST_SUMMARY - len(_CUT)].decode(errors="ignore") + _CUT
        key = f"report:{task.id}:{task.attempt}"
        return self.change(
            "finish_task", task=task.id, summary=summary, status=status,
            **{"idempotency_key": key, **more},
        )  # fmt: skip

    # The wire: a JSON object and a NUL byte, each way.

    def _receive(self, params: Values, *, for_ever: bool) -> list[Values]:
        while True:
            try:
                return list(self.call("recv", **params)["messages"])
            except CallError as error:
                if error.name not in (*TRY_AGAIN, "Unreachable") or not for_ever:
                    raise
                time.sleep(_PAUSES[-1])

    def _assignment(self, id_: str) -> Assignment:
        reply = self.call("get_task", task=id_)
        row = reply["task"]
        return Assignment(
            id_, row["assigner"], row["title"], reply["description"], row["attempt"],
            reply.get("data") or {},
        )  # fmt: skip

    def _confirm_stop(self, id_: str) -> None:
        """Tell the daemon that no work goes on for a task that it stops."""
        try:
            if self.call("get_task", task=id_)["task"]["state"] == "stopping":
                self.change("finish_task", task=id_, status="stopped", summary=STOPPED_IDLE)
        except CallError as error:
            if error.name not in ("Conflict", "NotFound"):
                raise

    def _exchange(self, method: str, params: Values) -> Values:
        """Send one call and read its reply; raises OSError when the connection breaks."""
        wait = params.get("wait")
        connection = self._connect()
        connection.settimeout((wait if isinstance(wait, (int, float)) else 60.0) + _MARGIN)
        frame = json.dumps({"method": method, "parameters": params}, ensure_ascii=False)
        connection.sendall(frame.encode() + b"\0")
        while b"\0" not in self._unread:
            data = connection.recv(1 << 16)
            if not data or len(self._unread) > LARGEST_REPLY:
                raise ConnectionResetError("the daemon closed the connection")
            self._unread += data
        reply_frame, _, rest = bytes(self._unread).partition(b"\0")
        self._unread[:] = rest
        reply = json.loads(reply_frame)
        values: Values = reply.get("parameters") or {}
        if reply.get("error"):
            reason = str(values.get("reason") or values.get("parameter") or "")
            raise CallError(str(reply["error"]).rpartition(".")[2], reason, values)
        return values

    def _connect(self) -> socket.socket:
        if self._socket is None:
            connection = socket.socket(socket.AF_UNIX)
            try:
                connection.settimeout(_MARGIN)
                connection.connect(self.path)
            except OSError:
                connection.close()
                raise
            self._socket = connection
        return self._socket
