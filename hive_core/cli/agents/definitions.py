"""`hive definition`: Markdown files that say what agents of one kind are."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
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
from hive_core.cli.core.session import Session
from hive_core.errors import HiveError, InvalidArgument

if TYPE_CHECKING:
    from hive_core.model.agents.definition import ParsedDefinition

FOLDER: Final = Path("/etc/hive/agents")
# What others call our tools.
_THEIRS: Final = {"bash": "Bash", "edit": "Edit", "read": "Read"}
DEFINITIONS: Final = Listing(
    "name", (Column("name"), Column("role"), Column("set_at", "since", moment),
             Column("description")),
    "nothing is defined",
)  # fmt: skip
FINDINGS: Final = Listing("file", (Column("file"), Column("verdict"), Column("text")), "all fine")
paths_argument: Final = click.argument(
    "paths", nargs=-1, type=click.Path(exists=True, path_type=Path), metavar="[FILE|FOLDER]..."
)


@click.group(cls=ListGroup, invoke_without_command=True)
def definition() -> None:
    """What agents of one kind are, in Markdown with front matter."""


@definition.command
@paths_argument
@output_option
def lint(paths: tuple[Path, ...], style: str) -> int:
    """Say what is wrong with definitions, and what is only odd.

    Without arguments those in /etc/hive/agents. Exit status 1 when one cannot be used.
    """
    rows = [row for file in _files(paths) for row in _findings(file)]
    FINDINGS.show(rows, style)
    return int(any(row["verdict"] == "fail" for row in rows))


@definition.command
@paths_argument
@click.pass_obj
def load(session: Session, paths: tuple[Path, ...]) -> int:
    """Have the daemon keep definitions, in place of older ones of their names.

    Without arguments those in /etc/hive/agents. A file that cannot be used is told and left out.
    """
    failed = 0
    for file in _files(paths):
        try:
            found, body = _read(file)
            session.change(
                "set_definition", name=found.name, description=found.description,
                agent=dict(found.agent), body=body,
            )  # fmt: skip
        except HiveError as error:
            say(f"{file}: {error}")
            failed += 1
        else:
            for each in found.warnings:
                say(f"{file}: {each}")
            say(f"{found.name} is defined")
    return int(failed > 0)


@definition.command("list")
@output_option
@click.pass_obj
def list_(session: Session, style: str) -> None:
    """List what is defined."""
    DEFINITIONS.show(session.rows("list_definitions", "definitions"), style)


@definition.command
@click.argument("name")
@output_option
@click.pass_obj
def show(session: Session, name: str, style: str) -> None:
    """Show one definition."""
    row = session.ask("get_definition", name=name)
    one(row, style, "name", lambda: _lines(row))


@definition.command
@click.argument("name")
@click.pass_obj
def rm(session: Session, name: str) -> None:
    """Forget a definition; agents that were made from it stay."""
    session.change("remove_definition", name=name)


@definition.command
@click.argument("name")
@click.option("--format", "kind", type=click.Choice(("hive", "claude")), default="hive",
              show_default=True, help="For whom.")  # fmt: skip
@click.pass_obj
def export(session: Session, name: str, kind: str) -> None:
    """Print a definition as a file, for hive or for Claude.

    What Claude has no word for is left out.
    """
    import frontmatter  # noqa: PLC0415 - YAML is slow to load

    row = session.ask("get_definition", name=name)
    agent = dict(_table(row.get("agent")))
    front: dict[str, object] = {"name": name, "description": row.get("description")}
    tools = agent.pop("tools", None)
    if isinstance(tools, list):
        front["tools"] = [_theirs(str(each)) for each in tools] if kind == "claude" else tools
    for key, word in (("model", "model"), ("max_turns", "maxTurns")):
        if value := agent.pop(key, None):
            front[word] = value
    if agent and kind == "hive":
        front["hive"] = agent
    post = frontmatter.Post(str(row.get("body") or ""))
    post.metadata = front
    text = frontmatter.dumps(post, sort_keys=False)
    # A file is what it is; a terminal gets it spelled out.
    (echo if sys.stdout.isatty() else click.echo)(text)


def _theirs(text: str) -> str:
    name, bracket, rest = text.partition("(")
    shown = f"{_THEIRS.get(name, name)}{bracket}{rest}"
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
    found = []
    for each in paths or (FOLDER,):
        if not each.exists():
            raise InvalidArgument(f"there is no {each}: name files or a folder of definitions")
        found += sorted(each.glob("*.md")) if each.is_dir() else [each]
    if not found:
        raise InvalidArgument(f"no *.md in {', '.join(map(str, paths or (FOLDER,)))}")
    return found


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
        found, body = _read(file)
    except HiveError as error:
        yield {"file": str(file), "verdict": "fail", "text": str(error)}
        return
    for each in found.warnings:
        yield {"file": str(file), "verdict": "warn", "text": each}
    if not body.strip():
        yield {"file": str(file), "verdict": "warn", "text": "it has no text for the agent"}
