"""Click groups: commands that are imported when they are used; a list where no command is named."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import click

if TYPE_CHECKING:
    from typing_extensions import override
else:  # importing typing_extensions would cost a tenth of the start

    def override(method: object) -> object:
        return method


_ROOM: Final = "hive_core.cli"
_FEW: Final = 12
_SENTENCE: Final = 300  # no first sentence is longer


class Group(click.Group):
    """Says which command may have been meant, and without one what there is."""

    @override
    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        known, word = self.list_commands(ctx), args[0]
        if word == "ls" and "list" in known:
            args = ["list", *args[1:]]
        elif word not in known and not word.startswith("-") and not ctx.resilient_parsing:
            ctx.fail(f"no command {word!r}{meant(word, known) or _all(ctx, known)}")
        return super().resolve_command(ctx, args)

    @override
    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        names = self.list_commands(ctx)
        self.section("Commands", names, ctx, formatter)

    def section(
        self, heading: str, names: Iterable[str], ctx: click.Context, formatter: click.HelpFormatter
    ) -> None:
        """Whole sentences: click's own list cuts them at the edge of the terminal."""
        rows = [(name, command.get_short_help_str(_SENTENCE)) for name in names
                if (command := self.get_command(ctx, name)) is not None]  # fmt: skip
        with formatter.section(heading):
            formatter.write_dl(rows)


class LazyGroup(Group):
    """`table` maps a command to the module of this package that has it under the same name.

    `sections` are their names by heading, for the help.
    """

    table: Mapping[str, str] = MappingProxyType({})
    sections: Mapping[str, str] = MappingProxyType({})

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
    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for heading, names in self.sections.items():
            self.section(heading, names.split(), ctx, formatter)


class ListGroup(Group):
    """Things that can be listed: without a command it is `list`, whose options it takes then."""

    def __init__(self, *words: Any, **said: Any) -> None:  # noqa: ANN401 - what click takes
        super().__init__(*words, **{"invoke_without_command": True, **said})

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


def _all(ctx: click.Context, known: Sequence[str]) -> str:
    """What there is instead, or where it is said."""
    if len(known) > _FEW:
        return f"; `{ctx.command_path} --help` lists them"
    return f"; there are {', '.join(known)}"
