"""`hive agent create`: a new agent, from options, a definition, or a script."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, TextIO

import click

from hive_core.agent.output import plain
from hive_core.cli.core.options import no_wait_option
from hive_core.cli.core.output import say
from hive_core.cli.core.parameters import parse_limits
from hive_core.cli.core.session import (
    Session,
    complete_agent,
    complete_definition,
    complete_words,
)
from hive_core.cli.host.install.images import enter
from hive_core.errors import HiveError, InvalidArgument
from hive_core.model.agents.capability import PLAIN

ROLES: Final = ("daemon", "agent", "architect", "lead", "worker", "task")
RUNTIMES: Final = ("builtin", "scripted", "claude", "codex", "opencode", "acp")
LIMITS: Final = (
    "memory_max", "memory_high", "tasks_max", "cpu_quota", "cpu_weight", "io_weight", "disk",
    "inodes",
)  # fmt: skip
SUBTREE_LIMITS: Final = ("memory_max", "tasks_max", "cpu_quota", "agents")
complete_limit: Final = complete_words(*(f"{key}=" for key in LIMITS))
complete_subtree_limit: Final = complete_words(*(f"{key}=" for key in SUBTREE_LIMITS))
# Folders of the machine that a container with the image `host` also has.
_SHARED: Final = ("/usr/", "/bin/", "/sbin/", "/lib", "/opt/hive/", "/run/", "/tree/")
VISIBLE: Final = (
    "it sees the programs of the machine in /usr and its own files in /tree/state; pass a script"
    " with --file, or copy the program with `hive cp`"
)
_NOT_FOUND: Final = 127  # env(1) and shells end so
_SCRIPT_MOST: Final = 24 * 1024
# Writes the script into the agent's folder at each start, so that the agent can read it there.
_START: Final = (
    'printf "%s" "$1" >"$2.new" && chmod 755 "$2.new" && mv -f "$2.new" "$2" && file=$2 &&'
    ' shift 2 && exec "./$file" "$@"'
)


@click.command
@click.argument("name")
@click.option("--parent", shell_complete=complete_agent,
              help='Parent; "" makes a root agent.  [default: the root agent]')  # fmt: skip
@click.option("--role", type=click.Choice(ROLES), help="Role (see `hive role`).  [default: agent]")
@click.option("--title", help="Title for people.")
@click.option("--tier", type=click.Choice(("strategic", "tactical", "operational")),
              help="Class of model that it uses.  [default: operational]")  # fmt: skip
@click.option("--runtime", type=click.Choice(RUNTIMES),
              help="What runs its model; without COMMAND the agent then runs its session."
              "  [default: nothing]")  # fmt: skip
@click.option("--model", metavar="ALIAS",
              help="Model of models.toml.  [default: that of its tier]")  # fmt: skip
@click.option("--definition", shell_complete=complete_definition,
              help="Definition for the values that no option sets.")  # fmt: skip
@click.option("--file", "script", type=click.File("r", encoding="utf-8"), metavar="SCRIPT",
              help="Script that the agent runs, with the words of COMMAND as arguments;"
              " at most 24K, stored with the agent.")  # fmt: skip
@click.option("--tool", "tools", multiple=True, metavar="TOOL[(ARGUMENT)]",
              help="Tool that it may use, such as 'bash(git *)' (repeatable).")  # fmt: skip
@click.option("--image", help="Image of hive.toml, or a directory with a prepared tree.")
@click.option("--boot/--no-boot", default=None, help="Run an init system in the container.")
@click.option("--capability", "add_capabilities", multiple=True, metavar="CAPABILITY",
              shell_complete=complete_words(*PLAIN),
              help="Capability in addition to those of its role (repeatable).")  # fmt: skip
@click.option("--only-capability", "capabilities", multiple=True, metavar="CAPABILITY",
              shell_complete=complete_words(*PLAIN),
              help="Capability instead of those of its role (repeatable).")  # fmt: skip
@click.option("--limit", "bounds", multiple=True, metavar="KEY=VALUE",
              shell_complete=complete_limit,
              help="Limit of its container, such as memory_max=512M or tasks_max=200"
              " (repeatable).")  # fmt: skip
@click.option("--subtree-limit", "subtree", multiple=True, metavar="KEY=VALUE",
              shell_complete=complete_subtree_limit,
              help="Limit of the agent together with all its descendants, such as memory_max=2G or"
              " agents=20 (repeatable).")  # fmt: skip
@click.option("--after-task", type=click.Choice(("stays", "sleeps", "exits")),
              help="Action after its last task.  [default: by role]")  # fmt: skip
@click.option("--wakes", is_flag=True, default=None, help="Let mail wake the agent when it sleeps.")
@no_wait_option
@click.argument("command", nargs=-1)
@click.pass_obj
def create(session: Session, /, name: str, script: TextIO | None, **options: object) -> None:
    """Create the agent NAME and start it.

    The words after -- are the command of the agent. Any program can be an agent; an agent without a
    command and without a runtime only collects mail. A container sees the programs of the machine
    in /usr, but not /home or /tmp: pass a script of your own with --file.
    """
    wait = not options.pop("no_wait")
    if "/" in str(options.get("image")):
        enter(str(options["image"]))
    command = options["command"] if isinstance(options["command"], tuple) else ()
    if script is not None:
        options["command"] = script_command(*read_script(script), command)
    elif options.get("image") is None:
        check_visible(command)
    bounds = {
        "limits": parse_limits(options.pop("bounds")),
        "subtree": parse_limits(options.pop("subtree")),
    }
    params = {**_spawn_params(options), **{key: value for key, value in bounds.items() if value}}
    reply = session.change("spawn", name=name, **params)
    say(f"{name} is {reply.get('uuid')}")
    try:
        session.finish(reply, f"starting {name}", wait=wait)
    except HiveError:
        for line in explain_end(session, name):
            say(line)
        raise


def explain_end(session: Session, name: str) -> Iterator[str]:
    """What is known of the end of a new agent: its last line, and what a missing program means."""
    with suppress(HiveError):  # the command has an error of its own to report
        end = session.ask("get_agent", agent=name).get("last_end")
        if isinstance(end, dict):
            if lines := plain(str(end.get("output") or "")).splitlines():
                yield f"{name} wrote: {lines[-1]}"
            if end.get("code") == _NOT_FOUND:
                yield f"127 means that a program was not found in the container: {VISIBLE}"


def _spawn_params(options: Mapping[str, object]) -> dict[str, object]:
    """The options that were set, as JSON types."""
    params = {
        key: list(value) if isinstance(value, tuple) else value for key, value in options.items()
    }
    return {key: value for key, value in params.items() if value is not None and value != []}


def read_script(script: TextIO) -> tuple[str, str]:
    """Text and file name of the script of `--file`."""
    text = script.read()
    return text, Path(script.name).name.strip("-<>") or "script"


def script_command(text: str, file: str, arguments: Sequence[str] = ()) -> tuple[str, ...]:
    """The command that writes a script into the agent's folder, and runs it there."""
    if not text.startswith("#!"):
        raise InvalidArgument(
            f"{file} must begin with a line that names its interpreter, such as #!/usr/bin/env "
            "python3",
            field="file",
        )
    if len(text.encode()) > _SCRIPT_MOST:
        raise InvalidArgument(
            f"{file} is larger than {_SCRIPT_MOST} bytes: create the agent without --file, copy the"
            f" program with `hive cp`, and set it with `hive agent set --command`", field="file",
        )  # fmt: skip
    return ("/bin/sh", "-c", _START, "sh", text, file, *arguments)


def check_visible(command: Sequence[str]) -> None:
    """Refuse a program of this machine that a container cannot see, since its start would fail."""
    program = command[0] if command else ""
    if program.startswith("/") and not program.startswith(_SHARED) and Path(program).is_file():
        raise InvalidArgument(
            f"{program} is not visible in a container: {VISIBLE}",
            field="command",
        )
