"""How the CLI of an agent is started: its program, its user, its environment."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from hive_core.agent.server_tools import SOCKET_NAME
from hive_core.agent.session.process_tree import kill_tree
from hive_core.agent.session.runtimes.builtin import RuntimeCommand, RuntimeGone
from hive_core.agent.session.runtimes.cli_dialect import (
    CliDialect,
    CliPlace,
    CliTurn,
)
from hive_core.agent.session.runtimes.forwarder import ModelForwarder
from hive_core.agent.session.server_socket import ServerToolSocket, TurnTools
from hive_core.agent.session.servers import McpServers

_PROMPTS: Final = "hive_core.runtime.prompts"
_RENDER: Final = 60.0
_STDERR: Final = 4096
_MERCY: Final = 5.0


@dataclass(slots=True)
class CliCommand:
    """How the CLI of this agent is started, and what it shares between turns."""

    dialect: CliDialect
    place: CliPlace
    runtime: RuntimeCommand
    forwarder: ModelForwarder
    environment: Mapping[str, str] = field(default_factory=dict)
    servers: McpServers | None = None

    @property
    def program(self) -> Path:
        return self.place.folder / "bin" / self.dialect.name

    def check(self) -> None:
        """Raise CliMissing where the CLI is not there."""
        self.dialect.check(self.program)

    def close(self) -> None:
        self.forwarder.close()

    def render_system(self, context: Mapping[str, object]) -> str:
        """The system prompt of a new conversation, as the runtime of sessions renders it."""
        try:
            done = subprocess.run(
                self.runtime.words(_PROMPTS), input=json.dumps(context).encode(errors="replace"),
                capture_output=True, timeout=_RENDER, check=False, cwd="/",
                env=self.runtime.variables,
                **self._user,  # type: ignore[call-overload]  # mypy does not unpack several types
            )  # fmt: skip
        except (OSError, subprocess.SubprocessError) as error:
            raise RuntimeGone(f"cannot render the prompt: {error}") from None
        if done.returncode:
            lines = done.stderr.decode(errors="replace").strip().splitlines()
            raise RuntimeGone(f"cannot render the prompt: {lines[-1] if lines else 'no reason'}")
        return str(done.stdout.decode(errors="replace"))

    def key(self, words: Sequence[str], turn: CliTurn) -> str:
        """What must be the same for a process to take another turn."""
        turn.url = self.forwarder.url
        environment = {**self._variables(turn), **self.dialect.environment(turn, self.place)}
        # A program reads its list of tools when it starts.
        names = [tool.name for tool in turn.server_tools]
        if turn.session_tool is not None:
            names.append(str(turn.session_tool.row["name"]))
        return json.dumps([words, environment, names], sort_keys=True)

    def start(self, words: Sequence[str], turn: CliTurn, key: str) -> CliProcess:
        """Start a process for this turn, and for those after it that have the same key."""
        self.place.make()
        self.dialect.prepare(self.place)
        self.forwarder.start()
        letter, tools = LetterFile(), None
        has_servers = self.servers is not None and self.servers.names
        if has_servers or turn.session_tool is not None:
            place = letter.path.with_name(SOCKET_NAME)
            tools = ServerToolSocket(place, self.servers, self.place.socket, self.place.uid)
        environment = {
            **self._variables(turn), "HIVE_MESSAGE_FILE": str(letter.path),
            **self.dialect.environment(turn, self.place),
        }  # fmt: skip
        shared = TurnFiles(letter, tools)
        shared.begin_turn(turn)
        try:
            process: subprocess.Popen[bytes] = subprocess.Popen(
                [*words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                cwd=self.place.workspace, env=environment, start_new_session=True,
                **self._user,  # type: ignore[call-overload]
            )  # fmt: skip
        except (OSError, subprocess.SubprocessError) as error:
            shared.close()
            raise RuntimeGone(f"cannot start {self.dialect.name}: {error}") from None
        return CliProcess(process, key, shared)

    @property
    def _user(self) -> Mapping[str, object]:
        uid = self.place.uid
        return {} if uid is None else {"user": uid, "group": uid, "extra_groups": []}

    def _variables(self, turn: CliTurn) -> Mapping[str, str]:
        place = self.place
        return {
            **self.environment, "HOME": str(place.home), "HIVE_SOCKET": place.socket,
            "HIVE_WORKSPACE": str(place.workspace), "HIVE_TASK": turn.task,
            "NO_PROXY": "127.0.0.1,localhost",
        }  # fmt: skip


class LetterFile:
    """The id of the letter that a process works on; its user reads it and cannot change it."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="hive-letter-"))
        self._folder.chmod(0o755)
        self.path = self._folder / "id"

    def write(self, letter: str) -> None:
        new = self._folder / "new"
        new.write_text(letter, encoding="utf-8")
        new.chmod(0o644)
        new.replace(self.path)

    def remove(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)


@dataclass(slots=True)
class TurnFiles:
    """What the MCP server of a process finds beside it: the letter, and tools of own servers."""

    letter: LetterFile
    tools: ServerToolSocket | None
    _present: tuple[CliTurn, TurnTools] | None = None

    def begin_turn(self, turn: CliTurn) -> None:
        self.letter.write(turn.letter)
        if self.tools is not None:
            offered = self.tools.begin_turn(turn.server_tools, turn.task, turn.session_tool)
            self._present = turn, offered

    def end_turn(self, turn: CliTurn) -> None:
        """End the calls of this turn that still run, unless another has begun."""
        present = self._present
        if self.tools is not None and present is not None and present[0] is turn:
            self.tools.end_turn(present[1])

    def close(self) -> None:
        if self.tools is not None:
            self.tools.close()
        self.letter.remove()


class CliProcess:
    """A process of a CLI. `key`: what a turn must have to be run by it."""

    def __init__(self, process: subprocess.Popen[bytes], key: str, files: TurnFiles) -> None:
        self.popen = process
        self.key = key
        self.files = files
        self._errors = ErrorTail(process)

    @property
    def pid(self) -> int:
        return self.popen.pid

    @property
    def is_alive(self) -> bool:
        return self.popen.poll() is None

    def kill(self) -> None:
        """Kill it and all that it started: commands have groups of their own."""
        if self.popen.returncode is None:  # else its number may be that of another process
            kill_tree(self.popen.pid)
            return
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.popen.pid, signal.SIGKILL)

    def end(self) -> str:
        """Kill it, and wait for it; the last line of its errors."""
        self.kill()
        self.popen.wait()
        self.files.close()
        return self._errors.close()


class ErrorTail:
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
