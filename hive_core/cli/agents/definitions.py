"""`hive definition`: files that define kinds of agents."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from hive_core.cli.agents.definition_export import FORMATS, DefinitionExport
from hive_core.cli.agents.definition_files import definition_files, findings, read_definition
from hive_core.cli.core.lazy import ListGroup
from hive_core.cli.core.output import (
    Column,
    Listing,
    Row,
    echo,
    moment,
    one,
    output_option,
    say,
    words,
)
from hive_core.cli.core.session import Session, complete_definition
from hive_core.errors import HiveError, InvalidArgument

if TYPE_CHECKING:
    from hive_core.model.agents.definition import ParsedDefinition

SHIPPED: Final = Path(__file__).with_name("shipped")
DEFINITIONS: Final = Listing(
    "name",
    (Column("name"), Column("role"), Column("set_at", "since", moment, priority=1),
     Column("description")),
    "no definitions",
)  # fmt: skip
FINDINGS: Final = Listing(
    "file", (Column("file"), Column("verdict"), Column("text")), "no faults", fold=True
)
_WARNING_MOST: Final = 300  # of 1200 bytes: a character has at most four
_WARNINGS_MOST: Final = 64
paths_argument: Final = click.argument(
    "paths", nargs=-1, type=click.Path(path_type=Path), metavar="[FILE|FOLDER]..."
)


@click.group(cls=ListGroup)
def definition() -> None:
    """Check, load, show and remove definitions of agents, in Markdown with front matter."""


@definition.command
@paths_argument
@output_option
def lint(paths: tuple[Path, ...], style: str) -> int:
    """Check definitions: print faults and warnings.

    Without arguments it checks those in /etc/hive/agents. The exit status is 1 when one cannot be
    used.
    """
    rows = [row for file in definition_files(paths) for row in findings(file)]
    FINDINGS.show(rows, style)
    return int(any(row["verdict"] == "fail" for row in rows))


@definition.command
@paths_argument
@click.option(
    "--shipped", is_flag=True,
    help="Load those that come with hive: architect, lead, maid, queen, worker.",
)  # fmt: skip
@click.pass_obj
def load(session: Session, paths: tuple[Path, ...], *, shipped: bool) -> int:
    """Store definitions in the daemon, replacing older ones of the same name.

    Without arguments it loads those in /etc/hive/agents. Files of Claude Code, opencode, Gemini
    (*.md) and Codex (*.toml) are read too: what hive does not have is reported, and stored with the
    definition. A file that cannot be used is reported and skipped. `hive setup` loads those that
    come with hive where there is none of that name.
    """
    files = definition_files((*paths, SHIPPED) if shipped else paths)
    aliases = [str(row.get("alias")) for row in session.rows("list_models", "models")]
    loaded: dict[str, Path] = {}
    for file in files:
        try:
            definition, body = read_definition(file, aliases)
            if other := loaded.get(definition.name):
                raise InvalidArgument(f"{other} defines {definition.name} already", field="name")
            _store(session, definition, body)
        except HiveError as error:
            say(f"{file}: {error}")
        else:
            loaded[definition.name] = file
            for warning in definition.warnings:
                say(f"{file}: {warning}")
            say(f"loaded {definition.name}")
    return int(len(loaded) < len(files))


def _store(session: Session, definition: ParsedDefinition, body: str) -> None:
    session.change(
        "set_definition", name=definition.name, description=definition.description,
        agent=dict(definition.agent), body=body,
        warnings=[warning[:_WARNING_MOST] for warning in definition.warnings[:_WARNINGS_MOST]],
    )  # fmt: skip


def load_missing(session: Session) -> list[str]:
    """Store the shipped definitions whose names are free; return these names."""
    names = {str(row.get("name")) for row in session.rows("list_definitions", "definitions")}
    missing = [file for file in definition_files([SHIPPED]) if file.stem not in names]
    for file in missing:
        _store(session, *read_definition(file))
    return [file.stem for file in missing]


@definition.command("list")
@output_option
@click.pass_obj
def list_definitions(session: Session, style: str) -> None:
    """List the definitions."""
    DEFINITIONS.show(session.rows("list_definitions", "definitions"), style)


@definition.command
@click.argument("name", shell_complete=complete_definition)
@output_option
@click.pass_obj
def show(session: Session, name: str, style: str) -> None:
    """Show one definition."""
    row = session.ask("get_definition", name=name)
    one(row, style, "name", lambda: _lines(row))


@definition.command
@click.argument("name", shell_complete=complete_definition)
@click.pass_obj
def rm(session: Session, name: str) -> None:
    """Remove a definition. Agents that were created from it stay."""
    session.change("remove_definition", name=name)


@definition.command
@click.argument("name", shell_complete=complete_definition)
@click.option("--format", "kind", type=click.Choice(FORMATS), default="hive",
              show_default=True, help="Program that the file is for.")  # fmt: skip
@click.pass_obj
def export(session: Session, name: str, kind: str) -> None:
    """Print a definition as a file: for hive, Claude Code, Codex, opencode or Gemini.

    Settings that the program has no word for are omitted, and named on standard error.
    """
    row = session.ask("get_definition", name=name)
    written = DefinitionExport(
        name, str(row.get("description") or ""), str(row.get("body") or ""),
        _table(row.get("agent")),
    )  # fmt: skip
    text = written.write(kind)
    for note in written.notes:
        say(note)
    # A file gets the text unchanged; on a terminal control characters are escaped.
    (echo if sys.stdout.isatty() else click.echo)(text)


def _table(value: object) -> dict[str, object]:
    return value if isinstance(value, dict) else {}


def _lines(row: Row) -> Iterator[str]:
    for key in ("name", "description", "role"):
        yield f"{key:<14}{words(row.get(key))}"
    for key, value in sorted(_table(row.get("agent")).items()):
        if key != "role":
            yield f"{words(key):<14}{words(value)}"
    warnings = row.get("warnings")
    for warning in warnings if isinstance(warnings, list) else []:
        yield f"{'warning':<14}{words(warning)}"
    yield ""
    yield from (words(line) if line else "" for line in str(row.get("body") or "").splitlines())
