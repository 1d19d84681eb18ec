"""Accounts, and what opens their logins. Only the operator's own socket has these operations."""

from __future__ import annotations

import base64
import secrets
from typing import Annotated, Final, Literal
from urllib.parse import quote

from pydantic import Field

from hive_core.broker.call import Call, Record
from hive_core.broker.login_rule import LOCAL
from hive_core.broker.operation import Confidential, Mutation, Params, Result, operation
from hive_core.errors import LimitReached, NotFound
from hive_core.model.operator.account import (
    TOKEN_SCOPES,
    Account,
    Scope,
    Via,
    digest_of,
)
from hive_core.operations.accounts.new_login import (
    end_logins_of,
    open_new_login,
    withdraw_confirmations,
)
from hive_core.operations.accounts.views import TOPIC, AccountRow, PasskeyRow, account_row
from hive_core.policy.rules import OPERATOR

LINK_SECONDS: Final = 120.0
ACCOUNTS_MOST: Final = 256
_DAY: Final = 86_400.0
_TOTP_BYTES: Final = 20

AccountName = Annotated[
    str, Field(pattern=r"^[a-z][a-z0-9-]{0,31}$", description="Name of the account.")
]
ScopeName = Literal["viewer", "operator", "approver", "notifier"]
TokenScopeName = Literal["viewer", "operator", "notifier"]


class CreateAccountParams(Mutation):
    name: AccountName
    scopes: list[ScopeName] = Field(
        ["viewer", "operator", "approver"], max_length=len(Scope),
        description="What its logins may do: `viewer` reads, `operator` changes, `approver`"
        " decides what takes a confirmation, `notifier` makes links. Each includes `viewer`.",
    )  # fmt: skip


class AccountParams(Mutation):
    account: AccountName


class SecretOfAccountParams(Confidential):
    account: AccountName


class ListAccountsParams(Params):
    pass


class AccountRows(Result):
    accounts: list[AccountRow] = Field(description="The accounts, by name.")


class LoginLink(Result):
    url: str = Field(description="Web address. Whoever has it can open one login with it.")
    account: str = Field(description="Name of the account.")
    expires: float = Field(description="When it expires, in seconds since 1970.")


class CreateTokenParams(SecretOfAccountParams):
    scopes: list[TokenScopeName] = Field(
        ["viewer"], min_length=1, max_length=len(TOKEN_SCOPES),
        description="What it may do, among the scopes of the account. No token confirms anything.",
    )  # fmt: skip
    name: str = Field("", max_length=64, description="What it is for.")
    days: int = Field(90, ge=1, le=3650, description="Days until it ends.")


class CreatedToken(Result):
    token: str = Field(description="The token. It is not stored and cannot be shown again.")
    login: str = Field(description="Id of its login; `end_login` ends it.")
    expires: float = Field(description="When it ends, in seconds since 1970.")


class TotpKey(Result):
    secret: str = Field(description="The key in base32. It cannot be shown again.")
    uri: str = Field(description="The same for an app that makes codes.")


class ListPasskeysParams(Params):
    account: AccountName | None = Field(None, description="Name of the account; default: all.")


class PasskeyRows(Result):
    passkeys: list[PasskeyRow] = Field(description="The passkeys, the oldest first.")


class RemovePasskeyParams(Mutation):
    passkey: str = Field(max_length=1400, description="Id of the passkey.")


class Removed(Result):
    removed: str = Field(description="What was removed.")


def existing_account(call: Call, name: str) -> Account:
    account = call.ledger.accounts.get(name)
    if account is None:
        raise NotFound(f"no account {name}; `hive web account create {name}` creates it")
    return account


@operation(action="administer", allow=OPERATOR, login=LOCAL, idempotent=True)
def create_account(call: Call, params: CreateAccountParams) -> Record[AccountRow]:
    """Create an account for a person or a service, or give it other scopes.

    Other scopes end its logins. An account has no password: `hive web login` opens a login of it.
    """
    store = call.ledger.accounts
    known = store.get(params.name)
    if known is None and len(store.all()) >= ACCOUNTS_MOST:
        raise LimitReached(f"cannot create account {params.name}: limit ({ACCOUNTS_MOST}) reached")
    scopes = tuple(scope for scope in Scope if scope.value in params.scopes)
    account = Account(params.name, scopes, known.created if known else call.now)
    if known is not None and known.scopes != scopes:
        end_logins_of(call, params.name)
    store.put(account)
    fields = {"account": account.name, "scopes": [scope.value for scope in scopes]}
    return Record(account_row(call, account), fields=fields)


