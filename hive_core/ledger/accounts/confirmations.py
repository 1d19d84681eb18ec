"""Rows of confirmations: begun, then given by a passkey or a code, then taken by one call."""

from __future__ import annotations

from typing import Final, NamedTuple

from hive_core.ledger.core.connection import Connection

# Rows of one login at once, and of all that have none; of more the oldest go. So one login
# cannot push out what another has begun. One is a few hundred bytes.
_MOST: Final = 32
_MOST_WITHOUT_LOGIN: Final = 256


class Confirmation(NamedTuple):
    """One confirmation. `login` is empty for one that opens a login.

    `request` is the digest of what it confirms; `method` is empty until it was given.
    """

    nonce: str
    login: str
    operation: str
    level: str
    request: str
    challenge: bytes
    origin: str
    method: str
    expires: float


class ConfirmationStore:
    def __init__(self, connection: Connection) -> None:
        self._db = connection

    def add(self, confirmation: Confirmation, now: float) -> None:
        """Add one, and delete those that are late."""
        self._db.run("DELETE FROM confirmations WHERE expires <= ?", (now,))
        most = _MOST if confirmation.login else _MOST_WITHOUT_LOGIN
        self._db.run(
            "DELETE FROM confirmations WHERE nonce IN (SELECT nonce FROM confirmations"
            " WHERE login = ? ORDER BY expires DESC LIMIT -1 OFFSET ?)",
            (confirmation.login, most - 1),
        )
        places = ", ".join("?" * len(confirmation))
        self._db.run(f"INSERT INTO confirmations VALUES ({places})", tuple(confirmation))  # noqa: S608

    def take_begun(self, nonce: str, login: str, now: float) -> Confirmation | None:
        """Take away the one with this nonce: it is answered once, by the login that began it."""
        rows = self._db.rows(
            "DELETE FROM confirmations WHERE nonce = ? AND login = ? AND method = ''"
            " AND expires > ? RETURNING *",
            (nonce, login, now),
        )
        return Confirmation(*rows[0]) if rows else None

    def add_given(self, begun: Confirmation, method: str, expires: float, now: float) -> None:
        """Keep one that was given, until a call takes it."""
        self.add(begun._replace(method=method, expires=expires), now)

    def take_given(self, login: str, request: str, now: float) -> str:
        """Take one that was given for exactly this request: its method; empty: there is none."""
        rows = self._db.rows(
            "DELETE FROM confirmations WHERE nonce IN (SELECT nonce FROM confirmations"
            " WHERE login = ? AND request = ? AND method != '' AND expires > ? LIMIT 1)"
            " RETURNING method",
            (login, request, now),
        )
        return rows[0][0] if rows else ""

    def delete_all_of(self, login: str) -> None:
        """Delete what a login has begun or given."""
        self._db.run("DELETE FROM confirmations WHERE login = ?", (login,))
