"""`hive definition`: Markdown files that define kinds of agents."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

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

FOLDER: Final = Path("/etc/hive/agents")
SHIPPED: Final = Path(__file__).with_name("shipped")
# Names of our tools in Claude.
_CLAUDE_TOOLS: Final = {
    "bash": "Bash", "edit": "Edit", "list": "LS", "read": "Read", "search": "Grep",
}  # fmt: skip
DEFINITIONS: Final = Listing(
    "name",
    (Column("name"), Column("role"), Column("set_at", "since", moment, priority=1),
     Column("description")),
    "no definitions",
)  # fmt: skip
FINDINGS: Final = Listing(
    "file", (Column("file"), Column("verdict"), Column("text")), "no faults", fold=True
)
paths_argument: Final = click.argument(
    "paths", nargs=-1, type=click.Path(exists=True, path_type=Path), metavar="[FILE|FOLDER]..."
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
    rows = [row for file in _files(paths) for row in _findings(file)]
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

    Without arguments it loads those in /etc/hive/agents. A file that cannot be used is reported and
    skipped. `hive setup` loads those that come with hive where there is none of that name.
    """
    failed = 0
    for file in _files((*paths, SHIPPED) if shipped else paths):
        try:
            name, warnings = _store(session, file)
        except HiveError as error:
            say(f"{file}: {error}")
            failed += 1
        else:
            for warning in warnings:
                say(f"{file}: {warning}")
            say(f"loaded {name}")
    return int(failed > 0)


def _store(session: Session, file: Path) -> tuple[str, Sequence[str]]:
    """Store the definition of a file; its name, and the warnings about it."""
    reading, body = _read(file)
    session.change(
        "set_definition", name=reading.name, description=reading.description,
        agent=dict(reading.agent), body=body,
    )  # fmt: skip
    return reading.name, reading.warnings


def load_missing(session: Session) -> list[str]:
    """Store the shipped definitions whose names are free; return these names."""
    names = {str(row.get("name")) for row in session.rows("list_definitions", "definitions")}
    return [_store(session, file)[0] for file in _files([SHIPPED]) if file.stem not in names]


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
@click.option("--format", "kind", type=click.Choice(("hive", "claude")), default="hive",
              show_default=True, help="Program that the file is for.")  # fmt: skip
@click.pass_obj
def export(session: Session, name: str, kind: str) -> None:
    """Print a definition as a file, for hive or for Claude.

    Settings that Claude does not have are omitted.
    """
    import frontmatter  # noqa: PLC0415 - YAML is slow to load

    row = session.ask("get_definition", name=name)
    agent = dict(_table(row.get("agent")))
    front: dict[str, object] = {"name": name, "description": row.get("description")}
    tools = agent.pop("tools", None)
    if isinstance(tools, list):
        front["tools"] = [_foreign_tool(str(tool)) for tool in tools] if kind == "claude" else tools
    for key, word in (("model", "model"), ("max_turns", "maxTurns")):
        if value := agent.pop(key, None):
            front[word] = value
    if agent and kind == "hive":
        front["hive"] = agent
    post = frontmatter.Post(str(row.get("body") or ""))
    post.metadata = front
    text = frontmatter.dumps(post, sort_keys=False)
    # A file gets the text unchanged; on a terminal control characters are escaped.
    (echo if sys.stdout.isatty() else click.echo)(text)


def _foreign_tool(text: str) -> str:
    name, bracket, rest = text.partition("(")
    shown = f"{_CLAUDE_TOOLS.get(name, name)}{bracket}{rest}"
    return shown[:-3] + ":*)" if name == "bash" and shown.endswith(" *)") else shown


def _table(value: object) -> dict[str, object]:
    return value if isinstance(value, dict) else {}


def _lines(row: Row) -> Iterator[str]:
    for key in ("name", "description", "role"):
        yield f"{key:<14}{words(row.get(key))}"
    for key, value in sorted(_table(row.get("agent")).items()):
        if key != "role":
            yield f"{words(key):<14}{words(value)}"
    yield ""
    yield from (words(line) if line else "" for line in str(row.get("body") or "").splitlines())


def _files(paths: Iterable[Path]) -> list[Path]:
    places = list(paths) or [FOLDER]
    files = []
    for place in places:
        if not place.exists():
            raise InvalidArgument(f"{place} does not exist: name files or a folder of definitions")
        files += sorted(place.glob("*.md")) if place.is_dir() else [place]
    if not files:
        raise InvalidArgument(f"no *.md in {', '.join(map(str, places))}")
    return files


def _read(file: Path) -> tuple[ParsedDefinition, str]:
    import frontmatter  # noqa: PLC0415 - these are slow to load
    import yaml  # noqa: PLC0415

    from hive_core.model.agents.definition import parse_definition  # noqa: PLC0415

    try:
        post = frontmatter.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise InvalidArgument(f"cannot read it: {' '.join(str(error).split())}") from error
    return parse_definition(post.metadata, file.stem), post.content


def _findings(file: Path) -> Iterator[Row]:
    try:
        reading, body = _read(file)
    except HiveError as error:
        yield {"file": str(file), "verdict": "fail", "text": str(error)}
        return
    for warning in reading.warnings:
        yield {"file": str(file), "verdict": "warn", "text": warning}
    if not body.strip():
        yield {"file": str(file), "verdict": "warn", "text": "it has no text for the agent"}
