"""Accounts, passkeys and logins as operations return them."""

from __future__ import annotations

from typing import Final

from pydantic import Field

from hive_core.broker.call import Call
from hive_core.broker.operation import Result
from hive_core.model.operator.account import Account, Login, Scope

# Touched when a login begins or ends: the connections of one that ended are closed.
TOPIC: Final = "login"


class AccountRow(Result):
    account: str = Field(description="Name of the account.")
    scopes: list[str] = Field(description="What its logins may do.")
    passkeys: int = Field(description="Number of its passkeys.")
    totp: bool = Field(description="Whether it has a key for codes.")
    logins: int = Field(description="Number of its open logins and tokens.")
    created: float = Field(description="When it was created, in seconds since 1970.")


class PasskeyRow(Result):
    passkey: str = Field(description="Id of the passkey.")
    account: str = Field(description="Name of the account.")
    host: str = Field(description="Host of the web address at which it is used.")
    name: str = Field(description="What its owner calls it.")
    created: float = Field(description="When it was added, in seconds since 1970.")


class LoginRow(Result):
    login: str = Field(description="Id of the login.")
    account: str = Field(description="Name of the account.")
    name: str = Field(description="What a token is for.")
    via: str = Field(description="How it was opened: `link`, `passkey` or `token`.")
    scopes: list[str] = Field(description="What it may do.")
    opened: float = Field(description="When it was opened, in seconds since 1970.")
    used: float = Field(description="When it was last used, in seconds since 1970.")
    expires: float = Field(description="When it ends at the latest, in seconds since 1970.")


def scope_names(scopes: tuple[Scope, ...]) -> list[str]:
    """The names of scopes; all include `viewer`."""
    return [scope.value for scope in Scope if scope is Scope.VIEWER or scope in scopes]


def account_row(call: Call, account: Account) -> AccountRow:
    store, logins = call.ledger.accounts, call.ledger.logins.all()
    return AccountRow(
        account=account.name, scopes=scope_names(account.scopes),
        passkeys=len(store.passkeys(account.name)), totp=store.totp(account.name) is not None,
        logins=sum(login.account == account.name for login in logins), created=account.created,
    )  # fmt: skip


def login_row(call: Call, login: Login) -> LoginRow:
    return LoginRow(
        login=login.id, account=login.account, name=login.name, via=login.via.value,
        scopes=scope_names(login.scopes), opened=login.opened,
        used=call.ledger.logins.get_last_use(login.id), expires=login.expires,
    )  # fmt: skip
