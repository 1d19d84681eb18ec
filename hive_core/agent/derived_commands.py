"""Commands derived from operations.json: required parameters are positional, others flags."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import Final

from hive_core.agent import catalog, output
from hive_core.agent.current_message import current_message
from hive_core.agent.reconnect import Link, new_key
from hive_core.varlink import Message

_HIDDEN: Final = ("idempotency_key", "after")
# One flag name for each meaning, also where wire names differ. The wire name works too, but is not
# in the help.
_SHOWN_AS: Final = {"why": "--reason"}
IN_TURN_OF: Final = "in_turn_of"
_RESUMED: Final = ("subscribe",)  # flags that name the number to continue from


def parser_of(name: str, summary: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(f"hive-agent {name}", description=summary, allow_abbrev=False)
    parser.add_argument(
        "-o", "--output", choices=("text", "json"),
        default="text" if sys.stdout.isatty() else "json",
        help="output format: text, or JSON (default when the output is not a terminal)",
    )  # fmt: skip
    return parser


def _value_parser(flag: catalog.Flag) -> Callable[[str], object]:
    """A `type` for argparse, which prints the function's name: it gets the name of the type."""

    def parse(text: str) -> object:
        return flag.parse(text)

    parse.__name__ = flag.kind
    return parse


def _item_parser(flag: catalog.Flag) -> Callable[[str], object]:
    """A `type` for argparse, for one entry of a list."""

    def parse(text: str) -> object:
        return flag.item(text)

    parse.__name__ = flag.kind
    return parse


def _add_flag(parser: argparse.ArgumentParser, flag: catalog.Flag) -> None:
    words = flag.choices
    text = flag.help.replace("%", "%%") + (f" One of {', '.join(words)}." if words else "")
    option = f"--{flag.name.replace('_', '-')}"
    if flag.kind == "boolean":
        action = argparse.BooleanOptionalAction
        parser.add_argument(option, dest=flag.name, action=action, default=None, help=text)
    elif flag.kind == "array" and flag.positional:
        parser.add_argument(flag.name, nargs="+", type=_item_parser(flag), choices=words,
                            metavar=flag.name, help=text)  # fmt: skip
    elif flag.kind == "array":
        parser.add_argument(option, dest=flag.name, action="append", type=_item_parser(flag),
                            choices=words, metavar=flag.name.upper(), help=text)  # fmt: skip
    elif flag.positional:
        count = None if flag.required else "?"
        parser.add_argument(flag.name, nargs=count, type=_value_parser(flag), choices=words,
                            metavar=flag.name, help=text)  # fmt: skip
    else:
        shown = _SHOWN_AS.get(flag.name, option)
        parser.add_argument(shown, dest=flag.name, type=_value_parser(flag), choices=words,
                            metavar=shown.lstrip("-").upper(), help=text)  # fmt: skip
        if shown != option:
            parser.add_argument(
                option, dest=flag.name, type=_value_parser(flag), help=argparse.SUPPRESS
            )


def split_command(arguments: Sequence[str]) -> tuple[list[str], list[str] | None]:
    """The words before `--` and those after it (None without `--`)."""
    words = list(arguments)
    if "--" not in words:
        return words, None
    at = words.index("--")
    return words[:at], words[at + 1 :]


def _parameters(
    operation: catalog.CatalogEntry, arguments: Sequence[str]
) -> tuple[argparse.Namespace, Message]:
    """Arguments of a derived command; `-- COMMAND...` fills a parameter called `command`."""
    parser = parser_of(operation.name.replace("_", "-"), operation.summary)
    hidden = _HIDDEN[:1] if operation.name in _RESUMED else _HIDDEN
    flags = [flag for flag in operation.flags if flag.name not in hidden]
    for flag in flags:
        if flag.name != "command":
            _add_flag(parser, flag)
    if operation.stream:
        parser.add_argument(
            "-f", "--follow", action="store_true", help="print further replies as they come"
        )
    before, command = split_command(arguments)
    if command is not None and not any(flag.name == "command" for flag in flags):
        before, command = list(arguments), None
    options = parser.parse_args(before)
    names = {flag.name for flag in flags}
    params = {k: v for k, v in vars(options).items() if k in names and v is not None}
    return options, params if command is None else {**params, "command": command}


def _name_message(operation: catalog.CatalogEntry, params: Message) -> None:
    """A command that `serve` runs for a message acts in the turn of that message."""
    message = current_message()
    if message and any(flag.name == IN_TURN_OF for flag in operation.flags):
        params.setdefault(IN_TURN_OF, message)


def run_operation(path: str, wanted: catalog.CatalogEntry, arguments: Sequence[str]) -> int:
    """Run one derived command line."""
    options, params = _parameters(wanted, arguments)
    with Link(path) as link:
        if getattr(options, "follow", False):
            for reply in link.stream(wanted.method, params):
                output.result(reply, options.output)
            return 0
        _name_message(wanted, params)
        if wanted.keyed:
            params["idempotency_key"] = new_key()
        output.result(link.call(wanted.method, params, repeat=True), options.output)
    return 0
