"""Manual pages from commands, operations and settings: hive(1), hive-agent(1), hive.toml(5).

`hive setup` installs them; `python -m hive_core.cli.core.manual FOLDER` writes them below a folder.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

import click

from hive_core import VERSION
from hive_core.agent import catalog
from hive_core.agent.main import OWN
from hive_core.cli.host.install.documents import PAGES
from hive_core.cli.main import COMMANDS, SECTIONS, hive

_EXITS: Final = (
    ("0", "Done."), ("1", "Failed."), ("2", "Wrong usage."), ("3", "The agent does not run."),
    ("4", "No such agent."), ("5", "Refused by policy."), ("69", "The daemon cannot be reached."),
    ("75", "Try again later."), ("124", "The wait timed out."),
    ("130", "Interrupted, or you answered no. A request that was sent continues."),
)  # fmt: skip
_FILES: Final = (
    ("/etc/hive/hive.toml", "Settings, see hive.toml(5)."),
    ("/run/hive/operator.sock", "Socket of the daemon."),
)
_VALUES: Final = (
    "A DURATION is 90, 90s, 5m, 2h, 3d, 1w, or several as 1h30m; a size is 512M. Times are local."
    " A noun without a command lists: `hive task` is `hive task list`. Commands about agents have "
    "two forms:"
    " `hive stop` and `hive agent stop`. On a terminal a table fits its width; `-o wide` shows all"
    " columns."
)
_CELL: Final = re.compile(r"(?<!\\)\|")


def manual() -> dict[str, str]:
    """The text of each page, by its place below a folder of manual pages."""
    return dict(zip(PAGES, (_hive_page(), _agent_page(), _settings_page()), strict=True))


def escape(text: str) -> str:
    """Text that troff prints unchanged: no line of it is a request."""
    plain = text.replace("\\", "\\e").replace("-", "\\-").replace("`", "")
    return re.sub(r"^(?=[.'])", r"\\&", plain, flags=re.MULTILINE)


def _head(name: str, section: int, summary: str) -> Iterator[str]:
    yield f'.TH "{name.upper()}" "{section}" "" "hive {VERSION}" "hive manual"'
    yield from (".SH NAME", f"{escape(name)} \\- {escape(summary)}")


def _paragraphs(text: str) -> Iterator[str]:
    """The paragraphs of a docstring."""
    for number, paragraph in enumerate(re.split(r"\n\s*\n", text.strip())):
        if number:
            yield ".PP"
        yield escape(" ".join(paragraph.split()))


def _items(rows: Iterable[tuple[str, str]]) -> Iterator[str]:
    for term, text in rows:
        yield from (".TP", f"\\fB{escape(term)}\\fR", escape(" ".join(text.split())) or "\\&")


def _page(lines: Iterable[str]) -> str:
    return "\n".join(lines) + "\n"


def _hive_page() -> str:
    return _page(_hive_lines())


def _hive_lines() -> Iterator[str]:
    context = click.Context(hive, info_name="hive", **hive.context_settings)
    yield from _head("hive", 1, "run a tree of agents, each in a container of its own")
    yield from (".SH SYNOPSIS", "\\fBhive\\fR [\\fIOPTIONS\\fR] \\fICOMMAND\\fR [\\fIARGS\\fR]...")
    yield ".SH DESCRIPTION"
    yield from _paragraphs(f"{hive.help}\n\n{_VALUES}")
    yield ".SH OPTIONS"
    yield from _items(_options(hive, context))
    for heading, names in SECTIONS.items():
        yield f".SH {escape(heading.upper())}"
        for name in names.split():
            yield from _command_lines(name, hive, context)
    yield ".SH EXIT STATUS"
    yield from _items(_EXITS)
    yield ".SH FILES"
    yield from _items(_FILES)
    yield ".SH SEE ALSO"
    yield "\\fBhive\\-agent\\fR(1), \\fBhive.toml\\fR(5), \\fBsystemd\\-nspawn\\fR(1)"


def _command_lines(name: str, group: click.Group, parent: click.Context) -> Iterator[str]:
    """A command with its options, then its subcommands."""
    command = group.get_command(parent, name)
    if command is None:
        return
    context = click.Context(command, parent=parent, info_name=name)
    usage = " ".join(command.collect_usage_pieces(context))
    yield f".SS \\fB{escape(context.command_path)}\\fR {escape(usage)}"
    yield from _paragraphs(command.help or "")
    yield from _items(_options(command, context))
    if isinstance(command, click.Group):
        below = command.list_commands(context)
        same = [word for word in below if name == "agent" and word in COMMANDS]
        for word in below:
            if word not in same:
                yield from _command_lines(word, command, context)
        if same:
            yield from (
                ".PP",
                escape(f"Commands of hive that this noun also has: {', '.join(same)}."),
            )


def _options(command: click.Command, context: click.Context) -> Iterator[tuple[str, str]]:
    for parameter in command.params:
        if isinstance(parameter, click.Option) and (row := parameter.get_help_record(context)):
            yield row


def _agent_page() -> str:
    return _page(_agent_lines())


def _agent_lines() -> Iterator[str]:
    yield from _head("hive-agent", 1, "call the hive daemon from inside a container")
    yield from (".SH SYNOPSIS", "\\fBhive\\-agent\\fR \\fICOMMAND\\fR [\\fIARGS\\fR]...")
    yield ".SH DESCRIPTION"
    yield from _paragraphs(
        "The client in every container. Each operation of the daemon is a command: its required "
        "parameters are arguments, the others are options. hive-agent COMMAND --help describes a "
        "command."
    )
    yield ".SH COMMANDS OF ITS OWN"
    yield from _items(sorted(OWN.items()))
    yield ".SH OPERATIONS"
    operations = sorted(catalog.load(), key=lambda operation: operation.name)
    yield from _items(
        (operation.name.replace("_", "-"), str(operation.entry["doc"]).partition("\n\n")[0])
        for operation in operations
    )
    yield ".SH EXIT STATUS"
    yield from _items(_EXITS)
    yield from (".SH SEE ALSO", "\\fBhive\\fR(1)")


def _settings_page() -> str:
    from hive_core.surfaces.settings import settings_page  # noqa: PLC0415 - pydantic is slow to load

    return _page(_settings_lines(settings_page()))


def _settings_lines(page: str) -> Iterator[str]:
    """The manual page of the settings, from tables with rows of key, default and text."""
    yield from _head("hive.toml", 5, "settings of a hive host")
    yield ".SH DESCRIPTION"
    _, _, text = page.partition("\n\n")
    for block in text.split("\n\n"):
        lines = block.strip().splitlines()
        if not lines or lines[0].startswith("Generated"):
            continue
        if lines[0].startswith("## "):
            yield f".SH {escape(lines[0].removeprefix('## '))}"
        elif lines[0].startswith("|"):
            yield from _items(map(_setting, lines[2:]))
        else:
            yield from (".PP", escape(" ".join(lines)))
    yield from (".SH SEE ALSO", "\\fBhive\\fR(1)")


def _setting(row: str) -> tuple[str, str]:
    key, default, text = (cell.strip().strip("`") for cell in _CELL.split(row)[1:4])
    return key, f"{text} Default: {default}." if default else text


def write(folder: Path, pages: Mapping[str, str]) -> None:
    """Write the pages below a folder such as /usr/share/man."""
    for place, text in pages.items():
        file = folder / place
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]), manual())
