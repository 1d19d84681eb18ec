"""A CLI that reads prompts and writes lines: one process for each turn, or one that is kept."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Protocol

from hive_core.agent.session.runtimes.builtin import LINE_MOST
from hive_core.agent.session.runtimes.cli_command import CliCommand, CliProcess
from hive_core.agent.session.runtimes.cli_dialect import CliOutcome, CliTurn, ProcessDialect


class TurnWatcher(Protocol):
    """Receives what happens during a turn from a driver."""

    def on_text(self, text: str) -> None:
        """New text of the model."""
        ...

    def on_session(self, session: str) -> None:
        """The CLI has chosen the id of the conversation."""
        ...

    def is_cancelled(self) -> bool:
        """Whether the turn was cancelled. Called once the driver has a process to kill."""
        ...


class CliDriver(Protocol):
    """Runs the turns of one CLI. `cancel` and `close` come from other threads."""

    @property
    def pid(self) -> int:
        """Its process; 0: none runs now."""
        ...

    @property
    def is_alive(self) -> bool:
        """Whether a process waits for the next turn."""
        ...

    def run(self, turn: CliTurn, watcher: TurnWatcher) -> CliOutcome:
        """Run one turn to its end."""
        ...

    def cancel(self) -> None:
        """End the present turn."""
        ...

    def close(self) -> None:
        """End the process."""
        ...


class ProcessDriver:
    """Starts the program for a turn. Where the CLI can take another prompt, its process is kept."""

    def __init__(self, command: CliCommand, dialect: ProcessDialect) -> None:
        self._command = command
        self._dialect = dialect
        self._process: CliProcess | None = None
        self._session = ""
        self._lock = threading.Lock()

    @property
    def pid(self) -> int:
        process = self._process
        return 0 if process is None else process.pid

    @property
    def is_alive(self) -> bool:
        process = self._process
        return process is not None and process.is_alive

    def run(self, turn: CliTurn, watcher: TurnWatcher) -> CliOutcome:
        before = self.pid
        process = self._take(turn)
        outcome = self._run(process, turn, watcher)
        if process.pid == before and not outcome.began and not watcher.is_cancelled():
            # It ended while it waited, and has not read the prompt.
            outcome = self._run(self._take(turn), turn, watcher)
        return outcome

    def _run(self, process: CliProcess, turn: CliTurn, watcher: TurnWatcher) -> CliOutcome:
        outcome = CliOutcome()
        status, said, keeps = 0, "", False
        if watcher.is_cancelled():
            process.kill()
        try:
            _write_all(process.popen, self._dialect.stdin(turn), ends=not self._dialect.keeps)
            self._read(process, turn, outcome, watcher)
            keeps = self._dialect.keeps and outcome.ended and not outcome.error
            if not (self._dialect.keeps and outcome.ended):
                status = process.popen.wait()
        finally:
            process.files.end_turn(turn)
            if not keeps:
                said = self._end(process)
        if not outcome.ended and not outcome.error:
            outcome.error = f"{self._dialect.name} ended with {status}: {said or 'no output'}"
        self._session = outcome.session or turn.session
        return outcome

    def cancel(self) -> None:
        with self._lock:
            process = self._process
        if process is not None:
            process.kill()

    def close(self) -> None:
        self.cancel()
        with self._lock:
            process = self._process
        if process is not None:
            self._end(process)

    def _take(self, turn: CliTurn) -> CliProcess:
        """The process of the previous turn if it can run this one; else a new process."""
        key = self._command.key(self._words(replace(turn, session="", is_new=True)), turn)
        with self._lock:
            process = self._process
        if process is not None:
            if process.is_alive and process.key == key and self._session == turn.session:
                process.files.begin_turn(turn)
                return process
            self._end(process)
        process = self._command.start(self._words(turn), turn, key)
        with self._lock:
            self._process = process
        return process

    def _words(self, turn: CliTurn) -> list[str]:
        program = str(self._command.program)
        return [*self._dialect.words(program, turn, self._command.place)]

    def _read(
        self, process: CliProcess, turn: CliTurn, outcome: CliOutcome, watcher: TurnWatcher
    ) -> None:
        for row in read_rows(process.popen):
            before, outcome.began = outcome.session, True
            text = self._dialect.read(row, outcome)
            if outcome.session not in (before, turn.session):
                watcher.on_session(outcome.session)
            if text:
                watcher.on_text(text)
            if outcome.ended and self._dialect.keeps:
                return

    def _end(self, process: CliProcess) -> str:
        """Kill the process with its children; return the last line of its stderr."""
        said = process.end()
        with self._lock:
            if self._process is process:
                self._process = None
        return said


def _write_all(process: subprocess.Popen[bytes], data: bytes, *, ends: bool) -> None:
    with suppress(OSError, ValueError):  # it has ended: its status says why
        if process.stdin is not None:
            process.stdin.write(data)
            process.stdin.flush()
            if ends:
                process.stdin.close()


def read_rows(
    process: subprocess.Popen[bytes], most: int = LINE_MOST
) -> Iterator[Mapping[str, object]]:
    """The objects that the process writes, one a line; other lines are for people."""
    stream = process.stdout
    while stream is not None and (line := stream.readline(most)):
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(row, dict):
            yield row
