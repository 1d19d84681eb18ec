"""Runs the calls of a model: an operation at the broker, or a tool of execution in the workspace.

After a crash each kind is taken up differently. An operation runs again under its idempotency key,
so that it has its first result. Reading runs again. An edit is judged by the digest of the file.
Everything else is never run again: its effect is unknown, and the model is told so.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from hive_core.agent import catalog, workspace
from hive_core.agent.output import sentence
from hive_core.agent.reconnect import Link
from hive_core.agent.session.records import Record
from hive_core.agent.session.recovery import INTERRUPTED
from hive_core.agent.session.server_calls import ServerCallRunner
from hive_core.agent.session.servers import ServerTool
from hive_core.agent.session.state import ToolCall
from hive_core.agent.session.toolset import SERVER_TOOL
from hive_core.agent.skills import FILE
from hive_core.errors import HiveError, TimedOut, Unreachable

EDIT, CREATE_COLONY = "edit", "create_colony"
# `hive-agent` of this installation, whatever the path of Python says in the agent's environment.
MAIN_PROGRAM: Final = (
    f"import sys; sys.path.insert(0, {str(Path(__file__).parents[3])!r});"
    " from hive_core.agent.main import main; main()"
)
READS: Final = frozenset({"read", "list", "search"})
OUTPUT_MOST: Final = 512 * 1024
_MERCY: Final = 2.0
_AWAY: Final = (0.2, 0.5, 1.0, 2.0, 5.0)
# Parameters that stand for the only task of the agent where they are absent. A session has several,
# with `parallel` or beside one that waits: then it is the task of the turn.
_TASK_OF_TURN: Final[Mapping[str, str]] = {
    "finish_task": "task", "report_progress": "task", "assign_task": "part_of",
    "spawn_agent_and_assign_task": "part_of",
}  # fmt: skip
NOT_AN_OBJECT: Final = "the arguments are not a JSON object"


@dataclass(frozen=True, slots=True)
class CallAnswer:
    """What a model reads of its call."""

    content: str
    is_error: bool = False


@dataclass(slots=True)
class ToolPlace:
    """Where and as whom tools of execution run. `uid` None: as the session itself.

    `reads`: the workspace of the parent, for what a sub-agent reads and does not have itself.
    """

    workspace: Path
    socket: str
    uid: int | None = 1000
    command: tuple[str, ...] = (sys.executable, "-I", "-c", MAIN_PROGRAM)
    reads: Path | None = None
    own_group: bool = True

    def folder_for(self, call: ToolCall) -> Path:
        """The folder in which a call works."""
        path = str(call.arguments.get("path") or "")
        if self.reads is None or call.name not in READS:
            return self.workspace
        is_own = path.strip("./") and os.path.lexists(self.workspace / path)
        return self.workspace if is_own else self.reads


class CallRunner:
    """Runs one call after another; another thread may stop the program of the one that runs."""

    def __init__(
        self, link: Link, place: ToolPlace, stop: threading.Event,
        servers: ServerCallRunner | None = None, server_tools: Iterable[ServerTool] = (),
    ) -> None:  # fmt: skip
        self._link = link
        self._servers = servers
        self._server_tools = {tool.name: tool for tool in server_tools}
        self._place = place
        self._stop = stop
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()

    def start_fields(self, call: ToolCall, kind: str) -> Record:
        """What the log keeps of a call before it runs: for an edit, the digests around it."""
        if kind != "execution" or call.name != EDIT:
            return {}
        before = self._content(call)
        return {"before": _digest(before), "after": _digest(_content_after(before, call.arguments))}

    def run(self, call: ToolCall, kind: str, task: str, more: Mapping[str, object]) -> CallAnswer:
        """Run a call; `more`: parameters of the session's own, beside those of the model."""
        if kind == SERVER_TOOL:
            return self._run_server_tool(call, task)
        if kind == "execution":
            return self._run_tool(call, task)
        return self._run_operation(call, task, more)

    def run_again(
        self, call: ToolCall, kind: str, task: str, more: Mapping[str, object]
    ) -> CallAnswer:
        """Answer a call that an earlier process began and did not finish."""
        if kind != SERVER_TOOL and (kind != "execution" or call.name in READS):
            return self.run(call, kind, task, more)
        started = call.started or {}
        if started.get("after"):
            present = _digest(self._content(call))
            if present == started["before"]:
                return self.run(call, kind, task, more)
            if present == started["after"]:
                return CallAnswer("done (confirmed after an interruption)")
        return CallAnswer(INTERRUPTED, is_error=True)

    def kill(self) -> None:
        """End the program of the call that runs now."""
        if self._servers is not None:
            self._servers.kill()
        with self._lock:
            process = self._process
        if process is None:
            return
        # `hive-agent tool` kills what it started, and returns its grant.
        with suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_MERCY)
            return
        _kill_group(process)

    def _run_server_tool(self, call: ToolCall, task: str) -> CallAnswer:
        tool = self._server_tools.get(call.name)
        if tool is None or self._servers is None:
            return CallAnswer(f"the MCP server of {call.name} does not run", is_error=True)
        try:
            done = self._servers.run(call, tool, task)
        except HiveError as error:
            return CallAnswer(error_text(error), is_error=True)
        return CallAnswer(done.content[:OUTPUT_MOST], done.is_error)

    def _run_operation(self, call: ToolCall, task: str, more: Mapping[str, object]) -> CallAnswer:
        allowed = _parameters().get(call.name, frozenset())
        params = {
            **_task_of_turn(call, task), **call.arguments,
            **{key: value for key, value in more.items() if key in allowed},
        }  # fmt: skip
        if call.name == CREATE_COLONY:
            params["skill"] = self._skill(str(call.arguments.get("skill_path") or ""))
        if "idempotency_key" in allowed:
            params["idempotency_key"] = call.key
        tries = 0
        while True:
            try:
                return CallAnswer(_compact(self._link.ask(call.name, **params)))
            except (Unreachable, TimedOut):
                self._link.close()
                # The key makes a repetition harmless, so the daemon may take its time.
                if self._stop.wait(_AWAY[min(tries, len(_AWAY) - 1)]):
                    raise
                tries += 1
            except HiveError as error:
                return CallAnswer(error_text(error), is_error=True)

    def _skill(self, folder: str) -> str:
        """The text of the SKILL.md in a folder of the workspace; empty where there is none."""
        path = f"{folder.removeprefix('./').rstrip('/')}/{FILE}"
        try:
            return workspace.read(self._place.workspace, path)[0].decode(errors="replace")
        except (HiveError, OSError):
            return ""

    def _run_tool(self, call: ToolCall, task: str) -> CallAnswer:
        words = [*self._place.command, "tool", "--json", *(["--task", task] if task else []),
                 call.name]  # fmt: skip
        uid, folder = self._place.uid, self._place.folder_for(call)
        as_user = {} if uid is None else {"user": uid, "group": uid, "extra_groups": []}
        environment = {
            **os.environ, "HOME": str(self._place.workspace), "HIVE_SOCKET": self._place.socket,
            "HIVE_WORKSPACE": str(folder),
        }  # fmt: skip
        try:
            process = subprocess.Popen(
                words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                cwd=folder, env=environment, start_new_session=self._place.own_group,
                **as_user,  # type: ignore[call-overload]
            )  # fmt: skip
        except (OSError, subprocess.SubprocessError) as error:
            return CallAnswer(f"cannot run {call.name}: {error}", is_error=True)
        with self._lock:
            self._process = process
        try:
            out, err = process.communicate(json.dumps(call.arguments).encode(errors="replace"))
        finally:
            with self._lock:
                self._process = None
        return _tool_outcome(process.returncode, out, err)

    def _content(self, call: ToolCall) -> bytes | None:
        """The file that an edit is about; None where there is none that can be read."""
        path = str(call.arguments.get("path") or "").removeprefix("./").rstrip("/")
        try:
            return workspace.read(self._place.workspace, path)[0]
        except (HiveError, OSError):
            return None


