"""`hive help` and `hive version`."""

from __future__ import annotations

import click

from hive_core import VERSION
from hive_core.cli.core.lazy import Group, suggestion
from hive_core.cli.core.output import echo


@click.command(context_settings={"ignore_unknown_options": True})
@click.option(
    "--all", "everything", is_flag=True, help="List all commands, not only the common ones."
)
@click.argument("command", nargs=-1, metavar="[COMMAND]...")
@click.pass_context
def help(ctx: click.Context, command: tuple[str, ...], *, everything: bool) -> None:  # noqa: A001 - its name
    """Show the help of COMMAND; without COMMAND, list the commands."""
    root = ctx.find_root()
    if everything and not command:
        echo(all_commands(root))
        return
    context = root
    for word in command:
        group = context.command
        below = group.get_command(context, word) if isinstance(group, click.Group) else None
        if below is None:
            names = group.list_commands(context) if isinstance(group, click.Group) else []
            path = f"{context.command_path} {word}"
            raise click.UsageError(f"no command {path!r}{suggestion(word, names)}")
        context = click.Context(below, parent=context, info_name=word)
    echo(context.get_help())


def all_commands(root: click.Context) -> str:
    """The usage of `hive` with every command under its heading."""
    formatter, command = root.make_formatter(), root.command
    command.format_usage(root, formatter)
    command.format_help_text(root, formatter)
    if isinstance(command, Group):
        command.format_all_commands(root, formatter)
    return formatter.getvalue().rstrip("\n")


@click.command
def version() -> None:
    """Print the version of hive."""
    echo(f"hive {VERSION}")
