"""Rows of accounts, their passkeys and TOTP keys, and the links that open a login once."""

from __future__ import annotations

from hive_core.ledger.accounts.logins import join_scopes, split_scopes
from hive_core.ledger.core.connection import Connection
from hive_core.model.operator.account import Account, Passkey


class AccountStore:
    def __init__(self, connection: Connection) -> None:
        self._db = connection

    def get(self, name: str) -> Account | None:
        row = self._db.row("SELECT name, scopes, created FROM accounts WHERE name = ?", (name,))
        return Account(row[0], split_scopes(row[1]), row[2]) if row else None

    def all(self) -> list[Account]:
        rows = self._db.rows("SELECT name, scopes, created FROM accounts ORDER BY name")
        return [Account(name, split_scopes(scopes), created) for name, scopes, created in rows]

    def put(self, account: Account) -> None:
        """Add an account, or give it other scopes."""
        values = (account.name, join_scopes(account.scopes), account.created)
        self._db.run("INSERT OR REPLACE INTO accounts VALUES (?, ?, ?)", values)

    def delete(self, name: str) -> None:
        """Delete an account with all that opens a login of it."""
        for table in ("accounts WHERE name", "login_links WHERE account", "passkeys WHERE account",
                      "totp_keys WHERE account"):  # fmt: skip
            self._db.run(f"DELETE FROM {table} = ?", (name,))  # noqa: S608 - our own words

    # Links that open a login

    def add_link(self, digest: str, account: str, expires: float) -> None:
        self._db.run("INSERT INTO login_links VALUES (?, ?, ?)", (digest, account, expires))

    def take_link(self, digest: str, now: float) -> str | None:
        """The account of a link, which opens no second login; None: it is used, late or unknown."""
        self._db.run("DELETE FROM login_links WHERE expires <= ?", (now,))
        rows = self._db.rows(
            "DELETE FROM login_links WHERE digest = ? RETURNING account", (digest,)
        )
        return rows[0][0] if rows else None

    # Passkeys

    def passkeys(self, account: str = "", rp_id: str = "") -> list[Passkey]:
        """The passkeys of an account, or of all; of one host, or of all."""
        rows = self._db.rows(
            "SELECT id, account, rp_id, name, public_key, counter, created FROM passkeys"
            " WHERE ?1 IN ('', account) AND ?2 IN ('', rp_id) ORDER BY created, id",
            (account, rp_id),
        )
        return [Passkey(*row) for row in rows]

    def passkey(self, id_: str) -> Passkey | None:
        return next((key for key in self.passkeys() if key.id == id_), None)

    def add_passkey(self, passkey: Passkey) -> None:
        self._db.run("INSERT INTO passkeys VALUES (?, ?, ?, ?, ?, ?, ?)", tuple(passkey))

    def set_counter(self, id_: str, counter: int) -> None:
        self._db.run("UPDATE passkeys SET counter = ? WHERE id = ?", (counter, id_))

    def delete_passkey(self, id_: str) -> None:
        self._db.run("DELETE FROM passkeys WHERE id = ?", (id_,))

    # TOTP

    def totp(self, account: str) -> tuple[bytes, int] | None:
        """The key of an account, and the step of the last code that counted."""
        sql = "SELECT secret, step FROM totp_keys WHERE account = ?"
        row = self._db.row(sql, (account,))
        return (row[0], row[1]) if row else None

    def set_totp(self, account: str, secret: bytes, step: int = 0) -> None:
        values = (account, secret, step)
        self._db.run("INSERT OR REPLACE INTO totp_keys VALUES (?, ?, ?)", values)
