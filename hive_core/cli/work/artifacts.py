"""`hive artifact`: what agents keep, listed, read, stored and deleted."""

from __future__ import annotations

import base64
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, Final

import click

from hive_core.agent import artifacts
from hive_core.agent.output import plain
from hive_core.cli.core.lazy import ListGroup
from hive_core.cli.core.output import Column, Listing, moment, output_option, say
from hive_core.cli.core.progress import cleared, working
from hive_core.cli.core.session import Session, complete_agent
from hive_core.errors import InvalidArgument, NotFound

ARTIFACTS: Final = Listing(
    "id",
    (Column("id"), Column("owner"), Column("name"), Column("version"), Column("size"),
     Column("visibility"), Column("created", words=moment), Column("type")),
    "no artifacts",
)  # fmt: skip
PART: Final = 500_000


@click.group(cls=ListGroup, invoke_without_command=True)
def artifact() -> None:
    """What agents keep for later and for each other."""


@artifact.command("list")
@click.argument("prefix", default="")
@click.option("--of", "author", metavar="NAME", shell_complete=complete_agent,
              help="Only those of one agent; a UUID finds who is gone.")  # fmt: skip
@output_option
@click.pass_obj
def list_(session: Session, prefix: str, author: str | None, style: str) -> None:
    """List the artifacts whose names begin with PREFIX, or all."""
    rows = session.rows("list_artifacts", "artifacts", prefix=prefix, author=author)
    ARTIFACTS.show(rows, style)


@artifact.command
@click.argument("which")
@click.option("--of", "owner", metavar="NAME", shell_complete=complete_agent,
              help="WHICH is the name of an artifact of this agent.")  # fmt: skip
@click.option("--version", type=click.IntRange(1), help="The latest when absent.")
@click.option("--to", "file", type=click.Path(path_type=Path, dir_okay=False),
              help="Write into this file, which must not be there.")  # fmt: skip
@click.option("--force", is_flag=True, help="Over a file that is there.")
@click.pass_obj
def get(  # noqa: PLR0913 - options
    session: Session, which: str, owner: str | None, version: int | None, file: Path | None,
    *, force: bool,
) -> None:  # fmt: skip
    """Write an artifact to standard output or a file. WHICH is an id, or a name with --of.

    Text on a terminal is printed with control characters spelled out; bytes are not printed there.
    """
    which_one: dict[str, Any] = {"id": which} if owner is None else {
        "name": which, "owner": owner, "version": version
    }  # fmt: skip
    parts = artifacts.parts(session.link, which_one)
    try:
        with working(f"reading {which}", after=1.0):
            _put_out(parts, file, force=force)
    except NotFound as error:
        if owner is None:
            raise NotFound(f"{error.reason}; a name is looked up with --of NAME") from None
        raise


def _put_out(parts: Iterator[bytes], file: Path | None, *, force: bool) -> None:
    if file is not None:
        artifacts.written(file, parts, force=force)
    elif sys.stdout.isatty():
        _shown(parts)
    else:
        for part in parts:
            with cleared():
                sys.stdout.buffer.write(part)
        sys.stdout.buffer.flush()


def _shown(parts: Iterator[bytes]) -> None:
    data = b"".join(parts)
    try:
        text = data.decode()
    except UnicodeDecodeError:
        reason = f"{len(data)} bytes that are no text: write them to a file with --to"
        raise InvalidArgument(reason, field="to") from None
    with cleared():
        click.echo(plain(text))


@artifact.command
@click.argument("owner", shell_complete=complete_agent)
@click.argument("file", type=click.File("rb"))
@click.option("--name", help="What it is called; the name of the file when absent.")
@click.option("--type", "type_", help="Its media type.")
@click.option("--visibility", type=click.Choice(["private", "subtree", "user", "global"]),
              help="Who else reads it: nobody (when absent), those above and below the owner, all"
                   " under the same root, everybody.")  # fmt: skip
@click.pass_obj
def put(session: Session, /, owner: str, file: BinaryIO, name: str | None, **given: object) -> None:
    """Store FILE (- reads standard input) as an artifact of OWNER; prints its id."""
    called = name or Path(str(file.name)).name
    with working(f"storing {called}", after=1.0):
        upload = session.ask("begin_artifact")["upload"]
        size: object = 0
        while part := file.read(PART):
            data = base64.b64encode(part).decode()
            size = session.ask("append_artifact", upload=upload, offset=size, data=data)["size"]
        stored = session.change("store_artifact", owner=owner, name=called, upload=upload,
                                type=given["type_"], visibility=given["visibility"])  # fmt: skip
    click.echo(str(stored["id"]))


@artifact.command
@click.argument("id_", metavar="ID")
@click.option("--all", "all_", is_flag=True, help="With all other versions of its name.")
@click.pass_obj
def rm(session: Session, id_: str, *, all_: bool) -> None:
    """Delete a version of an artifact, or all of its name."""
    gone = session.change("delete_artifact", id=id_, all=all_)
    versions = gone.get("versions")
    count = len(versions) if isinstance(versions, list) else 0
    say(f"{gone.get('name')}: {'1 version' if count == 1 else f'{count} versions'} deleted")
