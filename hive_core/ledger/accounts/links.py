"""Rows of links that were offered in notifications and not used yet."""

from __future__ import annotations

from typing import Final, NamedTuple

from hive_core.ledger.core.connection import Connection

CLOCK_SHIFT: Final[tuple[str, ...]] = ("UPDATE offered_links SET expires = expires + ?1",)
# Rows at once; the oldest go first.
_MOST: Final = 5000


class OfferedLink(NamedTuple):
    """One link, which `account` offered.

    `parameters` is JSON; `state` is the digest of what the link is about.
    """

    digest: str
    account: str
    operation: str
    parameters: str
    label: str
    state: str
    expires: float


class OfferedLinkStore:
    def __init__(self, connection: Connection) -> None:
        self._db = connection

    def add(self, link: OfferedLink, now: float) -> None:
        """Add a link, and delete those that are late."""
        self._db.run("DELETE FROM offered_links WHERE expires <= ?", (now,))
        self._db.run(
            "DELETE FROM offered_links WHERE digest IN"
            " (SELECT digest FROM offered_links ORDER BY expires DESC LIMIT -1 OFFSET ?)",
            (_MOST - 1,),
        )
        places = ", ".join("?" * len(link))
        self._db.run(f"INSERT INTO offered_links VALUES ({places})", tuple(link))  # noqa: S608

    def get(self, digest: str, now: float) -> OfferedLink | None:
        sql = "SELECT * FROM offered_links WHERE digest = ? AND expires > ?"
        row = self._db.row(sql, (digest, now))
        return OfferedLink(*row) if row else None

    def delete(self, digest: str) -> None:
        self._db.run("DELETE FROM offered_links WHERE digest = ?", (digest,))

    def delete_all_of(self, account: str) -> None:
        """Delete the links that a removed account has offered."""
        self._db.run("DELETE FROM offered_links WHERE account = ?", (account,))