@operation(action="administer", allow=OPERATOR, login=LOCAL, destructive=True, idempotent=True)
def remove_account(call: Call, params: AccountParams) -> Record[Removed]:
    """Remove an account, its passkeys and tokens, and end its logins at once."""
    existing_account(call, params.account)
    end_logins_of(call, params.account)
    call.ledger.accounts.delete(params.account)
    call.ledger.offered_links.delete_all_of(params.account)
    return Record(Removed(removed=params.account), fields={"account": params.account})


@operation(action="administer", allow=OPERATOR, login=LOCAL)
def list_accounts(call: Call, params: ListAccountsParams) -> AccountRows:
    """List the accounts with their scopes, and how they can confirm."""
    del params
    return AccountRows(accounts=[account_row(call, row) for row in call.ledger.accounts.all()])


@operation(action="administer", allow=OPERATOR, login=LOCAL)
def create_login_link(call: Call, params: SecretOfAccountParams) -> Record[LoginLink]:
    """Create a link that opens one login of an account within the next 120 seconds."""
    existing_account(call, params.account)
    secret = f"link_{secrets.token_urlsafe(32)}"
    expires = call.now + LINK_SECONDS
    call.ledger.accounts.add_link(digest_of(secret), params.account, expires)
    url = f"{call.settings.web.origins[-1]}/login#{secret}"
    result = LoginLink(url=url, account=params.account, expires=expires)
    return Record(result, fields={"account": params.account})


@operation(action="administer", allow=OPERATOR, login=LOCAL)
def create_token(call: Call, params: CreateTokenParams) -> Record[CreatedToken]:
    """Create a token for programs, within the scopes of an account; it confirms nothing."""
    account = existing_account(call, params.account)
    wanted = (Scope(word) for word in params.scopes)
    scopes = tuple(scope for scope in wanted if scope in (Scope.VIEWER, *account.scopes))
    login, secret = open_new_login(
        call, account._replace(scopes=scopes), Via.TOKEN, params.days * _DAY, params.name
    )
    fields = {"account": account.name, "login": login.id, "scopes": [*scopes], "name": params.name}
    result = CreatedToken(token=secret, login=login.id, expires=login.expires)
    return Record(result, fields=fields)


@operation(action="administer", allow=OPERATOR, login=LOCAL)
def set_totp(call: Call, params: SecretOfAccountParams) -> Record[TotpKey]:
    """Create or replace the key with which an app makes codes (TOTP) for an account."""
    existing_account(call, params.account)
    key = secrets.token_bytes(_TOTP_BYTES)
    call.ledger.accounts.set_totp(params.account, key)
    withdraw_confirmations(call, params.account)
    text = base64.b32encode(key).decode()
    uri = f"otpauth://totp/{quote(f'hive:{params.account}')}?secret={text}&issuer=hive"
    return Record(TotpKey(secret=text, uri=uri), fields={"account": params.account})


@operation(action="administer", allow=OPERATOR, login=LOCAL)
def list_passkeys(call: Call, params: ListPasskeysParams) -> PasskeyRows:
    """List the passkeys of an account, or of all."""
    passkeys = call.ledger.accounts.passkeys(params.account or "")
    return PasskeyRows(passkeys=[
        PasskeyRow(
            passkey=key.id, account=key.account, host=key.rp_id, name=key.name, created=key.created
        )
        for key in passkeys
    ])  # fmt: skip


@operation(action="administer", allow=OPERATOR, login=LOCAL, destructive=True)
def remove_passkey(call: Call, params: RemovePasskeyParams) -> Record[Removed]:
    """Remove a passkey: it no longer opens a login or confirms anything.

    Logins that it has opened are ended too.
    """
    passkey = call.ledger.accounts.passkey(params.passkey)
    if passkey is None:
        raise NotFound(f"no passkey {params.passkey[:64]}")
    call.ledger.accounts.delete_passkey(passkey.id)
    end_logins_of(call, passkey.account, Via.PASSKEY)
    withdraw_confirmations(call, passkey.account)
    call.notify(TOPIC)
    fields = {"account": passkey.account, "passkey": passkey.id}
    return Record(Removed(removed=passkey.id), fields=fields)