def _task_of_turn(call: ToolCall, task: str) -> Mapping[str, object]:
    """The parameter of the call that names the task of the turn, where the model named none."""
    name = _TASK_OF_TURN.get(call.name)
    return {name: task} if name and task and "task_id" not in call.arguments else {}


@cache
def _parameters() -> Mapping[str, frozenset[str]]:
    """The parameters of each operation; read with the first call, as few idle agents need it."""
    return {row.name: frozenset(flag.name for flag in row.flags) for row in catalog.load()}


def _content_after(before: bytes | None, arguments: Mapping[str, object]) -> bytes | None:
    new = str(arguments.get("new") or "").encode(errors="replace")
    old = arguments.get("old")
    if old is None:
        return new
    # An empty digest where the edit will be refused: then nothing can be confirmed.
    return None if before is None else before.replace(str(old).encode(errors="replace"), new, 1)


def _digest(content: bytes | None) -> str:
    return "" if content is None else hashlib.sha256(content).hexdigest()


def _tool_outcome(status: int, out: bytes, err: bytes) -> CallAnswer:
    parts = [text for data in (out, err) if (text := data.decode(errors="replace").strip("\n"))]
    if status:
        parts.append(f"[exit status {status}]")
    text = "\n".join(parts)[:OUTPUT_MOST]
    return CallAnswer(text or "[no output]", is_error=status != 0)


def _compact(reply: Mapping[str, object]) -> str:
    return json.dumps(reply, ensure_ascii=False, separators=(",", ":"))


def error_text(error: HiveError) -> str:
    fields = {"error": type(error).__name__, "reason": sentence(error)}
    return json.dumps({**fields, **error.fields}, ensure_ascii=False, default=str)


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.kill()
