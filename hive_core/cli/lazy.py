"""Click groups: commands that are imported when they are used; a list where no command is named."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import click

if TYPE_CHECKING:
    from typing_extensions import override
else:  # importing typing_extensions would cost a tenth of the start

    def override(method: object) -> object:
        return method


_ROOM: Final = "hive_core.cli"


class LazyGroup(click.Group):
    """`table` maps a command to the module of this package that has it under the same name."""

    table: Mapping[str, str] = MappingProxyType({})

    @override
    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return list(self.table)

    @override
    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        if cmd_name not in self.table:
            return None
        module = importlib.import_module(f"{_ROOM}.{self.table[cmd_name]}")
        command: click.Command = getattr(module, cmd_name)
        return command

    @override
    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in self.table and not args[0].startswith("-"):
            ctx.fail(f"no command {args[0]!r}{meant(args[0], self.table)}")
        return super().resolve_command(ctx, args)


class ListGroup(click.Group):
    """Without a command it is `list`, whose options it takes then."""

    @override
    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        # While a shell completes a word, no word is none yet.
        alone = not ctx.resilient_parsing and (not args or args[0].startswith("-"))
        wanted = ["list", *args] if alone and not {"-h", "--help"} & set(args) else args
        return super().parse_args(ctx, wanted)

    @override
    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        del ctx
        formatter.write("\nWithout a command it is list.\n")


def meant(word: str, known: Iterable[str]) -> str:
    """`; did you mean alice?`, or nothing when nothing is near."""
    # difflib is wanted only where something went wrong.
    near: Callable[..., list[str]] = importlib.import_module("difflib").get_close_matches
    found = near(word, list(known), 3, 0.6)
    return f"; did you mean {' or '.join(found)}?" if found else ""
