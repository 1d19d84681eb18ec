"""Click groups that import commands on use; a group without a command lists."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Final

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem
    from typing_extensions import override
else:  # importing typing_extensions would cost a tenth of the start

    def override(method: object) -> object:
        return method


_PACKAGE: Final = "hive_core.cli"
_FEW: Final = 12
_SENTENCE: Final = 300  # the first sentence of every help text fits
_OF_LISTS: Final = frozenset({"-h", "--help", "-o", "--output"})
_NO_NAMES: Final[Mapping[str, str]] = MappingProxyType({})


class Group(click.Group):
    """A group that suggests a command for a misspelt name, and lists all commands without a name.

    `lazy` maps a command to its module in this package, `MODULE` or `MODULE:NAME`; `unlisted` does
    the same for names that the help does not list: aliases, and names of older releases. `aliases`
    maps a hidden name to the command of this group that it stands for.
    """

    lazy: ClassVar[Mapping[str, str]] = _NO_NAMES
    unlisted: ClassVar[Mapping[str, str]] = _NO_NAMES

    def __init__(self, *names: Any, **attributes: Any) -> None:  # noqa: ANN401 - what click takes
        self.aliases: Mapping[str, str] = {"ls": "list", **attributes.pop("aliases", {})}
        super().__init__(*names, **attributes)

    @override
    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return [*self.lazy, *sorted(name for name in self.commands if name not in self.lazy)]

    def unlisted_commands(self, ctx: click.Context) -> list[str]:
        """Names that work but are not in the help."""
        known = self.list_commands(ctx)
        aliases = (name for name, command in self.aliases.items() if command in known)
        return sorted({*self.unlisted, *aliases} - set(known))

    @override
    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        name = cmd_name
        if name not in self.commands and name not in self.lazy and name not in self.unlisted:
            name = self.aliases.get(name, name)
        place = self.lazy.get(name) or self.unlisted.get(name)
        if place is None:
            return super().get_command(ctx, name)
        module, _, attribute = place.partition(":")
        command: click.Command = getattr(
            importlib.import_module(f"{_PACKAGE}.{module}"), attribute or name
        )
        return command

    @override
    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        word = args[0]
        if not word.startswith("-") and not ctx.resilient_parsing:
            command = self.get_command(ctx, word)
            if command is None:
                known = self.list_commands(ctx)
                ctx.fail(
                    f"no command {word!r}{suggestion(word, known) or _alternatives(ctx, known)}"
                )
            return word, command, args[1:]
        return super().resolve_command(ctx, args)

    @override
    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        self.section("Commands", self.list_commands(ctx), ctx, formatter)

    def format_all_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write every command, also those that the short help of this group omits."""
        self.format_commands(ctx, formatter)

    def section(
        self, heading: str, names: Iterable[str], ctx: click.Context, formatter: click.HelpFormatter
    ) -> None:
        """Write whole sentences; click's own list cuts them at the width of the terminal."""
        rows = [(name, command.get_short_help_str(_SENTENCE)) for name in names
                if (command := self.get_command(ctx, name)) is not None]  # fmt: skip
        with formatter.section(heading):
            formatter.write_dl(rows)


class ListGroup(Group):
    """A group with a `list` command: it is the default, and the group takes its options."""

    def __init__(self, *names: Any, **attributes: Any) -> None:  # noqa: ANN401 - what click takes
        super().__init__(*names, **{"invoke_without_command": True, **attributes})

    def is_list(self, ctx: click.Context, args: Sequence[str]) -> bool:
        """Whether these words are arguments of `list`."""
        del ctx
        return not args or args[0].startswith("-")

    @override
    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        # While a shell completes a word, a missing word is not an empty list.
        bare = not ctx.resilient_parsing and self.is_list(ctx, args)
        wanted = ["list", *args] if bare and not {"-h", "--help"} & set(args) else args
        return super().parse_args(ctx, wanted)

    @override
    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        formatter.write(f"\nWithout a command, {ctx.command_path} is {ctx.command_path} list.\n")


class NameListGroup(ListGroup):
    """A ListGroup that also takes the argument of `list` without this word: `hive inbox alice`."""

    @override
    def is_list(self, ctx: click.Context, args: Sequence[str]) -> bool:
        return super().is_list(ctx, args) or self.get_command(ctx, args[0]) is None

    @override
    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        items = super().shell_complete(ctx, incomplete)
        command = self.get_command(ctx, "list")
        for parameter in command.params if command is not None else ():
            if isinstance(parameter, click.Argument):
                items += parameter.shell_complete(ctx, incomplete)
        return items


class FormerGroup(NameListGroup):
    """A NameListGroup that was one command in older releases: other words are those of `former`."""

    def __init__(self, *names: Any, former: str, **attributes: Any) -> None:  # noqa: ANN401 - what click takes
        super().__init__(*names, **attributes)
        self.former = former

    @override
    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        is_known = not args or args[0] in _OF_LISTS or self.get_command(ctx, args[0]) is not None
        is_former = not is_known and not ctx.resilient_parsing
        return super().parse_args(ctx, [self.former, *args] if is_former else args)


def suggestion(word: str, known: Iterable[str]) -> str:
    """`; did you mean alice?`, or "" when no known word is similar."""
    # difflib is needed only after an error.
    close: Callable[..., list[str]] = importlib.import_module("difflib").get_close_matches
    near = close(word, list(known), 3, 0.6)
    return f"; did you mean {' or '.join(near)}?" if near else ""


def _alternatives(ctx: click.Context, known: Sequence[str]) -> str:
    """The names of the commands, or how to list them."""
    if len(known) > _FEW:
        return f"; `{ctx.command_path} --help` lists them"
    return f"; there are {', '.join(known)}"
