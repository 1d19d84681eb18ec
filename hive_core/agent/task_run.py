"""One run of a command for a task: its input, its output, and its end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import IO, Final

from hive_core.agent.letter import ReceivedLetter

# Answers that let a task continue.
GOES_ON: Final = frozenset({"answer", "plan_approved", "plan_rejected"})
OUTPUT_MOST: Final = 512 * 1024
TOO_LATE: Final = "it took too long"
_MERCY: Final = 2.0  # seconds between TERM and KILL
_ENV_MOST: Final = 100_000


@dataclass(frozen=True, slots=True)
class TaskInput:
    """The input of a run: the task, and the letter that lets it continue, such as an answer."""

    id: str
    attempt: int
    text: str
    environment: Mapping[str, str]

    @classmethod
    def of(cls, reply: Mapping[str, object], letter: ReceivedLetter) -> TaskInput:
        """Make the input from `get_task` and from the letter that caused this run."""
        row = mapping(reply.get("task"))
        data = reply.get("data")
        parts = [str(reply.get("description") or "")]
        if data is not None:
            parts.append(f"data:\n{json.dumps(data, indent=1, ensure_ascii=False)}")
        if letter.kind in GOES_ON:
            parts.append(letter.body)
        said = json.dumps(data) if data is not None else ""
        environment = {
            **letter.environment, "HIVE_FROM": str(row.get("assigner") or ""),
            "HIVE_TASK_ID": str(row.get("id") or ""),
            "HIVE_TASK_ATTEMPT": str(row.get("attempt") or 0),
            "HIVE_TASK_TITLE": str(row.get("title") or ""),
            "HIVE_TASK_DATA": said if len(said) < _ENV_MOST else "",
            "HIVE_TASK_CONTEXT": str(row.get("context") or ""),
        }  # fmt: skip
        id_, attempt = str(row.get("id") or ""), row.get("attempt")
        return cls(id_, attempt if isinstance(attempt, int) else 0, "\n\n".join(parts), {
            key: value.replace("\0", "") for key, value in environment.items()
        })  # fmt: skip


def task_of(letter: ReceivedLetter) -> str:
    """The task that a message of the daemon is about: `task: ID`, or JSON in its first line.

    Any agent may send such a message; only that of the daemon is trusted.
    """
    if letter.relation != "daemon":
        return ""
    first = letter.body.partition("\n")[0]
    if first.startswith("task: "):
        return first.removeprefix("task: ").strip()
    with suppress(ValueError):
        return str(mapping(json.loads(first)).get("task") or "")
    return ""


@dataclass
class TaskRun:
    """One run of the command; another thread may stop it at any time."""

    command: Sequence[str]
    input: TaskInput
    timeout: float | None = None
    stopped: str = ""
    _process: subprocess.Popen[bytes] | None = None
    _over: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def work(self, base: Mapping[str, str]) -> tuple[int, bytes]:
        """Run the command; return its exit status and its output, up to a limit."""
        with self._lock:
            if self.stopped:
                return -signal.SIGTERM, b""
            self._over = False
            self._process = process = subprocess.Popen(
                list(self.command), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                env={**base, **self.input.environment}, start_new_session=True,
            )  # fmt: skip
        late = threading.Timer(self.timeout or 0, self.stop, [TOO_LATE])
        if self.timeout is not None:
            late.start()
        threading.Thread(target=_feed, args=(process.stdin, self.input.text), daemon=True).start()
        try:
            output = _read_output(process.stdout)
            return process.wait(), output
        finally:
            late.cancel()
            with self._lock:
                self._over = True

    def stop(self, why: str) -> None:
        """End all processes of the run, first with TERM, then with KILL."""
        with self._lock:
            if self.stopped or self._over:
                return
            self.stopped = why or "stopped"
        self._signal(signal.SIGTERM)
        timer = threading.Timer(_MERCY, self._signal, [signal.SIGKILL])
        timer.daemon = True
        timer.start()

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, number)


def _feed(pipe: IO[bytes] | None, text: str) -> None:
    if pipe is not None:
        with suppress(OSError), pipe:
            pipe.write(text.encode())


def _read_output(pipe: IO[bytes] | None) -> bytes:
    """Read all output, or the command would block, and return its beginning."""
    output = bytearray()
    if pipe is not None:
        with pipe:
            while part := os.read(pipe.fileno(), 65_536):
                output += part[: max(0, OUTPUT_MOST - len(output))]
    return bytes(output)


def end_reason(status: int) -> str:
    if status < 0:
        return f"the command was ended by {signal.Signals(-status).name}"
    return f"the command ended with {status}"


def mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}
