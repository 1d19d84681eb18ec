"""`hive completion`: the script that teaches a shell to complete hive's commands and agents."""

from __future__ import annotations

from typing import Final

import click
from click.shell_completion import BashComplete, FishComplete, ZshComplete

from hive_core.cli.core.output import echo

_KINDS: Final = {"bash": BashComplete, "zsh": ZshComplete, "fish": FishComplete}


@click.command
@click.argument("shell", type=click.Choice(list(_KINDS)))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the completion script of a shell.

    For instance: source <(hive completion bash).
    """
    echo(_KINDS[shell](ctx.find_root().command, {}, "hive", "_HIVE_COMPLETE").source())
