"""Destroyed agents: what can still be restored, and every UUID that must not come back."""

from __future__ import annotations

from dataclasses import dataclass

from hive_core.ledger.connection import Connection

_COLUMNS = "uuid, name, spec, parent, at, expires"


@dataclass(frozen=True, slots=True)
class Archive:
    """A destroyed agent whose storage is still there. `spec` is JSON, `parent` a UUID or None."""

    uuid: str
    name: str
    spec: str
    parent: str | None
    at: float
    expires: float


class Archives:
    def __init__(self, connection: Connection) -> None:
        self._db = connection

    def put(self, archive: Archive) -> None:
        """Remember a destroyed agent. Its UUID is taken for ever."""
        self._db.run(
            "INSERT INTO archives (uuid, name, spec, parent, at, expires)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            (archive.uuid, archive.name, archive.spec, archive.parent, archive.at, archive.expires),
        )
        self._db.run(
            "INSERT OR IGNORE INTO tombstones (uuid, at) VALUES (?, ?)", (archive.uuid, archive.at)
        )

    def get(self, uuid: str) -> Archive | None:
        row = self._db.row(f"SELECT {_COLUMNS} FROM archives WHERE uuid = ?", (uuid,))  # noqa: S608
        return Archive(*row) if row else None

    def all(self) -> list[Archive]:
        """Oldest first."""
        rows = self._db.rows(f"SELECT {_COLUMNS} FROM archives ORDER BY at, uuid")  # noqa: S608
        return [Archive(*row) for row in rows]

    def page(self, now: float, limit: int, after: tuple[float, str] | None = None) -> list[Archive]:
        """Those within their retention, the oldest first, behind this moment and UUID."""
        rows = self._db.rows(
            f"SELECT {_COLUMNS} FROM archives WHERE expires > ? AND (at, uuid) > (?, ?)"  # noqa: S608
            " ORDER BY at, uuid LIMIT ?",
            (now, *(after or (-1.0, "")), limit),
        )
        return [Archive(*row) for row in rows]

    def expired(self, now: float) -> list[Archive]:
        """Those past their retention: purge the storage, then `drop`."""
        return [archive for archive in self.all() if archive.expires <= now]

    def drop(self, uuid: str) -> None:
        """Restored, or purged. The tombstone stays."""
        self._db.run("DELETE FROM archives WHERE uuid = ?", (uuid,))

    def is_tombstone(self, uuid: str) -> bool:
        """Whether an agent with this UUID was ever destroyed."""
        return self._db.value("SELECT 1 FROM tombstones WHERE uuid = ?", (uuid,)) is not None
