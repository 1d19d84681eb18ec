"""`hive agent set`: another command, title, model or limits for an agent, as one commit."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Final, TextIO

import click

from hive_core.cli.agents.create import RUNTIMES, complete_limit, read_script, script_command
from hive_core.cli.core.options import no_wait_option
from hive_core.cli.core.output import say, words
from hive_core.cli.core.parameters import parse_limits
from hive_core.cli.core.session import Session, complete_agent, entries
from hive_core.cli.core.units import format_size

BYTES: Final = frozenset({"memory_max", "memory_high", "disk"})


def show_limits(limits: object) -> str:
    """Limits as they are written on a command line."""
    pairs = limits.items() if isinstance(limits, dict) else ()
    return " ".join(f"{words(key)}={format_bound(key, value)}" for key, value in pairs) or "-"


def format_bound(key: object, value: object) -> str:
    return format_size(value) if key in BYTES and isinstance(value, int) else words(value)


@click.command("set")
@click.argument("name", shell_complete=complete_agent)
@click.option(
    "--command",
    metavar="COMMAND",
    help="Command, with its words quoted as for a shell; '' removes the command.",
)
@click.option(
    "--file",
    "script",
    type=click.File("r", encoding="utf-8"),
    metavar="SCRIPT",
    help="Script that the agent runs instead of a command; it is stored with the agent.",
)
@click.option(
    "--limit",
    "bounds",
    multiple=True,
    metavar="KEY=VALUE",
    shell_complete=complete_limit,
    help="Limit of its container, such as memory_max=512M; KEY= restores the default of the host"
    " (repeatable).",
)
@click.option("--title", help="Title for people.")
@click.option(
    "--runtime",
    type=click.Choice(("none", *RUNTIMES)),
    help="What runs its model; none: only its command runs.",
)
@click.option(
    "--model", metavar="ALIAS", help="Model of models.toml; '' restores that of its tier."
)
@click.option(
    "--egress",
    multiple=True,
    metavar="NAME:PORT",
    help="Where it may connect to, of what hive.toml allows (repeatable); '' restores all of that.",
)
@click.option("--restart", is_flag=True, help="Restart the agent, so that it uses the change now.")
@no_wait_option
@click.pass_obj
def set_(
    session: Session, /, name: str, script: TextIO | None, *, restart: bool, no_wait: bool,
    **options: object,
) -> None:  # fmt: skip
    """Change command, runtime, model, limits, egress rules or title of the agent NAME.

    The change is one commit of the meta repository, which the command prints. Title and egress
    rules apply at once, the rest from the next start of a running agent on.
    """
    params = _set_params(script, options)
    if not params:
        raise click.UsageError(
            "name what to change: --command, --file, --runtime, --model, --limit, --egress or"
            " --title"
        )
    reply = session.change("set_agent", agent=name, **params)
    if reply.get("changed"):
        (commit,) = entries(session.ask("meta_log", limit=1), "commits")
        subject = words(str(commit.get("message")).partition("\n")[0])
        say(f"commit {words(commit.get('commit'))[:12]}: {subject}")
    else:  # an earlier change may not have been taken up yet
        say(f"{name}: no change")
        reply = session.ask("get_agent", agent=name)
    if not reply.get("restart_needed"):
        return
    if restart:
        session.finish(
            session.change("restart", agent=name), f"restarting {name}", wait=not no_wait
        )
    else:
        say(f"{name} runs as before until its next start: `hive restart {name}`")


def _set_params(script: TextIO | None, options: Mapping[str, object]) -> dict[str, object]:
    """The parameters of the operation `set_agent`."""
    params: dict[str, object] = {
        key: options[key] for key in ("title", "runtime", "model") if options[key] is not None
    }
    if options["command"] is not None and script is not None:
        raise click.UsageError("set --command or --file, not both")
    if options["command"] is not None:
        params["command"] = _split(str(options["command"]))
    if script is not None:
        params["command"] = list(script_command(*read_script(script)))
    if rules := options["egress"]:
        params["egress"] = [rule for rule in rules if rule] if isinstance(rules, tuple) else []
    bounds = options["bounds"] if isinstance(options["bounds"], tuple) else ()
    limits: dict[str, int | None] = {
        **parse_limits(tuple(pair for pair in bounds if not pair.endswith("=")))
    }
    limits |= {pair[:-1].strip(): None for pair in bounds if pair.endswith("=")}
    if limits:
        params["limits"] = limits
    return params


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise click.UsageError(f"--command: {error}") from error
