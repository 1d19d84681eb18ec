"""Logins: a credential makes a connection of login.sock the operator on behalf of an account."""

from __future__ import annotations

from typing import Final

from pydantic import Field, SecretStr

from hive_core.broker.call import Call, Record
from hive_core.broker.login_rule import ANY_LOGIN, LOCAL
from hive_core.broker.operation import Confidential, Mutation, Params, Result, operation
from hive_core.broker.timers import due
from hive_core.errors import InvalidArgument, LimitReached, NotAllowed, NotFound
from hive_core.model.operator.account import Login, LoginSeat, Via, digest_of
from hive_core.operations.accounts.new_login import end_one_login, open_new_login
from hive_core.operations.accounts.passkeys import Assertion, account_of_assertion
from hive_core.operations.accounts.views import TOPIC, LoginRow, login_row, scope_names
from hive_core.policy.rules import OPERATOR

# Seconds after a login by link in which a passkey can be added.
ADD_SECONDS: Final = 300.0
_RULE: Final = "credential"


class OpenLoginParams(Confidential):
    credential: SecretStr | None = Field(
        None, max_length=128,
        description="Secret of a login link, of a login that was opened before, or of a token.",
    )  # fmt: skip
    assertion: Assertion | None = Field(
        None, description="Instead of it, what a passkey has signed (`begin_confirmation`)."
    )
    address: str = Field(
        "", max_length=64, pattern=r"^[0-9A-Za-z.:%_-]*$",
        description="Address of the browser or program, for the audit log and the limit on it.",
    )  # fmt: skip


class OpenedLogin(Result):
    login: str = Field(description="Id of the login.")
    account: str = Field(description="Name of the account.")
    scopes: list[str] = Field(description="What it may do.")
    via: str = Field(description="How it was opened: `link`, `passkey` or `token`.")
    credential: str | None = Field(
        description="Secret that opens this login again; null where it was opened by that."
    )
    expires: float = Field(description="When it ends at the latest, in seconds since 1970.")
    idle: float = Field(
        description="Seconds without `use_login` after which it ends; 0: it does not."
    )
    may_add_passkey: bool = Field(description="Whether `add_passkey` is open to it now.")
    passkeys: int = Field(description="Number of passkeys of the account.")
    totp: bool = Field(description="Whether the account has a key for codes.")
    confirmed_until: float | None = Field(
        description="Until when its last confirmation counts where a fresh one is asked for."
    )


class UseLoginParams(Params):
    """No parameters."""


class UsedLogin(Result):
    ends: float = Field(
        description="When it ends unless it is used again, in seconds since 1970."
    )  # fmt: skip


class CloseLoginParams(Mutation):
    pass


class ListLoginsParams(Params):
    account: str | None = Field(None, max_length=32, description="Name of an account; default: all")


class LoginRows(Result):
    logins: list[LoginRow] = Field(description="The open logins and tokens, the oldest first.")


class EndLoginParams(Mutation):
    login: str = Field(max_length=64, description="Id of the login.")


def seat_of(call: Call) -> LoginSeat:
    """The place of the connection's login."""
    if call.seat is None:
        raise NotAllowed(
            "cannot use a login on this socket: only login.sock has logins", rule="scope"
        )
    return call.seat


def own_login(call: Call) -> Login:
    """The login of the connection."""
    seat_of(call)
    login = call.login
    if login is None:
        raise NotAllowed("the connection has no login: call open_login first", rule="login")
    return login


def may_add_passkey(call: Call, login: Login) -> bool:
    return login.via is Via.LINK and call.now <= login.opened + ADD_SECONDS


@operation(action="administer", allow=OPERATOR, login=ANY_LOGIN)
def open_login(call: Call, params: OpenLoginParams) -> Record[OpenedLogin]:
    """Open a login, or come back to one: the connection then acts on behalf of its account.

    Only login.sock serves this. A link is used once, within 120 seconds; a login ends 12 hours
    after its last `use_login` and after 7 days, a token at its end.
    """
    seat = seat_of(call)
    if seat.login:
        raise NotAllowed("cannot open a login: the connection has one", rule=_RULE)
    known = _known_login(call, params)
    login, secret = (known, None) if known is not None else _open_afresh(call, params)
    call.ledger.connection.undo.note(seat.take, seat.login)
    seat.take(login.id)
    call.ledger.logins.note_call(login.id, call.now)
    return Record(_view(call, login, secret), fields={"address": params.address})


