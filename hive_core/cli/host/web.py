"""`hive web`: accounts of people and programs, and what opens a login of the dashboard."""

from __future__ import annotations

import os
import socket
from typing import Final
from urllib.parse import urlsplit

import click

from hive_core.cli.core.lazy import Group, ListGroup
from hive_core.cli.core.output import Column, Listing, moment, output_option, say, stamp, words
from hive_core.cli.core.session import Session, complete, entries
from hive_core.errors import NotFound

DEFAULT: Final = "operator"
SCOPES: Final = ("viewer", "operator", "approver", "notifier")
ACCOUNTS: Final = Listing(
    "account",
    (Column("account"), Column("scopes"), Column("passkeys"),
     Column("totp"), Column("logins"), Column("created", words=moment, priority=2)),
    "no accounts; `hive web login` creates one",
)  # fmt: skip
PASSKEYS: Final = Listing(
    "passkey",
    (Column("passkey"), Column("account"), Column("host"), Column("name", priority=1),
     Column("created", words=moment, priority=2)),
    "no passkeys; a page after `hive web login` adds one",
)  # fmt: skip
LOGINS: Final = Listing(
    "login",
    (Column("login"), Column("account"), Column("via"), Column("scopes"),
     Column("name", priority=1), Column("used", words=moment),
     Column("expires", words=moment, priority=2)),
    "no logins",
)  # fmt: skip
complete_account: Final = complete("list_accounts", "accounts", "account")
complete_login: Final = complete("list_logins", "logins", "login")


@click.group(cls=Group)
def web() -> None:
    """Log in to the dashboard, and manage the accounts, passkeys and tokens that can."""


@web.command
@click.argument("name", metavar="ACCOUNT", default=DEFAULT, shell_complete=complete_account)
@click.pass_obj
def login(session: Session, name: str) -> None:
    """Print a link that logs ACCOUNT in to the dashboard once, within two minutes.

    ACCOUNT is `operator` by default and is created at its first login, with all scopes. The link is
    a key: give it to no other person. Afterwards the dashboard offers to add a passkey.
    """
    try:
        reply = session.change("create_login_link", account=name)
    except NotFound:
        if name != DEFAULT:
            raise
        session.change("create_account", name=name)
        reply = session.change("create_login_link", account=name)
    url = words(reply.get("url"))
    port = urlsplit(url).port
    if os.environ.get("SSH_CONNECTION") and urlsplit(url).hostname == "localhost":
        say(f"on your computer first: ssh -N -L {port}:localhost:{port} {socket.gethostname()}")
    click.echo(url)


@web.group(cls=ListGroup)
def account() -> None:
    """List, create and remove accounts."""


@account.command("list")
@output_option
@click.pass_obj
def list_accounts(session: Session, style: str) -> None:
    """List the accounts, their scopes, and how they can confirm."""
    ACCOUNTS.show(entries(session.ask("list_accounts"), "accounts"), style)


@account.command("create")
@click.argument("name", metavar="ACCOUNT")
@click.option("--scope", "scopes", multiple=True, type=click.Choice(SCOPES),
              help="What its logins may do (repeatable); default: all but notifier.")  # fmt: skip
@click.pass_obj
def create_account(session: Session, name: str, scopes: tuple[str, ...]) -> None:
    """Create ACCOUNT, or give it other scopes, which ends its logins.

    `viewer` reads, `operator` changes, `approver` decides what takes a second confirmation, and
    `notifier` makes the links of notifications. Each scope includes `viewer`.
    """
    wanted = {"scopes": [*scopes]} if scopes else {}
    row = session.change("create_account", name=name, **wanted)
    say(f"account {name}: {words(row.get('scopes'))}")


@account.command("rm")
@click.argument("name", metavar="ACCOUNT", shell_complete=complete_account)
@click.pass_obj
def remove_account(session: Session, name: str) -> None:
    """Remove ACCOUNT with its passkeys and tokens, and end its logins at once."""
    session.change("remove_account", account=name)


@web.group(cls=ListGroup)
def passkey() -> None:
    """List and remove passkeys. The dashboard adds them."""


@passkey.command("list")
@click.argument("name", metavar="ACCOUNT", required=False, shell_complete=complete_account)
@output_option
@click.pass_obj
def list_passkeys(session: Session, name: str | None, style: str) -> None:
    """List the passkeys of ACCOUNT, or of all."""
    PASSKEYS.show(entries(session.ask("list_passkeys", account=name), "passkeys"), style)


@passkey.command("rm")
@click.argument("id_", metavar="PASSKEY")
@click.pass_obj
def remove_passkey(session: Session, id_: str) -> None:
    """Remove a passkey, and end the logins that passkeys of its account have opened."""
    session.change("remove_passkey", passkey=id_)


@web.command
@click.argument("name", metavar="ACCOUNT", default=DEFAULT, shell_complete=complete_account)
@click.pass_obj
def totp(session: Session, name: str) -> None:
    """Make a new key for codes of ACCOUNT and print its URI, for an app that makes codes.

    Codes confirm decisions where no passkey can. The key replaces an earlier one.
    """
    click.echo(words(session.change("set_totp", account=name).get("uri")))


@web.command
@click.argument("name", metavar="ACCOUNT", shell_complete=complete_account)
@click.option("--scope", "scopes", multiple=True,
              type=click.Choice(("viewer", "operator", "notifier")), default=("viewer",),
              show_default=True, help="What it may do (repeatable).")  # fmt: skip
@click.option("--days", type=click.IntRange(1, 3650), default=90, show_default=True,
              help="Days until it ends.")  # fmt: skip
@click.option("--name", "purpose", default="", metavar="TEXT", help="What it is for.")
@click.pass_obj
def token(
    session: Session, name: str, scopes: tuple[str, ...], days: int, purpose: str
) -> None:  # fmt: skip
    """Print a new token of ACCOUNT for programs that use the HTTP API.

    It is printed once. No token confirms a decision. `hive web logins --end LOGIN` ends it.
    """
    reply = session.change("create_token", account=name, scopes=[*scopes], days=days, name=purpose)
    say(f"login {words(reply.get('login'))}, ends {stamp(reply.get('expires'))}")
    click.echo(words(reply.get("token")))


@web.command
@click.argument("name", metavar="ACCOUNT", required=False, shell_complete=complete_account)
@click.option("--end", "id_", metavar="LOGIN", shell_complete=complete_login,
              help="End this login or token, with its connections.")  # fmt: skip
@output_option
@click.pass_obj
def logins(session: Session, name: str | None, id_: str | None, style: str) -> None:
    """List open logins and tokens of ACCOUNT, or of all, or end one."""
    if id_ is None:
        LOGINS.show(entries(session.ask("list_logins", account=name), "logins"), style)
        return
    row = session.change("end_login", login=id_)
    say(f"login {id_} of {words(row.get('account'))} has ended")
