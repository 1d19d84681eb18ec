"""`hive-agent tool`: requests one use of a tool, runs it, and reports how it ended.

A session starts it for each call of a tool, and it takes little more than its imports: what only
some calls need is imported there.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NoReturn

from hive_core.agent import file_walk, output, program, tool_input, workspace
from hive_core.agent.derived_commands import split_command
from hive_core.agent.reconnect import Link
from hive_core.agent.tool_input import ToolInput
from hive_core.errors import HiveError, TimedOut

ABOUT: Final = "Use a tool: read, list, search or edit files of the workspace, or run a program."


def run_tool(path: str, arguments: Sequence[str]) -> int:
    """Run the command; the exit status of `bash` is that of its program, 124 after a timeout."""
    options, use = _parse_arguments(arguments)
    if use.name == tool_input.READ_SKILL:
        _read_skill(path, use.skill)
        return 0
    with Link(path) as link:
        grant = str(link.change(
            "use_tool", tool=use.tool, argument=use.argument, task=options.task,
            seconds=use.seconds,
        )["grant"])  # fmt: skip
        root = _workspace_root(options.root)
        return _with_grant(link, grant, lambda: _use_tool(use, root, grant))


def _read_skill(path: str, name: str) -> None:
    from hive_core.agent.skill_text import skill_text  # noqa: PLC0415 - as the docstring says

    with Link(path) as link:
        _write_output(1, skill_text(link, name).encode())


def _parse_arguments(arguments: Sequence[str]) -> tuple[argparse.Namespace, ToolInput]:
    before, words = split_command(_with_separator(arguments))
    options = _parser().parse_args(before)
    # Read what is to be written first, so that a grant does not wait for standard input.
    if options.json:
        return options, tool_input.parse_input(options.tool, sys.stdin.buffer.read())
    name = tool_input.tool_name(options.tool)
    if name == "bash":
        if not words:
            _parser().error("the program is missing: hive-agent tool bash -- PROGRAM...")
        return options, ToolInput(options.tool, words=tuple(words), seconds=options.timeout)
    return options, _file_use(name, options)


def _file_use(name: str, options: argparse.Namespace) -> ToolInput:
    """A use of a file or folder, as the command line names it."""
    paths = list(options.words)
    pattern = ""
    if name == tool_input.READ_SKILL:
        return ToolInput(options.tool, skill="".join(paths))
    if name == "search":
        if not paths:
            _parser().error("the regular expression is missing")
        pattern = paths.pop(0)
    if len(paths) > 1 or (not paths and name not in ("list", "search")):
        _parser().error("name one path" if paths else "the path is missing")
    new = options.new.encode()
    if name == "edit" and options.old is None:
        new = sys.stdin.buffer.read()
    return ToolInput(
        options.tool, path="".join(paths), start=options.start, old=options.old, new=new,
        pattern=pattern, seconds=options.timeout,
    )  # fmt: skip


def _with_separator(arguments: Sequence[str]) -> list[str]:
    """`bash ls -l` as `bash -- ls -l`: all words after the tool's own options are the program's."""
    words, tool, at = list(arguments), "", 0
    while at < len(words) and words[at] != "--":
        word = words[at]
        if word.startswith("-"):
            # Each option except these has a value.
            at += 1 if "=" in word or word in ("-h", "--help", "--json") else 2
        elif tool:
            return [*words[:at], "--", *words[at:]]
        elif tool_input.tool_name(word) != "bash":
            return words
        else:
            tool, at = word, at + 1
    return words


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "hive-agent tool", description=ABOUT,
        usage="hive-agent tool [options] read|edit|undo PATH\n"
              "       hive-agent tool [options] list [PATH]\n"
              "       hive-agent tool [options] search PATTERN [PATH]\n"
              "       hive-agent tool [options] bash [--] PROGRAM...\n"
              "       hive-agent tool read_skill NAME\n"
              "       hive-agent tool [options] --json TOOL",
    )  # fmt: skip
    parser.add_argument(
        "tool", choices=tool_input.NAMES, metavar="TOOL",
        help=f"{', '.join(tool_input.TOOLS)}, or an alias",
    )  # fmt: skip
    parser.add_argument(
        "words", nargs="*", metavar="PATH", help="file or folder, below the workspace"
    )
    parser.add_argument("--task", default="", help="task that the tool is used for")
    parser.add_argument(
        "--timeout", type=float, default=tool_input.SECONDS,
        help="time limit of bash and search in seconds (default 30)",
    )  # fmt: skip
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
        "--json", action="store_true",
        help="read the parameters from standard input, as one JSON object (see list-toolset)",
    )  # fmt: skip
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


def _with_grant(link: Link, grant: str, use: Callable[[], int]) -> int:
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


def _use_tool(use: ToolInput, root: Path, grant: str) -> int:
    match use.name:
        case "bash":
            most = workspace.MOST
            return _run_program(program.ProgramCall(use.words, root, grant, use.seconds, most))
        case "read":
            _read_file(use, root)
        case "list":
            _write_lines(*file_walk.listing(root, use.path), "entries; list a smaller folder")
        case "search":
            matches = file_walk.search(root, use.path, use.pattern, use.seconds)
            _write_lines(*matches, "matches; search a smaller folder or for less")
        case _:
            _change_file(use, root)
    return 0


def _change_file(use: ToolInput, root: Path) -> None:
    from hive_core.agent import edit_history  # noqa: PLC0415 - as the docstring says

    if use.name == "undo":
        output.line(edit_history.undo(root, use.path))
    elif use.old is None:
        edit_history.write(root, use.path, use.new)
    else:
        edit_history.edit(root, use.path, use.old, use.new.decode())


def _read_file(use: ToolInput, root: Path) -> None:
    data, size = workspace.read(root, use.path, use.start)
    _write_output(1, data)
    if use.start + len(data) < size:
        end = use.start + len(data)
        output.complaint(f"cut at byte {end} of {size}; continue with --start {end}")


def _write_lines(text: str, cut: bool, rest: str) -> None:  # noqa: FBT001 - of one call's result
    _write_output(1, text.encode())
    if cut:
        output.complaint(f"there are more {rest}")


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
