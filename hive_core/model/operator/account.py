"""Accounts of people and services that act as the operator, and the scopes that bound them."""

from __future__ import annotations

import hashlib
from enum import StrEnum
from typing import Final, NamedTuple


class Scope(StrEnum):
    """What a login may do. Each scope includes what `viewer` has."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    APPROVER = "approver"
    NOTIFIER = "notifier"


# Those that a token may have: no token ever confirms.
TOKEN_SCOPES: Final = (Scope.VIEWER, Scope.OPERATOR, Scope.NOTIFIER)


class Via(StrEnum):
    """How a login was opened."""

    LINK = "link"
    PASSKEY = "passkey"
    TOKEN = "token"  # noqa: S105 - a kind of login, not a secret


class Account(NamedTuple):
    """A person or a service. `scopes` is what its logins have at most."""

    name: str
    scopes: tuple[Scope, ...]
    created: float


class Passkey(NamedTuple):
    """A public key of an account, for one host of a web address. `id` is its credential id."""

    id: str
    account: str
    rp_id: str
    name: str
    public_key: bytes
    counter: int
    created: float


class Login(NamedTuple):
    """An open login. It ends at `expires`, and `idle` seconds after its last use; 0: never idle.

    `digest` is that of its secret; `used` is when it was last used, as far as it was recorded;
    `confirmed` is until when its last confirmation counts for operations that ask for a fresh one.
    """

    id: str
    digest: str
    account: str
    name: str
    via: Via
    scopes: tuple[Scope, ...]
    opened: float
    used: float
    expires: float
    idle: float
    confirmed: float = 0.0

    def has(self, scope: Scope) -> bool:
        return scope is Scope.VIEWER or scope in self.scopes

    def end(self, used: float) -> float:
        """When it ends, if it was last used then."""
        return min(self.expires, used + self.idle) if self.idle else self.expires


class LoginSeat:
    """The login that a connection of login.sock has; empty before one."""

    __slots__ = ("login",)

    def __init__(self, login: str = "") -> None:
        self.login = login

    def take(self, login: str) -> None:
        self.login = login


def digest_of(secret: str) -> str:
    """The SHA-256 that hive stores instead of a secret, which has 256 bits: too many to guess."""
    return hashlib.sha256(secret.encode()).hexdigest()
