"""Begins and ends logins, in the transaction of a call."""

from __future__ import annotations

import secrets
from typing import Final

from hive_core.broker.call import Call
from hive_core.errors import LimitReached
from hive_core.model.operator.account import Account, Login, Via, digest_of
from hive_core.operations.accounts.views import TOPIC

LOGIN_SECONDS: Final = 7 * 86_400.0
IDLE_SECONDS: Final = 12 * 3600.0
# Logins of one account, tokens included. A further one ends the login that was not used for
# longest, and never a token: a program could not log in again.
_MOST: Final = 64


def open_new_login(
    call: Call, account: Account, via: Via, seconds: float = LOGIN_SECONDS, name: str = ""
) -> tuple[Login, str]:
    """Open a login of an account, and return its secret, of which only a digest is kept."""
    store, is_token = call.ledger.logins, via is Via.TOKEN
    secret = f"{'token' if is_token else 'login'}_{secrets.token_urlsafe(32)}"
    login = Login(
        secrets.token_hex(8), digest_of(secret), account.name, name, via, account.scopes,
        call.now, call.now, call.now + seconds, 0.0 if is_token else IDLE_SECONDS,
    )  # fmt: skip
    others = [other for other in store.all() if other.account == account.name]
    if len(others) >= _MOST:
        _make_room(call, account, others)
    store.add(login)
    call.notify(TOPIC)
    return login, secret


def _make_room(call: Call, account: Account, others: list[Login]) -> None:
    logins = [other for other in others if other.via is not Via.TOKEN]
    if not logins:
        reason = f"cannot open a login of {account.name}: it has {_MOST} tokens, which is the limit"
        raise LimitReached(f"{reason}; end one of them")
    end_one_login(call, min(logins, key=lambda other: call.ledger.logins.get_last_use(other.id)))


def end_one_login(call: Call, login: Login) -> None:
    """End a login; its connections are closed after COMMIT."""
    call.ledger.logins.end(login.id)
    call.notify(TOPIC)


def end_logins_of(call: Call, account: str, via: Via | None = None) -> None:
    """End the logins of an account: all, or those that were opened in this way."""
    for login in call.ledger.logins.all():
        if login.account == account and via in (None, login.via):
            end_one_login(call, login)


def withdraw_confirmations(call: Call, account: str) -> None:
    """Withdraw the confirmations of an account, because its key may have been stolen."""
    for login in call.ledger.logins.all():
        if login.account == account:
            call.ledger.logins.record_confirmation(login.id, 0.0)
            call.ledger.confirmations.delete_all_of(login.id)
