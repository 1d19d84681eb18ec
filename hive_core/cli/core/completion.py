"""`hive completion`: scripts that let shells complete commands, names and IDs."""

from __future__ import annotations

from typing import Final

import click
from click.shell_completion import BashComplete, FishComplete, ShellComplete, ZshComplete

from hive_core.cli.core.output import echo

_KINDS: Final = {"bash": BashComplete, "zsh": ZshComplete, "fish": FishComplete}


@click.command
@click.argument("shell", type=click.Choice(list(_KINDS)))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the completion script of a shell.

    `hive setup` installs the scripts of all three shells.

    For instance: source <(hive completion bash).
    """
    echo(completion_script(shell, ctx.find_root().command))


def completion_script(shell: str, command: click.Command) -> str:
    """The script for one shell, whichever version of the shell is installed."""
    return ShellComplete.source(_KINDS[shell](command, {}, "hive", "_HIVE_COMPLETE"))
