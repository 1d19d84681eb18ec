"""A coding CLI as the runtime of a session: one process for each turn, which runs its own tools.

Towards the session it speaks the protocol of the built-in runtime. One exchange has one answer, the
text with which the CLI ends; what happens on the way is judged by hooks, grants and the broker. The
conversation itself is kept by the CLI in its home, under the id that the log of the session has.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from hive_core.agent.session.runtimes.builtin import (
    LINE_MOST,
    Line,
    RuntimeCommand,
    RuntimeGone,
    WrongPython,
)
from hive_core.agent.session.runtimes.cli_dialect import (
    CliDialect,
    CliOutcome,
    CliPlace,
    CliTurn,
)
from hive_core.agent.session.runtimes.forwarder import ModelForwarder

Events = queue.SimpleQueue[tuple[str, object]]
INTERRUPTED: Final = (
    "<reminder>\nYou were interrupted while you worked on what follows: your process ended, and"
    " the effect of what you did last is unknown. Look at the present state before you repeat"
    " anything.\n</reminder>"
)
HAND_BACK: Final = (
    "<reminder>\nThis is the last call of the turn, and it can use no tool. Write the report of"
    " your task now, as text: what is done, what is missing, and what the next attempt should"
    " know.\n</reminder>"
)
_PROMPTS: Final = "hive_core.runtime.prompts"
_RENDER: Final = 60.0
_STDERR: Final = 4096
_MERCY: Final = 5.0
_CANCELLED: Final[Line] = {"type": "end", "status": "cancelled", "text": ""}


@dataclass(slots=True)
class CliCommand:
    """How the CLI of this agent is started, and what it shares between turns."""

    dialect: CliDialect
    place: CliPlace
    runtime: RuntimeCommand
    forwarder: ModelForwarder
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def program(self) -> Path:
        return self.place.folder / "bin" / self.dialect.name

    def check(self) -> None:
        """Raise WrongPython where the host has not installed the CLI."""
        if not self.program.exists():
            raise WrongPython(
                f"cannot run {self.dialect.name}: it is not at {self.program}; the host installs it"
                f" with `hive runtime install {self.dialect.name}`"
            )

    def open(self, events: Events, _wire: str = "") -> CliRuntime:
        """A runtime whose lines go into `events`."""
        return CliRuntime(self, events)

    def close(self) -> None:
        self.forwarder.close()

    def render_system(self, context: Mapping[str, object]) -> str:
        """The system prompt of a new conversation, as the runtime of sessions renders it."""
        uid = self.place.uid
        as_user = {} if uid is None else {"user": uid, "group": uid, "extra_groups": []}
        try:
            done = subprocess.run(
                self.runtime.words(_PROMPTS), input=json.dumps(context).encode(errors="replace"),
                capture_output=True, timeout=_RENDER, check=False, cwd="/",
                env=self.runtime.variables,
                **as_user,  # type: ignore[call-overload]  # mypy does not unpack several types
            )  # fmt: skip
        except (OSError, subprocess.SubprocessError) as error:
            raise RuntimeGone(f"cannot render the prompt: {error}") from None
        if done.returncode:
            lines = done.stderr.decode(errors="replace").strip().splitlines()
            raise RuntimeGone(f"cannot render the prompt: {lines[-1] if lines else 'no reason'}")
        return str(done.stdout.decode(errors="replace"))

    def start(self, turn: CliTurn) -> subprocess.Popen[bytes]:
        """Start the process of one turn."""
        place, uid = self.place, self.place.uid
        place.make()
        self.forwarder.start()
        turn.url = self.forwarder.url
        as_user = {} if uid is None else {"user": uid, "group": uid, "extra_groups": []}
        environment = {
            **self.environment, "HOME": str(place.home), "HIVE_SOCKET": place.socket,
            "HIVE_WORKSPACE": str(place.workspace), "HIVE_TASK": turn.task,
            "HIVE_MESSAGE_ID": turn.letter, "NO_PROXY": "127.0.0.1,localhost",
            **self.dialect.environment(turn, place),
        }  # fmt: skip
        try:
            process: subprocess.Popen[bytes] = subprocess.Popen(
                [*self.dialect.words(str(self.program), turn, place)], stdin=subprocess.PIPE,
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=place.workspace,
                env=environment, start_new_session=True,
                **as_user,  # type: ignore[call-overload]
            )  # fmt: skip
        except (OSError, subprocess.SubprocessError) as error:
            raise RuntimeGone(f"cannot start {self.dialect.name}: {error}") from None
        return process


class CliRuntime:
    """One exchange after another; each `turn` starts the program, and `cancel` kills it."""

    def __init__(self, command: CliCommand, events: Events) -> None:
        self._command = command
        self._events = events
        self._process: subprocess.Popen[bytes] | None = None
        self._thread: threading.Thread | None = None
        self._kept = threading.Semaphore(0)
        self._cancelled = False
        self._lock = threading.Lock()

    @property
    def pid(self) -> int:
        """The process of the present turn; 0: none."""
        process = self._process
        return 0 if process is None else process.pid

    @property
    def is_alive(self) -> bool:
        """Nothing runs between turns, so nothing is to be kept."""
        return False

    def attach(self, events: Events) -> None:
        """Have the lines from now on in another queue."""
        self._events = events

    def send(self, line: Line, _history: bytes | None = None) -> None:
        """Take a line of the session."""
        match line.get("type"):
            case "turn":
                self._stop()
                self._cancelled, self._kept = False, threading.Semaphore(0)
                self._thread = threading.Thread(
                    target=self._run, args=(line, self._events), name="cli", daemon=True
                )
                self._thread.start()
            case "kept":
                self._kept.release()
            case "cancel":
                self._kill()
            case _:
                pass  # input that comes meanwhile is in the log: the next exchange has it

    def close(self) -> None:
        """End the process, and wait for it."""
        self._events = queue.SimpleQueue()
        self._stop()

    def _stop(self) -> None:
        self._kill()
        if self._thread is not None:
            self._thread.join(_MERCY)
            self._thread = None

    def _kill(self) -> None:
        with self._lock:
            self._cancelled = True
            process = self._process
        self._kept.release()
        if process is not None:
            kill_group(process)

    def _run(self, line: Line, events: Events) -> None:
        """One exchange, to its `end`."""
        try:
            end = self._exchange(line, events)
        except RuntimeGone as error:
            end = {"type": "end", "status": "error", "text": "", "error": error.reason}
        events.put(("line", dict(_CANCELLED) if self._cancelled else end))

    def _exchange(self, line: Line, events: Events) -> Line:
        turn = self._read_turn(line, events)
        rows = line.get("input")
        count = len(rows) if isinstance(rows, list) else 0
        is_last = turn.hands_back
        self._put(events, type="rendered", inputs=count, messages=[], last=is_last)
        self._put(events, type="begun", session=turn.session)
        self._kept.acquire()  # the log says that the turn has begun
        if self._cancelled:
            return dict(_CANCELLED)
        began = time.monotonic()
        outcome = self._drive(turn, events)
        if self._cancelled:
            return dict(_CANCELLED)
        latency = round(1000 * (time.monotonic() - began), 1)
        fields = {
            "model": outcome.model or turn.model, "provider": "", "cost": None,
            "usage": {"requests": outcome.requests, **outcome.usage}, "ttft_ms": outcome.ttft_ms,
            "latency_ms": latency,
        }  # fmt: skip
        if outcome.error:
            return {
                "type": "end", "status": "error", "text": outcome.text, "error": outcome.error,
                "error_kind": outcome.error_kind, **fields,
            }  # fmt: skip
        message = {"cli": self._command.dialect.name, "session": outcome.session or turn.session}
        self._put(
            events, type="response", seq=1, message=json.dumps(message), calls=[],
            text=outcome.text, tokens=0, replied=outcome.replied,
        )  # fmt: skip
        self._kept.acquire()
        return {"type": "end", "status": "limit" if is_last else "done", "text": outcome.text,
                **fields}  # fmt: skip

    def _read_turn(self, line: Line, events: Events) -> CliTurn:
        cli, settings = _table(line.get("cli")), _table(line.get("settings"))
        system = _table(line.get("system"))
        text = str(system.get("text") or "")
        if not text:
            text = self._command.render_system(_table(system.get("context")))
            self._put(events, type="system", text=text)
        known = str(cli.get("session") or "")
        if known and not self._command.dialect.is_known(self._command.place.home, known):
            known = ""
        rounds = settings.get("rounds")
        hands_back = settings.get("hands_back") is True or rounds == 0
        tools = _table(cli.get("tools"))
        size = settings.get("max_output")
        return CliTurn(
            session=known or self._command.dialect.new_session(),
            prompt=_prompt(line, interrupted=cli.get("begun") is True, hands_back=hands_back),
            system=text, model=str(line.get("model") or ""), task=str(settings.get("task") or ""),
            letter=str(cli.get("letter") or ""),
            tools={} if hands_back else {name: str(kind) for name, kind in tools.items()},
            hands_back=settings.get("hands_back") is True, is_new=not known,
            max_output=size if isinstance(size, int) else 0, locked=cli.get("locked") is True,
        )  # fmt: skip

    def _drive(self, turn: CliTurn, events: Events) -> CliOutcome:
        """Run the program to its end."""
        process = self._command.start(turn)
        with self._lock:
            self._process = process
            cancelled = self._cancelled
        if cancelled:
            kill_group(process)
        errors = _TailReader(process)
        outcome = CliOutcome()
        try:
            _write_all(process, self._command.dialect.stdin(turn))
            for row in _rows(process):
                before = outcome.session
                text = self._command.dialect.read(row, outcome)
                if outcome.session not in (before, turn.session):
                    self._put(events, type="begun", session=outcome.session)
                if text:
                    self._put(events, type="delta", text=text)
            status = process.wait()
        finally:
            kill_group(process)
            process.wait()
            with self._lock:
                self._process = None
        said = errors.close()
        if not outcome.ended and not outcome.error:
            outcome.error = (
                f"{self._command.dialect.name} ended with {status}: {said or 'no output'}"
            )
        return outcome

    def _put(self, events: Events, **line: object) -> None:
        events.put(("line", line))


class _TailReader:
    """Reads the errors of a process to their end, and keeps the last of them."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._tail = b""
        self._thread = threading.Thread(target=self._read, name="cli errors", daemon=True)
        self._thread.start()

    def close(self) -> str:
        """The last line."""
        self._thread.join(_MERCY)
        lines = self._tail.decode(errors="replace").strip().splitlines()
        return lines[-1][:500] if lines else ""

    def _read(self) -> None:
        stream = self._process.stderr
        while stream is not None and (data := stream.read1(_STDERR)):  # type: ignore[attr-defined]
            self._tail = (self._tail + data)[-_STDERR:]


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """Kill a program and all that it started in its group."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def _prompt(line: Line, *, interrupted: bool, hands_back: bool) -> str:
    rows = line.get("input")
    texts = [str(_table(row).get("text") or "") for row in rows] if isinstance(rows, list) else []
    if interrupted:
        texts.insert(0, INTERRUPTED)
    if hands_back:
        texts.append(HAND_BACK)
    return "\n\n".join(text for text in texts if text)


def _write_all(process: subprocess.Popen[bytes], data: bytes) -> None:
    with suppress(OSError):  # it has ended: its status says why
        if process.stdin is not None:
            process.stdin.write(data)
            process.stdin.close()


def _rows(process: subprocess.Popen[bytes]) -> Iterator[Mapping[str, object]]:
    """The objects that the process writes, one a line; other lines are for people."""
    stream = process.stdout
    while stream is not None and (line := stream.readline(LINE_MOST)):
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(row, dict):
            yield row


def _table(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}
