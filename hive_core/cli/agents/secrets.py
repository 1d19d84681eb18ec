"""`hive secret`: values that only one agent may read.

The command reads them from standard input.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click

from hive_core.cli.core.lazy import ListGroup
from hive_core.cli.core.output import Column, Listing, output_option, say
from hive_core.cli.core.session import Session, complete_agent, entries, session_of
from hive_core.errors import InvalidArgument
from hive_core.varlink import Message

KEYS: Final = Listing(
    "key",
    (Column("agent"), Column("key"), Column("readable"), Column("provider", priority=2),
     Column("alias", priority=3), Column("expired", priority=1)),
    "no secrets",
)  # fmt: skip


@click.group(cls=ListGroup)
def secret() -> None:
    """List, set and remove secrets of agents. Values are never printed."""


def _value(key: str, file: Path | None) -> str:
    """The value.

    An unchanged file, text typed without an echo, or a pipe without its final newline.
    """
    if file is not None:
        data = file.read_bytes()
    elif sys.stdin.isatty():
        data = str(click.prompt(key, hide_input=True, confirmation_prompt=True, err=True)).encode()
    else:
        data = sys.stdin.buffer.read().removesuffix(b"\n")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise InvalidArgument("is not text in UTF-8; encode it first", field="value") from None


def _complete_key(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    keys = session_of(ctx).values("list_secrets", "secrets", "key", agent=ctx.params.get("name"))
    return [key for key in keys if key.startswith(incomplete)]


@secret.command("set")
@click.argument("name", shell_complete=complete_agent)
@click.argument("key", shell_complete=_complete_key)
@click.option("--file", type=click.Path(path_type=Path, exists=True, dir_okay=False),
              help="File with the value, which is stored unchanged.")  # fmt: skip
@click.option("--provider", help="Service that accepts it, such as github.")
@click.option("--alias", help="Short name of the account, such as work.")
@click.option("--identity", help="The account itself, such as bot@example.org.")
@click.option("--tool", "tools", multiple=True, help="Tool that uses it (repeatable).")
@click.pass_obj
def set_(
    session: Session,
    /,
    name: str,
    key: str,
    file: Path | None,
    tools: tuple[str, ...],
    **label: str | None,
) -> None:
    """Set the secret KEY of NAME; the value is read from standard input.

    On a terminal the command asks for the value without an echo. A pipe is read to its end, without
    the final newline. The agent reads the secret in /run/hive/credentials/KEY. Its model is shown
    the provider, the alias, the identity and the tools, and never the value. Of a new value those
    that are not named stay; '' removes one, and --tool '' all tools.
    """
    value = _value(key, file)
    changed = {"tools": [tool for tool in tools if tool]} if tools else {}
    reply = session.change("set_secret", agent=name, key=key, value=value, **changed, **label)
    if not reply.get("readable"):
        say(f"{name} cannot read it yet; grant it with `hive cap grant {name} secret:{key}`")


@secret.command
@click.argument("name", shell_complete=complete_agent)
@click.argument("key", shell_complete=_complete_key)
@click.pass_obj
def rm(session: Session, name: str, key: str) -> None:
    """Remove the secret KEY of NAME."""
    session.change("remove_secret", agent=name, key=key)


@secret.command("list")
@click.argument("name", required=False, shell_complete=complete_agent)
@output_option
@click.pass_obj
def list_secrets(session: Session, name: str | None, style: str) -> None:
    """List secrets of NAME, or of all agents: their keys, and whether the agent may read them."""
    KEYS.show(_secret_rows(session, name), style)


def _secret_rows(session: Session, name: str | None) -> Iterator[Message]:
    agents = session.rows("list_agents", "agents")
    for agent in [name] if name else [row["name"] for row in agents]:
        yield from entries(session.ask("list_secrets", agent=agent), "secrets")
