"""`hive artifact`: list, show, read, store and delete artifacts of agents."""

from __future__ import annotations

import base64
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, Final

import click

from hive_core.agent import artifacts
from hive_core.agent.output import plain
from hive_core.agent.reconnect import wire_name
from hive_core.cli.core.lazy import ListGroup
from hive_core.cli.core.output import (
    Column,
    Listing,
    Row,
    moment,
    one,
    output_option,
    say,
    stamp,
    words,
)
from hive_core.cli.core.progress import clear_line, working
from hive_core.cli.core.session import Session, complete_agent, complete_artifact
from hive_core.cli.core.units import format_size
from hive_core.errors import InvalidArgument, NotFound


def _size(value: object) -> str:
    return format_size(value) if isinstance(value, int) else "-"


ARTIFACTS: Final = Listing(
    "id",
    (Column("id"), Column("owner"), Column("name"), Column("version", priority=1),
     Column("size", words=_size), Column("visibility", priority=3),
     Column("created", words=moment, priority=2), Column("type", priority=4)),
    "no artifacts",
)  # fmt: skip
PART: Final = 500_000


@click.group(cls=ListGroup)
def artifact() -> None:
    """List, show, read, store and delete artifacts of agents."""


@artifact.command("list")
@click.argument("prefix", default="")
@click.option(
    "--of",
    "author",
    metavar="NAME",
    shell_complete=complete_agent,
    help="Only artifacts of this agent, or of the destroyed agent with this UUID.",
)
@output_option
@click.pass_obj
def list_artifacts(session: Session, prefix: str, author: str | None, style: str) -> None:
    """List all artifacts, or those whose names begin with PREFIX."""
    rows = session.rows("list_artifacts", "artifacts", prefix=prefix, author=author)
    ARTIFACTS.show(rows, style)


@artifact.command("show")
@click.argument("id_", metavar="ID", shell_complete=complete_artifact)
@output_option
@click.pass_obj
def show_artifact(session: Session, id_: str, style: str) -> None:
    """Show the properties of an artifact; `hive artifact get` prints its content."""
    value = next(iter(session.link.stream(wire_name("get_artifact"), {"id": id_}))).get("artifact")
    row = value if isinstance(value, dict) else {}
    one(row, style, "id", lambda: _page(row))


def _page(row: Row) -> Iterator[str]:
    for key, value in row.items():
        text = {"size": _size, "created": stamp}.get(key, words)(value)
        yield f"{key.replace('_', ' '):<11} {text}"


@artifact.command
@click.argument("which", metavar="ID|NAME", shell_complete=complete_artifact)
@click.option(
    "--of",
    "owner",
    metavar="NAME",
    shell_complete=complete_agent,
    help="Owner of the artifact with this NAME.",
)
@click.option("--version", type=click.IntRange(1), help="Version; by default the latest.")
@click.option(
    "--to",
    "file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="File to write, which must not exist unless --force is set.",
)
@click.option("--force", is_flag=True, help="Replace a file that exists.")
@click.pass_obj
def get(  # noqa: PLR0913 - options
    session: Session, which: str, owner: str | None, version: int | None, file: Path | None,
    *, force: bool,
) -> None:  # fmt: skip
    """Write an artifact to standard output or to a file. A NAME needs --of.

    On a terminal, text is printed with control characters escaped, and other content is not
    printed.
    """
    selector: dict[str, Any] = {"id": which} if owner is None else {
        "name": which, "owner": owner, "version": version
    }  # fmt: skip
    parts = artifacts.parts(session.link, selector)
    try:
        with working(f"reading {which}", after=1.0):
            _put_out(parts, file, force=force)
    except NotFound as error:
        if owner is None:
            raise NotFound(
                f"{error.reason}; use --of NAME to find an artifact by its name"
            ) from None
        raise


def _put_out(parts: Iterator[bytes], file: Path | None, *, force: bool) -> None:
    if file is not None:
        artifacts.write_file(file, parts, force=force)
    elif sys.stdout.isatty():
        _print_text(parts)
    else:
        for part in parts:
            with clear_line():
                sys.stdout.buffer.write(part)
        sys.stdout.buffer.flush()


def _print_text(parts: Iterator[bytes]) -> None:
    data = b"".join(parts)
    try:
        text = data.decode()
    except UnicodeDecodeError:
        reason = f"{len(data)} bytes are not text; write them to a file with --to"
        raise InvalidArgument(reason, field="to") from None
    with clear_line():
        click.echo(plain(text))


@artifact.command
@click.argument("owner", shell_complete=complete_agent)
@click.argument("file", type=click.File("rb"))
@click.option("--name", help="Name of the artifact; by default the name of the file.")
@click.option("--type", "type_", help="Media type.")
@click.option(
    "--visibility",
    type=click.Choice(["private", "subtree", "user", "global"]),
    help="Other agents that may read it: none (private), the ancestors and descendants of the"
    " owner (subtree), all agents under the same root (user), or all agents (global).  [default:"
    " private]",
)
@click.pass_obj
def put(
    session: Session, /, owner: str, file: BinaryIO, name: str | None, **options: object
) -> None:
    """Store FILE (- reads standard input) as an artifact of OWNER. Prints its id."""
    artifact_name = name or Path(str(file.name)).name
    with working(f"storing {artifact_name}", after=1.0):
        upload = session.ask("begin_artifact")["upload"]
        size: object = 0
        while part := file.read(PART):
            data = base64.b64encode(part).decode()
            size = session.ask("append_artifact", upload=upload, offset=size, data=data)["size"]
        stored = session.change(
            "store_artifact", owner=owner, name=artifact_name, upload=upload,
            type=options["type_"], visibility=options["visibility"],
        )  # fmt: skip
    click.echo(str(stored["id"]))


@artifact.command
@click.argument("id_", metavar="ID", shell_complete=complete_artifact)
@click.option("--all", "all_", is_flag=True, help="Delete all versions of its name.")
@click.pass_obj
def rm(session: Session, id_: str, *, all_: bool) -> None:
    """Delete a version of an artifact, or all versions of its name."""
    reply = session.change("delete_artifact", id=id_, all=all_)
    versions = reply.get("versions")
    count = len(versions) if isinstance(versions, list) else 0
    say(f"{reply.get('name')}: {'1 version' if count == 1 else f'{count} versions'} deleted")
