"""The command line starts quickly because of what it does not import."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import click
import pytest
from each import for_each

from hive_core.cli import main
from hive_core.cli.core.help import all_commands
from hive_core.cli.start import socket_of_top

CHECKOUT = str(Path(main.__file__).parents[2])


@for_each("words", [["--help"], ["tree"], ["call", "whoami"], ["agent", "--help"]])
def test_no_heavy_module_is_imported(words: list[str]) -> None:
    script = (
        f"import sys; sys.path.insert(0, {CHECKOUT!r}); from hive_core.cli.main import run\n"
        f"run(['--socket', '/nowhere', *{words!r}]); print(*sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", script], capture_output=True, text=True, check=True
    )
    heavy = {"pydantic", "pygit2", "asyncio", "sqlite3", "typing_extensions", "dbus_fast",
             "hive_core.broker.operation", "hive_core.model.agents.agent"}  # fmt: skip
    if words == ["tree"]:
        heavy |= {"shutil", "pathlib", "subprocess", "argparse"}
    assert heavy.isdisjoint(done.stdout.split())


@pytest.mark.parametrize(("to", "says"), [
    ("/dev/full", "No space left on device\n"), ("a reader that left", ""),
])  # fmt: skip
def test_unwritten_output_is_no_success(to: str, says: str) -> None:
    read, write = os.pipe()
    os.close(read)
    out = write if to != "/dev/full" else os.open(to, os.O_WRONLY)
    script = (
        f"import sys; sys.path.insert(0, {CHECKOUT!r}); sys.argv[1:] = ['--version']\n"
        "from hive_core.cli.main import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", script], stdout=out, stderr=subprocess.PIPE, text=True,
        check=False,
    )  # fmt: skip
    for descriptor in {out, write}:
        os.close(descriptor)
    assert done.returncode == 1
    assert done.stderr.endswith(says) if says else not done.stderr


def test_a_closed_standard_output_is_no_error() -> None:
    """A socket of ours would get the number, and what is printed with it."""
    script = (
        f"import sys; sys.path.insert(0, {CHECKOUT!r}); sys.argv[1:] = ['--version']\n"
        "from hive_core.cli.main import main; main()"
    )
    closed = f'exec {sys.executable} -I -c "$0" <&- >&-'
    done = subprocess.run(
        ["sh", "-c", closed, script], stderr=subprocess.PIPE, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_every_command_of_the_table_exists() -> None:
    with click.Context(main.hive) as context:
        for name in main.COMMANDS:
            command = main.hive.get_command(context, name)
            assert command is not None
            assert command.name == name


def test_the_help_names_every_command_once() -> None:
    shown = " ".join(main.SECTIONS.values()).split()
    assert sorted(shown) == sorted(main.COMMANDS)
    root = click.Context(main.hive, info_name="hive", **main.hive.context_settings)
    text = all_commands(root).splitlines()
    assert [line.split()[0] for line in text if line.startswith("  ") and line.split()[0] in shown
            and line[2] != " "] == shown  # fmt: skip
    assert all(len(line) <= 80 for line in text)


@for_each(
    "line, socket",
    [("top", "/run/hive/operator.sock"), ("--socket /s top", "/s"), ("top -b", None),
     ("top --help", None), ("status", None), ("", None)],
)  # fmt: skip
def test_only_top_without_options_starts_without_click(line: str, socket: str | None) -> None:
    assert socket_of_top(line.split(), {}) == socket
    assert socket_of_top(line.split(), {"_HIVE_COMPLETE": "bash_complete"}) is None


def test_the_socket_of_the_environment_counts_for_top() -> None:
    assert socket_of_top(["top"], {"HIVE_OPERATOR_SOCKET": "/e"}) == "/e"
    assert socket_of_top(["--socket", "/s", "top"], {"HIVE_OPERATOR_SOCKET": "/e"}) == "/s"


def test_the_first_screen_loads_neither_click_nor_dataclasses() -> None:
    """Each takes as long as all the rest; the first screen is to come in 50 ms."""
    code = (
        "import sys, hive_core.cli.start, hive_core.cli.agents.top_terminal\n"
        "print([name for name in ('click', 'dataclasses', 'inspect') if name in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout == "[]\n"
