"""`hive-agent tool`: requests one use of a tool, runs it, and reports how it ended."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NoReturn

from hive_core.agent import output, program, workspace
from hive_core.agent.derived_commands import split_command
from hive_core.agent.reconnect import Link
from hive_core.errors import HiveError, TimedOut

ABOUT: Final = "Use a tool: read or edit a file of the workspace, or run a program."
SECONDS: Final = 30.0
_ALIASES: Final = {
    "file_reader": "read", "read_file": "read", "edit_file": "edit", "write": "edit",
    "write_file": "edit", "command": "bash", "run_command": "bash",
}  # fmt: skip


def run_tool(path: str, arguments: Sequence[str]) -> int:
    """Run the command; the exit status of `bash` is that of its program, 124 after a timeout."""
    before, words = split_command(_with_separator(arguments))
    options = _parser().parse_args(before)
    name = _ALIASES.get(options.tool, options.tool)
    if name == "bash" and not words:
        _parser().error("the program is missing: hive-agent tool bash -- PROGRAM...")
    argument = list(words or ()) if name == "bash" else [options.path]
    if argument == [None]:
        _parser().error("the path is missing")
    # Read the text to write first, so that a grant does not wait for standard input.
    content = sys.stdin.buffer.read() if name == "edit" and options.old is None else b""
    with Link(path) as link:
        grant = str(link.change(
            "use_tool", tool=options.tool, argument=argument, task=options.task,
            seconds=options.timeout,
        )["grant"])  # fmt: skip
        return _use_grant(link, grant, lambda: _use_tool(name, options, argument, (grant, content)))


def _with_separator(arguments: Sequence[str]) -> list[str]:
    """`bash ls -l` as `bash -- ls -l`: all words after the tool's own options are the program's."""
    words, tool, at = list(arguments), "", 0
    while at < len(words) and words[at] != "--":
        word = words[at]
        if word.startswith("-"):
            # Each option except that for help has a value.
            at += 1 if "=" in word or word in ("-h", "--help") else 2
        elif tool:
            return [*words[:at], "--", *words[at:]]
        elif _ALIASES.get(word, word) != "bash":
            return words
        else:
            tool, at = word, at + 1
    return words


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "hive-agent tool", description=ABOUT,
        usage="hive-agent tool [options] read|edit PATH\n"
              "       hive-agent tool [options] bash [--] PROGRAM...",
    )  # fmt: skip
    names = ["bash", "edit", "read", *_ALIASES]
    parser.add_argument("tool", choices=names, metavar="TOOL", help="read, edit, bash, or an alias")
    parser.add_argument("path", nargs="?", help="file to read or edit, below the workspace")
    parser.add_argument("--task", default="", help="task that the tool is used for")
    parser.add_argument(
        "--timeout", type=float, default=SECONDS, help="time limit of bash in seconds (default 30)"
    )
    parser.add_argument(
        "--old",
        help="edit: text to replace, which must occur once (default: replace the whole file by"
        " standard input)",
    )
    parser.add_argument("--new", default="", help="edit: the new text")
    parser.add_argument(
        "--start", type=_file_offset, default=0, help="read: offset in bytes (default 0)"
    )
    parser.add_argument(
        "--root", type=Path, help="the workspace (default: HIVE_WORKSPACE, or the agent's state)"
    )
    return parser


def _file_offset(text: str) -> int:
    """An offset in a file."""
    offset = int(text)
    if not 0 <= offset < 1 << 62:
        raise ValueError(text)
    return offset


def _use_grant(link: Link, grant: str, use: Callable[[], int]) -> int:
    """Use the grant and return it, also after an error."""
    signal.signal(signal.SIGTERM, _exit_on_term)
    status, detail = "killed", ""
    try:
        code = use()
        status, detail = ("ok", "") if code == 0 else ("failed", f"exit status {code}")
    except TimedOut as error:
        status, detail = "timeout", error.reason
        raise
    except (HiveError, OSError, UnicodeDecodeError) as error:
        status, detail = "failed", str(error)
        raise
    finally:
        # The grant expires by itself if this call fails.
        with suppress(HiveError):
            link.change("end_tool", grant=grant, status=status, detail=detail[:900])
    return code


def _exit_on_term(_number: int, _frame: object) -> NoReturn:
    sys.exit(128 + signal.SIGTERM)


def _use_tool(
    name: str, options: argparse.Namespace, argument: Sequence[str], use: tuple[str, bytes]
) -> int:
    root, (grant, content) = _workspace_root(options.root), use
    if name == "bash":
        wanted = program.ProgramCall(argument, root, grant, options.timeout, workspace.MOST)
        return _run_program(wanted)
    if name == "read":
        data, size = workspace.read(root, argument[0], options.start)
        _write_output(1, data)
        if options.start + len(data) < size:
            output.complaint(
                f"cut at byte {options.start + len(data)} of {size}; continue with --start"
            )
    elif options.old is None:
        workspace.write(root, argument[0], content)
    else:
        workspace.edit(root, argument[0], options.old, options.new)
    return 0


def _run_program(wanted: program.ProgramCall) -> int:
    end = program.run(wanted)
    _write_output(1, end.out)
    _write_output(2, end.err)
    if end.cut:
        output.complaint(f"the output was cut at {wanted.most} bytes")
    if end.code is None:
        raise TimedOut(f"{wanted.words[0]} did not end in {wanted.seconds:g} s and was killed")
    return end.code


def _write_output(way: int, data: bytes) -> None:
    with open(way, "wb", closefd=False) as file:
        file.write(data)


def _workspace_root(root: Path | None) -> Path:
    """The workspace: the option, or the agent's own state, or the current folder."""
    if root is not None:
        return root
    if place := os.environ.get("HIVE_WORKSPACE"):
        return Path(place)
    own = Path("/agents", os.environ.get("HIVE_NAME", "-"), "state")
    return own if own.is_dir() else Path.cwd()
