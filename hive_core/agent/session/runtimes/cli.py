"""A coding CLI as the runtime of a session: one process for each turn, which runs its own tools.

Towards the session it speaks the protocol of the built-in runtime. One exchange has one answer, the
text with which the CLI ends; what happens on the way is judged by hooks, grants and the broker. The
conversation itself is kept by the CLI in its home, under the id that the log of the session has.
"""

from __future__ import annotations

import json
import queue
import threading
import time
from dataclasses import dataclass
from typing import Final

from hive_core.agent.session.runtimes.acp import AcpDriver
from hive_core.agent.session.runtimes.builtin import Line, RuntimeGone
from hive_core.agent.session.runtimes.cli_command import CliCommand
from hive_core.agent.session.runtimes.cli_dialect import AcpDialect, CliTurn, ProcessDialect
from hive_core.agent.session.runtimes.cli_process import CliDriver, ProcessDriver
from hive_core.agent.session.runtimes.codex import CodexDialect
from hive_core.agent.session.runtimes.codex_driver import CodexDriver
from hive_core.agent.session.server_socket import SessionTool
from hive_core.agent.task_run import mapping

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
_MERCY: Final = 5.0
_CANCELLED: Final[Line] = {"type": "end", "status": "cancelled", "text": ""}


@dataclass(frozen=True, slots=True)
class _EventWatcher:
    """Passes on to the session what happens during a turn."""

    runtime: CliRuntime
    events: Events

    def is_cancelled(self) -> bool:
        return self.runtime.is_cancelled

    def on_text(self, text: str) -> None:
        _put(self.events, type="delta", text=text)

    def on_session(self, session: str) -> None:
        _put(self.events, type="begun", session=session)


class CliRuntime:
    """One exchange after another. `cancel` ends the present one."""

    def __init__(self, command: CliCommand, events: Events) -> None:
        self._command = command
        self._driver = _driver(command)
        self._events = events
        self._thread: threading.Thread | None = None
        self._kept = threading.Semaphore(0)
        self.is_cancelled = False

    @property
    def pid(self) -> int:
        """Process id of the CLI; 0 when none runs."""
        return self._driver.pid

    @property
    def is_alive(self) -> bool:
        """Whether a process waits for the next turn."""
        return self._driver.is_alive

    def attach(self, events: Events) -> None:
        """Have the lines from now on in another queue."""
        self._events = events

    def send(self, line: Line, _history: bytes | None = None) -> None:
        """Take a line of the session."""
        match line.get("type"):
            case "turn":
                self._stop()
                self.is_cancelled, self._kept = False, threading.Semaphore(0)
                self._thread = threading.Thread(
                    target=self._run, args=(line, self._events), name="cli", daemon=True
                )
                self._thread.start()
            case "kept":
                self._kept.release()
            case "cancel":
                self._cancel()
            case _:
                pass  # input that comes meanwhile is in the log: the next exchange has it

    def close(self) -> None:
        """End the process, and wait for it."""
        self._events = queue.SimpleQueue()
        self._stop()
        self._driver.close()

    def _stop(self) -> None:
        """End the previous exchange if it still runs."""
        thread, self._thread = self._thread, None
        if thread is not None and thread.is_alive():
            self._cancel()
            thread.join(_MERCY)

    def _cancel(self) -> None:
        self.is_cancelled = True
        self._kept.release()
        self._driver.cancel()

    def _run(self, line: Line, events: Events) -> None:
        """One exchange, to its `end`."""
        try:
            end = self._exchange(line, events)
        except RuntimeGone as error:
            end = {"type": "end", "status": "error", "text": "", "error": error.reason}
        events.put(("line", dict(_CANCELLED) if self.is_cancelled else end))

    def _exchange(self, line: Line, events: Events) -> Line:
        turn = self._read_turn(line, events)
        rows = line.get("input")
        count = len(rows) if isinstance(rows, list) else 0
        is_last = turn.hands_back
        _put(events, type="rendered", inputs=count, messages=[], last=is_last)
        _put(events, type="begun", session=turn.session)
        self._kept.acquire()  # the log says that the turn has begun
        if self.is_cancelled:
            return dict(_CANCELLED)
        began = time.monotonic()
        outcome = self._driver.run(turn, _EventWatcher(self, events))
        if self.is_cancelled:
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
        _put(
            events, type="response", seq=1, message=json.dumps(message), calls=[],
            text=outcome.text, tokens=0, replied=outcome.replied,
        )  # fmt: skip
        self._kept.acquire()
        return {"type": "end", "status": "limit" if is_last else "done", "text": outcome.text,
                **fields}  # fmt: skip

    def _read_turn(self, line: Line, events: Events) -> CliTurn:
        cli, settings = mapping(line.get("cli")), mapping(line.get("settings"))
        system = mapping(line.get("system"))
        text = str(system.get("text") or "")
        if not text:
            text = self._command.render_system(mapping(system.get("context")))
            _put(events, type="system", text=text)
        known = str(cli.get("session") or "")
        if known and not self._command.dialect.is_known(self._command.place.home, known):
            known = ""
        rounds = settings.get("rounds")
        hands_back = settings.get("hands_back") is True or rounds == 0
        tools, offered = mapping(cli.get("tools")), cli.get("server_tools")
        own = cli.get("session_tool")
        size, context = settings.get("max_output"), line.get("context")
        return CliTurn(
            session=known or self._command.dialect.new_session(),
            prompt=_prompt(line, interrupted=cli.get("begun") is True, hands_back=hands_back),
            system=text, model=str(line.get("model") or ""), task=str(settings.get("task") or ""),
            letter=str(cli.get("letter") or ""),
            tools={} if hands_back else {name: str(kind) for name, kind in tools.items()},
            server_tools=offered if isinstance(offered, tuple) and not hands_back else (),
            session_tool=own if isinstance(own, SessionTool) and not hands_back else None,
            hands_back=settings.get("hands_back") is True, is_new=not known,
            max_output=size if isinstance(size, int) else 0,
            context=context if isinstance(context, int) else 0, locked=cli.get("locked") is True,
        )  # fmt: skip


def _driver(command: CliCommand) -> CliDriver:
    dialect = command.dialect
    match dialect:
        case AcpDialect():
            return AcpDriver(command, dialect)
        case CodexDialect():
            return CodexDriver(command, dialect)
        case ProcessDialect():
            return ProcessDriver(command, dialect)
        case _:
            raise TypeError(f"{dialect.name} has no driver")


def _put(events: Events, **line: object) -> None:
    events.put(("line", line))


def _prompt(line: Line, *, interrupted: bool, hands_back: bool) -> str:
    rows = line.get("input")
    texts = [str(mapping(row).get("text") or "") for row in rows] if isinstance(rows, list) else []
    if interrupted:
        texts.insert(0, INTERRUPTED)
    if hands_back:
        texts.append(HAND_BACK)
    return "\n\n".join(text for text in texts if text)
