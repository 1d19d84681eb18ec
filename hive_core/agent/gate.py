"""`hive-agent gate`: what a CLI calls before and after each use of a tool of its own.

It reads the JSON that hooks of Claude Code get on standard input. Before a use it requests a grant,
as `hive-agent tool` does, so role, list and plan lock decide; after it the grant is returned. The
answer allows or denies; whatever else happens is an exit status that denies. A CLI goes on with the
use when its hook does not end in time, so the gate ends before that.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hive_core.agent import output
from hive_core.agent.reconnect import Link
from hive_core.agent.tool_input import command_words
from hive_core.errors import HiveError, InvalidArgument

ABOUT: Final = "Judge a use of a tool by a CLI: its hooks call this before and after each one."
DENIED: Final = 2  # the status of a hook that blocks
_INPUT_MOST: Final = 8 << 20
PATIENCE: Final = 15.0  # seconds without a daemon until the use is denied
_DEADLINE: Final = 45.0  # seconds until it ends by a signal; a CLI gives its hooks 60
_SECONDS: Final = 600.0  # that a command of a CLI may take
_OWN: Final = "mcp__hive__"  # operations: the daemon judges each of them itself
_CONFIG: Final = Path("/run/hive/config")
_PATHS: Final[Mapping[str, tuple[str, str]]] = {
    "Read": ("read", "file_path"), "Edit": ("edit", "file_path"), "Write": ("edit", "file_path"),
    "Glob": ("list", "path"), "Grep": ("search", "path"),
}  # fmt: skip
_PATCHED: Final = re.compile(
    r"^\*\*\* (?:(?:Add|Update|Delete) File|Move to): (.+?)\s*$", re.MULTILINE
)
_PATCHED_MOST: Final = 8
_WHOLE: Final = frozenset({"list", "search"})


@dataclass(frozen=True, slots=True)
class ToolUse:
    """One use, as the hook describes it."""

    id: str
    name: str
    values: Mapping[str, object]

    @classmethod
    def read(cls, data: bytes) -> ToolUse:
        """InvalidArgument if the bytes do not describe a use."""
        try:
            row = json.loads(data)
            values = row["tool_input"]
            use = cls(str(row["tool_use_id"]), str(row["tool_name"]), values)
        except (ValueError, RecursionError, TypeError, KeyError) as error:
            raise InvalidArgument(f"not the input of a hook: {error}", field="input") from None
        if not isinstance(values, dict) or not use.id:
            raise InvalidArgument("not the input of a hook", field="tool_input")
        return use


@dataclass(frozen=True, slots=True)
class GateRequest:
    """What the daemon is asked for: a tool of execution and its argument."""

    tool: str
    argument: list[str]
    seconds: float = 30.0


def requested_tools(use: ToolUse, workspace: Path) -> list[GateRequest]:
    """What this use needs; empty where it needs no grant. InvalidArgument where it is none of ours.

    Operations of hive need none here, since the daemon judges them when they are called; nor does
    the deployed configuration, which every program of the agent may read.
    """
    if use.name.startswith(_OWN):
        return []
    if use.name == "Bash":
        if use.values.get("run_in_background"):
            raise InvalidArgument(
                "cannot run a program in the background", field="run_in_background"
            )
        words = list(command_words(str(use.values.get("command") or "")))
        return [GateRequest("bash", words, _SECONDS)]
    if use.name == "apply_patch":
        return _patched_files(use, workspace)
    if use.name not in _PATHS:
        raise InvalidArgument(f"hive has no tool {use.name[:64]!r}", field="tool_name")
    tool, key = _PATHS[use.name]
    return _requested_path(tool, key, str(use.values.get(key) or ""), workspace)


def _patched_files(use: ToolUse, workspace: Path) -> list[GateRequest]:
    """A grant for each file of a patch, as Codex writes them."""
    patch = str(use.values.get("command") or use.values.get("input") or "")
    names = dict.fromkeys(_PATCHED.findall(patch))
    if not 0 < len(names) <= _PATCHED_MOST:
        raise InvalidArgument(
            f"the patch has {len(names)} files; it may have 1 to {_PATCHED_MOST}", field="command"
        )
    return [row for name in names for row in _requested_path("edit", "command", name, workspace)]


def _requested_path(tool: str, key: str, name: str, workspace: Path) -> list[GateRequest]:
    path = Path(os.path.realpath(workspace / name))
    root = Path(os.path.realpath(workspace))
    if tool != "edit" and path.is_relative_to(os.path.realpath(_CONFIG)):
        return []
    if not path.is_relative_to(root) or (path == root and tool not in _WHOLE):
        raise InvalidArgument(f"{path} is not in your workspace, {workspace}", field=key)
    return [GateRequest(tool, [] if path == root else [path.relative_to(root).as_posix()])]


def run_gate(path: str, arguments: Sequence[str], deadline: float = _DEADLINE) -> int:
    """Run the command. At the deadline SIGALRM ends the process, which denies."""
    signal.setitimer(signal.ITIMER_REAL, deadline)
    try:
        return _judge(path, arguments)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _judge(path: str, arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser("hive-agent gate", description=ABOUT)
    parser.add_argument(
        "verb", choices=("begin", "end", "fail"), help="before a use, after it, after its failure"
    )
    parser.add_argument(
        "--silent",
        action="store_true",
        help="say nothing where the use is allowed, as Codex expects",
    )
    chosen = parser.parse_args(arguments)
    verb = chosen.verb
    try:
        use = ToolUse.read(sys.stdin.buffer.read(_INPUT_MOST))
        if verb == "begin":
            _begin(path, use, silent=chosen.silent)
        else:
            _end(path, use, "ok" if verb == "end" else "failed")
    except (HiveError, OSError) as error:
        if verb != "begin":
            return 0  # the grant expires by itself
        output.complaint(output.sentence(error) if isinstance(error, HiveError) else str(error))
        return DENIED
    return 0


def _begin(path: str, use: ToolUse, *, silent: bool) -> None:
    try:
        needed = requested_tools(use, _workspace())
        if needed:
            _take_grants(path, use, needed)
    except HiveError as error:
        _answer("deny", output.sentence(error))
    else:
        if not silent:
            _answer("allow", "")


def _take_grants(path: str, use: ToolUse, needed: list[GateRequest]) -> None:
    grants = take_grants(path, needed, os.environ.get("HIVE_TASK", ""))
    place = _grant_file(use.id)
    place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    place.write_text("\n".join(grants), encoding="ascii")


def take_grants(
    path: str, needed: Sequence[GateRequest], task: str, patience: float = PATIENCE
) -> list[str]:
    """All of them, or none: what was granted before a refusal is returned."""
    grants: list[str] = []
    with Link(path, patience, patience) as link:
        try:
            for row in needed:
                reply = link.change(
                    "use_tool", tool=row.tool, argument=row.argument, task=task,
                    seconds=row.seconds,
                )  # fmt: skip
                grants.append(str(reply["grant"]))
        except HiveError:
            _return_grants(link, grants, "failed")
            raise
    return grants


def return_grants(path: str, grants: Sequence[str], status: str) -> None:
    """Return the grants of a use that has ended."""
    with Link(path, PATIENCE, PATIENCE) as link:
        _return_grants(link, grants, status)


def _end(path: str, use: ToolUse, status: str) -> None:
    place = _grant_file(use.id)
    with suppress(FileNotFoundError):
        grants = place.read_text("ascii").split()
        place.unlink()
        return_grants(path, grants, status)


def _return_grants(link: Link, grants: Sequence[str], status: str) -> None:
    for grant in grants:
        link.change("end_tool", grant=grant, status=status)


def _grant_file(use: str) -> Path:
    home = Path(os.environ.get("HOME") or "/tmp")  # noqa: S108 - of the container
    return home / ".hive" / "grants" / hashlib.sha256(use.encode(errors="replace")).hexdigest()[:32]


def _workspace() -> Path:
    return Path(os.environ.get("HIVE_WORKSPACE") or Path.cwd())


def _answer(decision: str, reason: str) -> None:
    output.line(json.dumps({
        "hookSpecificOutput": {
            "hookEventName": "PreToolUse", "permissionDecision": decision,
            "permissionDecisionReason": reason,
        }
    }))  # fmt: skip
