"""Archives of destroyed agents, and the UUIDs that must never be used again."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from hive_core.ledger.core.connection import Connection

_COLUMNS = "uuid, name, spec, parent, at, expires, above, struck"


@dataclass(frozen=True, slots=True)
class Archive:
    """A destroyed agent whose storage still exists. `spec` is JSON, `parent` a UUID or None.

    `above` are the UUIDs of its ancestors, the highest first. `struck` are capabilities that it
    lost because one of those ancestors lost them meanwhile.
    """

    uuid: str
    name: str
    spec: str
    parent: str | None
    at: float
    expires: float
    above: tuple[str, ...] = ()
    struck: tuple[str, ...] = ()


def _archive(row: tuple[Any, ...]) -> Archive:
    uuid, name, spec, parent, at, expires, above, struck = row
    above, struck = tuple(json.loads(above)), tuple(json.loads(struck))
    return Archive(uuid, name, spec, parent, at, expires, above, struck)


class Archives:
    """The tables of archives and tombstones."""

    def __init__(self, connection: Connection) -> None:
        self._db = connection

    def put(self, archive: Archive) -> None:
        """Store a destroyed agent. Its UUID is never used again."""
        self._db.run(
            f"INSERT INTO archives ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",  # noqa: S608
            (
                archive.uuid, archive.name, archive.spec, archive.parent, archive.at,
                archive.expires, json.dumps(archive.above), json.dumps(archive.struck),
            ),
        )  # fmt: skip
        self._db.run(
            "INSERT OR IGNORE INTO tombstones (uuid, at) VALUES (?, ?)", (archive.uuid, archive.at)
        )

    def get(self, uuid: str) -> Archive | None:
        row = self._db.row(f"SELECT {_COLUMNS} FROM archives WHERE uuid = ?", (uuid,))  # noqa: S608
        return _archive(row) if row else None

    def all(self) -> list[Archive]:
        """All archives, the oldest first."""
        rows = self._db.rows(f"SELECT {_COLUMNS} FROM archives ORDER BY at, uuid")  # noqa: S608
        return [_archive(row) for row in rows]

    def parents(self) -> dict[str, str | None]:
        """The parent of each, by UUID."""
        return dict(self._db.rows("SELECT uuid, parent FROM archives"))

    def page(self, now: float, limit: int, after: tuple[float, str] | None = None) -> list[Archive]:
        """Archives within their retention, the oldest first, after this time and UUID."""
        rows = self._db.rows(
            f"SELECT {_COLUMNS} FROM archives WHERE expires > ? AND (at, uuid) > (?, ?)"  # noqa: S608
            " ORDER BY at, uuid LIMIT ?",
            (now, *(after or (-1.0, "")), limit),
        )
        return [_archive(row) for row in rows]

    def past_retention(self, now: float) -> list[Archive]:
        """Expired archives: delete their storage, then `drop` them."""
        return [archive for archive in self.all() if archive.expires <= now]

    @property
    def any(self) -> bool:
        return bool(self._db.value("SELECT EXISTS (SELECT 1 FROM archives)"))

    def strike_capabilities(self, taken: Mapping[str, Collection[str]]) -> None:
        """Take capabilities from destroyed agents below agents that lost them, given by UUID."""
        for archive in self.all():
            above = taken.keys() & {*archive.above, archive.parent}
            lost = {capability for uuid in above for capability in taken[str(uuid)]}
            spec = json.loads(archive.spec)
            left = [capability for capability in spec["capabilities"] if capability not in lost]
            if left != spec["capabilities"]:
                spec["capabilities"], struck = left, sorted(lost & {*spec["capabilities"]})
                self._db.run(
                    "UPDATE archives SET spec = ?, struck = ? WHERE uuid = ?",
                    (json.dumps(spec), json.dumps([*archive.struck, *struck]), archive.uuid),
                )

    def drop(self, uuid: str) -> None:
        """Remove a restored or deleted archive. The tombstone stays."""
        self._db.run("DELETE FROM archives WHERE uuid = ?", (uuid,))

    def is_tombstone(self, uuid: str) -> bool:
        """Whether an agent with this UUID was ever destroyed."""
        return self._db.value("SELECT 1 FROM tombstones WHERE uuid = ?", (uuid,)) is not None
