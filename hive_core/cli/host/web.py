"""`hive web`: accounts of people and programs, and what opens a login of the dashboard."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from typing import ClassVar, Final
from urllib.parse import urlsplit

import click

from hive_core.cli.core.lazy import FormerGroup, Group, ListGroup
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
TOKENS: Final = Listing("login", LOGINS.columns, "no tokens; `hive web token create` makes one")
CODES: Final = Listing(
    "account", ACCOUNTS.columns, "no account has codes; `hive web totp set` makes a key"
)
complete_account: Final = complete("list_accounts", "accounts", "account")
complete_passkey: Final = complete("list_passkeys", "passkeys", "passkey")
complete_login: Final = complete("list_logins", "logins", "login")


account_argument: Final = click.argument(
    "name", metavar="[ACCOUNT]", default=DEFAULT, shell_complete=complete_account
)
owner_argument: Final = click.argument(
    "name", metavar="[ACCOUNT]", required=False, shell_complete=complete_account
)
login_argument: Final = click.argument("id_", metavar="LOGIN", shell_complete=complete_login)


class WebGroup(Group):
    """`hive web`, with the name that `session` had in older releases."""

    unlisted: ClassVar[Mapping[str, str]] = {"logins": "host.web:logins"}


@click.group(cls=WebGroup)
def web() -> None:
    """Log in to the dashboard; manage accounts, passkeys, codes, tokens and logins."""


@web.command
@account_argument
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
@owner_argument
@output_option
@click.pass_obj
def list_passkeys(session: Session, name: str | None, style: str) -> None:
    """List the passkeys of ACCOUNT, or of all."""
    PASSKEYS.show(entries(session.ask("list_passkeys", account=name), "passkeys"), style)


@passkey.command("rm")
@click.argument("id_", metavar="PASSKEY", shell_complete=complete_passkey)
@click.pass_obj
def remove_passkey(session: Session, id_: str) -> None:
    """Remove a passkey, and end the logins that passkeys of its account have opened."""
    session.change("remove_passkey", passkey=id_)


@web.group(cls=FormerGroup, former="set")
def totp() -> None:
    """List the accounts that have codes of an app, and make their keys."""


@totp.command("list")
@output_option
@click.pass_obj
def list_codes(session: Session, style: str) -> None:
    """List the accounts that can confirm with a code."""
    rows = entries(session.ask("list_accounts"), "accounts")
    CODES.show([row for row in rows if row.get("totp")], style)


@totp.command("set")
@account_argument
@click.pass_obj
def set_totp(session: Session, name: str) -> None:
    """Make a new key for codes of ACCOUNT and print its URI, for an app that makes codes.

    Codes confirm decisions where no passkey can. The key replaces an earlier one.
    """
    click.echo(words(session.change("set_totp", account=name).get("uri")))


@web.group(cls=FormerGroup, former="create", aliases={"rm": "end"})
def token() -> None:
    """List, create and end tokens, with which programs use the HTTP API."""


@token.command("list")
@owner_argument
@output_option
@click.pass_obj
def list_tokens(session: Session, name: str | None, style: str) -> None:
    """List the tokens of ACCOUNT, or of all."""
    rows = entries(session.ask("list_logins", account=name), "logins")
    TOKENS.show([row for row in rows if row.get("via") == "token"], style)


@token.command("create")
@click.argument("name", metavar="ACCOUNT", shell_complete=complete_account)
@click.option("--scope", "scopes", multiple=True,
              type=click.Choice(("viewer", "operator", "notifier")), default=("viewer",),
              show_default=True, help="What it may do (repeatable).")  # fmt: skip
@click.option("--days", type=click.IntRange(1, 3650), default=90, show_default=True,
              help="Days until it ends.")  # fmt: skip
@click.option("--name", "purpose", default="", metavar="TEXT", help="What it is for.")
@click.pass_obj
def create_token(
    session: Session, name: str, scopes: tuple[str, ...], days: int, purpose: str
) -> None:  # fmt: skip
    """Print a new token of ACCOUNT for programs that use the HTTP API.

    It is printed once. No token confirms a decision. `hive web token end LOGIN` ends it.
    """
    reply = session.change("create_token", account=name, scopes=[*scopes], days=days, name=purpose)
    say(f"login {words(reply.get('login'))}, ends {stamp(reply.get('expires'))}")
    click.echo(words(reply.get("token")))


@token.command("end")
@login_argument
@click.pass_obj
def end_token(session: Session, id_: str) -> None:
    """End the token LOGIN, with its connections."""
    _end_login(session, id_)


@web.group("session", cls=ListGroup, aliases={"rm": "end"})
def session_group() -> None:
    """List and end what is logged in: browsers by a link or a passkey, and programs by a token."""


@session_group.command("list")
@owner_argument
@output_option
@click.pass_obj
def list_sessions(session: Session, name: str | None, style: str) -> None:
    """List open logins and tokens of ACCOUNT, or of all."""
    LOGINS.show(entries(session.ask("list_logins", account=name), "logins"), style)


@session_group.command("end")
@login_argument
@click.pass_obj
def end_session(session: Session, id_: str) -> None:
    """End the login or token LOGIN, with its connections."""
    _end_login(session, id_)


def _end_login(session: Session, id_: str) -> None:
    row = session.change("end_login", login=id_)
    say(f"login {id_} of {words(row.get('account'))} has ended")


@click.command
@owner_argument
@click.option("--end", "id_", metavar="LOGIN", shell_complete=complete_login,
              help="End this login or token, with its connections.")  # fmt: skip
@output_option
@click.pass_obj
def logins(session: Session, name: str | None, id_: str | None, style: str) -> None:
    """List open logins and tokens, or end one (`hive web session`)."""
    if id_ is None:
        LOGINS.show(entries(session.ask("list_logins", account=name), "logins"), style)
        return
    _end_login(session, id_)
