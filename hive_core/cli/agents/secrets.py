"""`hive secret`: what an agent may know and nobody else. Values come over standard input."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click

from hive_core.cli.core.lazy import ListGroup
from hive_core.cli.core.output import Column, Listing, output_option, say
from hive_core.cli.core.session import Session, complete_agent, entries
from hive_core.errors import InvalidArgument
from hive_core.varlink import Message

KEYS: Final = Listing("key", (Column("agent"), Column("key"), Column("readable")), "no secrets")


@click.group(cls=ListGroup)
def secret() -> None:
    """Give agents secrets, and take them back. Values are never printed."""


def _value(key: str, file: Path | None) -> str:
    """From a file as it is, typed without an echo, or from a pipe but for the end of its line."""
    if file is not None:
        data = file.read_bytes()
    elif sys.stdin.isatty():
        data = str(click.prompt(key, hide_input=True, confirmation_prompt=True, err=True)).encode()
    else:
        data = sys.stdin.buffer.read().removesuffix(b"\n")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise InvalidArgument("is no text in UTF-8; encode it first", field="value") from None


@secret.command("set")
@click.argument("name", shell_complete=complete_agent)
@click.argument("key")
@click.option("--file", type=click.Path(path_type=Path, exists=True, dir_okay=False),
              help="Take the value from a file, as it is.")  # fmt: skip
@click.pass_obj
def set_(session: Session, name: str, key: str, file: Path | None) -> None:
    """Give NAME the secret KEY; the value is read from standard input.

    On a terminal it is asked for, without an echo. A pipe is read to its end, without the end of
    its last line. The agent finds it in /run/hive/credentials/KEY.
    """
    found = session.change("set_secret", agent=name, key=key, value=_value(key, file))
    if not found.get("readable"):
        say(f"{name} cannot read it yet: `hive cap grant {name} secret:{key}`")


@secret.command
@click.argument("name", shell_complete=complete_agent)
@click.argument("key")
@click.pass_obj
def rm(session: Session, name: str, key: str) -> None:
    """Take the secret KEY from NAME."""
    session.change("remove_secret", agent=name, key=key)


@secret.command("list")
@click.argument("name", required=False, shell_complete=complete_agent)
@output_option
@click.pass_obj
def list_(session: Session, name: str | None, style: str) -> None:
    """List the keys of NAME's secrets, or of everybody's, and whether each may be read."""
    KEYS.show(_keys(session, name), style)


def _keys(session: Session, name: str | None) -> Iterator[Message]:
    names = [name] if name else [each["name"] for each in session.rows("list_agents", "agents")]
    for each in names:
        yield from entries(session.ask("list_secrets", agent=each), "secrets")