def _known_login(call: Call, params: OpenLoginParams) -> Login | None:
    """The login or token with this secret, unless it has ended."""
    if params.credential is None:
        return None
    store = call.ledger.logins
    login = store.by_digest(digest_of(params.credential.get_secret_value()))
    if login is None or login.end(store.get_last_use(login.id)) <= call.now:
        return None
    return login


def _open_afresh(call: Call, params: OpenLoginParams) -> tuple[Login, str]:
    """A new login by a link or a passkey: only so many a minute, with those that fail."""
    after = call.ledger.openings.take(_source(call, params), call.now)
    if after > 0:
        reason = f"cannot open a login{_from(params)}: too many, try again in {after:.0f} s"
        raise LimitReached(reason, rule=_RULE, retry_after=after)
    if (params.credential is None) is (params.assertion is None):
        raise InvalidArgument("give a credential or an assertion", field="credential")
    if params.assertion is not None:
        name, via = account_of_assertion(call, params.assertion), Via.PASSKEY
    else:
        name, via = _account_of_link(call, params), Via.LINK
    account = call.ledger.accounts.get(name) if name else None
    if account is None:
        raise NotAllowed(f"cannot open a login{_from(params)}: no valid credential", rule=_RULE)
    return open_new_login(call, account, via)


def _source(call: Call, params: OpenLoginParams) -> str:
    """The key that counts failed tries. Failed tokens do not lock out logins of the address."""
    secret = params.credential.get_secret_value() if params.credential else ""
    kind = "token" if secret.startswith("token_") else "login"
    return f"{kind} {params.address or f'uid {call.uid}'}"


def _account_of_link(call: Call, params: OpenLoginParams) -> str | None:
    secret = params.credential.get_secret_value() if params.credential else ""
    return call.ledger.accounts.take_link(digest_of(secret), call.now)


def _from(params: OpenLoginParams) -> str:
    return f" from {params.address}" if params.address else ""


def _view(call: Call, login: Login, secret: str | None) -> OpenedLogin:
    accounts = call.ledger.accounts
    return OpenedLogin(
        login=login.id, account=login.account, scopes=scope_names(login.scopes),
        via=login.via.value, credential=secret, expires=login.expires, idle=login.idle,
        may_add_passkey=may_add_passkey(call, login),
        passkeys=len(accounts.passkeys(login.account)),
        totp=accounts.totp(login.account) is not None,
        confirmed_until=login.confirmed if login.confirmed > call.now else None,
    )  # fmt: skip


@operation(action="administer", allow=OPERATOR, login=ANY_LOGIN)
def use_login(call: Call, params: UseLoginParams) -> UsedLogin:
    """Say that the person of this login has just used it, so that it does not end as idle.

    Other calls do not say that: a program makes them by itself for a page that is left open.
    """
    del params
    login = own_login(call)
    call.ledger.logins.use(login.id, call.now)
    return UsedLogin(ends=login.end(call.now))


@operation(action="administer", allow=OPERATOR, login=ANY_LOGIN, destructive=True)
def close_login(call: Call, params: CloseLoginParams) -> Record[LoginRow]:
    """End the login of this connection: its secret no longer opens anything."""
    del params
    login = own_login(call)
    row = login_row(call, login)
    end_one_login(call, login)
    return Record(row, fields={"account": login.account, "login": login.id})


@operation(action="administer", allow=OPERATOR, login=LOCAL)
def list_logins(call: Call, params: ListLoginsParams) -> LoginRows:
    """List open logins and tokens: whose they are, how they were opened, when they were used."""
    logins = call.ledger.logins.all()
    wanted = (login for login in logins if params.account in (None, login.account))
    return LoginRows(logins=[login_row(call, login) for login in wanted])


@operation(action="administer", allow=OPERATOR, login=LOCAL, destructive=True)
def end_login(call: Call, params: EndLoginParams) -> Record[LoginRow]:
    """End a login or a token at once, with its connections."""
    login = call.ledger.logins.get(params.login)
    if login is None:
        raise NotFound(f"no login {params.login}; `hive web session` lists the logins")
    row = login_row(call, login)
    end_one_login(call, login)
    return Record(row, fields={"account": login.account, "login": login.id})


@due(at=lambda ledger: ledger.logins.next_end(), topics=frozenset({TOPIC}))
def end_late_logins(call: Call) -> Record[Result]:
    """End logins that were not used for too long, or are too old."""
    for login in call.ledger.logins.late_logins(call.now):
        end_one_login(call, login)
    return Record(Result(), audited=True)
