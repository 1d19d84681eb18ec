"""What an ACP agent may do: each use of a tool of its own needs a grant of the daemon.

The agent asks before a use (`session/request_permission`), and the daemon is asked for the grant. A
use that it did not ask about is judged when it is told to have ended; the turn does not outlive one
that has no grant. Whatever cannot be judged is refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hive_core.agent import output
from hive_core.agent.gate import (
    PATIENCE,
    GateRequest,
    ToolUse,
    requested_tools,
    return_grants,
    take_grants,
)
from hive_core.agent.session.runtimes.cli_dialect import SERVED
from hive_core.agent.task_run import mapping
from hive_core.errors import HiveError, InvalidArgument, NotAllowed

Fields = Mapping[str, object]
# Tools of the gate, by the kinds of ACP.
_KINDS: Final[Mapping[str, tuple[str, str]]] = {
    "execute": ("Bash", "command"), "read": ("Read", "file_path"), "edit": ("Edit", "file_path"),
    "delete": ("Edit", "file_path"), "move": ("Edit", "file_path"), "search": ("Grep", "path"),
    "fetch": ("fetch", "url"),
}  # fmt: skip
_PATHS: Final = ("file_path", "filePath", "filepath", "path", "abs_path")
_FILES_MOST: Final = 8
_TEXTS: Final = ("kind", "title")
_REFUSED: Final[Fields] = {"outcome": {"outcome": "cancelled"}}


@dataclass(frozen=True, slots=True)
class AcpTools:
    """The agent's tools by name with their kinds, none in a last call. `server`: the name under
    which the program has the operations of hive. `harmless`: first titles of uses that do nothing.
    """

    kinds: Mapping[str, str]
    server: str = "hive"
    harmless: frozenset[str] = frozenset()


class AcpGate:
    """The uses of one turn. What the MCP server of hive serves needs no grant here: operations are
    judged by the daemon, and tools of the agent's own servers by the session, when they are called.
    """

    def __init__(
        self, socket: str, workspace: Path, task: str, tools: AcpTools, patience: float = PATIENCE
    ) -> None:
        self._socket = socket
        server = re.escape(tools.server)
        prefix = rf"(?:mcp__{server}__|mcp\.{server}\.|{server}[_./:])"
        self._operation = re.compile(rf"{prefix}([\w-]+)(?:[^\w-].*)?", re.ASCII)
        self._patience = patience
        self._workspace = workspace
        self._task = task
        self._tools = tools
        self._uses: dict[str, dict[str, object]] = {}
        self._grants: dict[str, list[str]] = {}
        self._judged: set[str] = set()
        self.refusals: list[str] = []

    def decide(self, params: Fields) -> Fields:
        """The answer to a request for permission: the grant of one use, or a refusal."""
        call, options = mapping(params.get("toolCall")), params.get("options")
        rows = [mapping(row) for row in options] if isinstance(options, list) else []
        chosen = {str(row.get("kind")): row.get("optionId") for row in reversed(rows)}
        try:
            self._judge(self._merge(call))
            if "allow_once" not in chosen:
                raise NotAllowed("cannot allow one use: the agent offers no such answer")
        except (HiveError, OSError) as error:
            self.refusals.append(
                output.sentence(error) if isinstance(error, HiveError) else str(error)
            )
            if "reject_once" not in chosen:
                return _REFUSED
            return {"outcome": {"outcome": "selected", "optionId": chosen["reject_once"]}}
        return {"outcome": {"outcome": "selected", "optionId": chosen["allow_once"]}}

    def note(self, update: Fields) -> Fields:
        """Take news of a use; all that is known of it. NotAllowed: it ended without a grant."""
        use = self._merge(update)
        name, status = str(use["toolCallId"]), update.get("status")
        if status == "completed" and name not in self._judged:
            self._judge(use)
        if status in ("completed", "failed"):
            self._return(name, "ok" if status == "completed" else "failed")
        return use

    def called_operation(self, use: Fields) -> str:
        """The operation of hive that a use calls; empty: none."""
        named = mapping(mapping(use.get("_meta")).get("claudeCode")).get("toolName")
        if named:
            return self._operation_of(named)
        return "" if use.get("kind") in _KINDS else str(use.get("titled") or "")

    def _operation_of(self, name: object) -> str:
        """The operation that a tool of this name is; empty: none."""
        match = self._operation.fullmatch(str(name or ""))
        return match[1] if match else ""

    def close(self) -> None:
        """Return the grants of uses whose end was not told."""
        for name in list(self._grants):
            self._return(name, "failed")

    def _merge(self, news: Fields) -> Fields:
        use = self._uses.setdefault(str(news.get("toolCallId") or ""), {"toolCallId": ""})
        values = {**mapping(use.get("rawInput")), **mapping(news.get("rawInput"))}
        use |= {key: value for key in _TEXTS if (value := news.get(key))}
        if news.get("locations"):
            use["locations"] = news["locations"]
        use |= {"toolCallId": str(news.get("toolCallId") or ""), "rawInput": values}
        use["_meta"] = mapping(news.get("_meta")) or use.get("_meta")
        # A title may change to what the use has brought.
        use.setdefault("first", use.get("title"))
        use["titled"] = self._operation_of(news.get("title")) or use.get("titled", "")
        return use

    def _judge(self, use: Fields) -> None:
        name = str(use["toolCallId"])
        if name in self._judged:
            raise NotAllowed("cannot allow the same use twice")
        self._judged.add(name)
        needed = self._requests(use)
        if needed:
            self._grants[name] = take_grants(self._socket, needed, self._task, self._patience)

    def _requests(self, use: Fields) -> list[GateRequest]:
        """What a use needs; InvalidArgument where it is none of ours."""
        if not use["toolCallId"]:
            raise InvalidArgument("a use of a tool has no id", field="toolCallId")
        if not self._tools.kinds:
            raise NotAllowed("cannot use a tool: the turn is to end with a report")
        kind = str(use.get("kind") or "other")
        if self._tools.kinds.get(self.called_operation(use)) in SERVED:
            return []
        if kind not in _KINDS and use.get("first") in self._tools.harmless:
            return []
        if kind not in _KINDS:
            raise InvalidArgument(f"hive has no tool {str(use.get('title'))[:64]!r}", field="kind")
        tool, key = _KINDS[kind]
        uses = [ToolUse(str(use["toolCallId"]), tool, {key: row}) for row in _arguments(kind, use)]
        return [row for tool_use in uses for row in requested_tools(tool_use, self._workspace)]

    def _return(self, name: str, status: str) -> None:
        grants = self._grants.pop(name, None)
        if grants:
            return_grants(self._socket, grants, status)


def _arguments(kind: str, use: Fields) -> Sequence[object]:
    """The command or the files that a use is about."""
    values = mapping(use.get("rawInput"))
    if kind == "execute":
        command = values.get("command")
        text = " ".join(map(str, command)) if isinstance(command, list) else command
        if not text:
            raise InvalidArgument("the agent names no command", field="command")
        return [text]
    if kind == "fetch":
        return [values.get("url")]
    rows = use.get("locations")
    places = [mapping(row).get("path") for row in rows] if isinstance(rows, list) else []
    places += [values[key] for key in _PATHS if values.get(key)]
    names = list(dict.fromkeys(str(place) for place in places if place))
    if kind == "search":
        return names[:1] or ["."]
    if not 0 < len(names) <= _FILES_MOST:
        raise InvalidArgument(
            f"a use names {len(names)} files; it may name 1 to {_FILES_MOST}", field="locations"
        )
    return names
