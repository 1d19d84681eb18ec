"""The versions of artifacts; their bytes are files beside the ledger."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final
from uuid import uuid4

from hive_core.ledger.core.connection import Connection
from hive_core.model.work.artifact import Artifact, Content, Visibility

# Times of versions are history and are not shifted with the clock; no deadline depends on them.
MOVED: Final[tuple[str, ...]] = ()
_COLUMNS: Final = (
    "number, id, owner, owner_name, author, name, version, type, visibility, digest, size, created,"
    " lineage, latest"
)
_AT_ONCE: Final = 64
# Values of `latest`. 1: the newest version of its name. 2: the newest one for some readers, because
# they may not read the next version, which has another visibility or place in the tree.
_NEWEST: Final = 1
# Versions of one name that are checked for a reader, because an owner may alternate visibilities.
FOR_SOME_MOST: Final = 64


@dataclass(frozen=True, slots=True)
class NewArtifact:
    """A version to store."""

    owner: str
    owner_name: str
    author: str
    name: str
    type: str
    visibility: Visibility
    lineage: tuple[str, ...]

    @property
    def root(self) -> str:
        return self.lineage[0] if self.lineage else self.owner


def _artifact(row: tuple[Any, ...]) -> Artifact:
    (number, id_, owner, owner_name, author, name, version, type_, visibility, digest, size,
     created, lineage, latest) = row  # fmt: skip
    return Artifact(
        number, id_, owner, owner_name, author, name, version, type_, Visibility(visibility),
        digest, size, created, tuple(json.loads(lineage)), latest == _NEWEST,
    )  # fmt: skip


# The version before a deleted one gets its `latest` from the version that follows it now, if any.
_BEFORE: Final = (
    "UPDATE artifacts SET latest = COALESCE((SELECT CASE"
    "   WHEN n.visibility = artifacts.visibility AND n.lineage = artifacts.lineage THEN 0"
    "   ELSE 2 END FROM artifacts n"
    "  WHERE n.owner = ?1 AND n.name = ?2 AND n.version > ?3 ORDER BY n.version LIMIT 1),"
    " 1) WHERE number = (SELECT number FROM artifacts"
    "  WHERE owner = ?1 AND name = ?2 AND version < ?3 ORDER BY version DESC LIMIT 1)"
)


class ArtifactStore:
    def __init__(self, connection: Connection) -> None:
        self._db = connection

    def store(self, new: NewArtifact, content: Content, now: float) -> Artifact:
        """Save the next version of a name."""
        version = 1 + (self._db.value(
            "SELECT version FROM artifact_names WHERE owner = ? AND name = ?", (new.owner, new.name)
        ) or 0)  # fmt: skip
        self._db.run(
            "INSERT OR REPLACE INTO artifact_names VALUES (?, ?, ?)",
            (new.owner, new.name, version),
        )
        self._db.run(
            "INSERT OR IGNORE INTO contents VALUES (?, ?, ?)",
            (content.digest, content.size, content.blocks),
        )
        self._db.run("DELETE FROM old_contents WHERE digest = ?", (content.digest,))
        lineage = json.dumps(new.lineage)
        self._db.run(
            "UPDATE artifacts SET latest = CASE WHEN visibility = ?3 AND lineage = ?4 THEN 0"
            " ELSE 2 END WHERE owner = ?1 AND name = ?2 AND latest = 1",
            (new.owner, new.name, new.visibility.value, lineage),
        )
        id_ = uuid4().hex[:12]
        self._db.run(
            "INSERT INTO artifacts (id, owner, owner_name, author, name, version, type, visibility,"
            " digest, size, created, lineage, root)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (id_, new.owner, new.owner_name, new.author, new.name, version, new.type,
             new.visibility.value, content.digest, content.size, now, lineage,
             new.root),
        )  # fmt: skip
        self._add_use(new.owner, new.root, content.size, 1)
        artifact = self.get(id_)
        if artifact is None:
            raise KeyError(id_)
        return artifact

    def remove(self, artifact: Artifact) -> None:
        """Delete a version. Schedule its bytes for removal if no other version has the same."""
        self._db.run("DELETE FROM artifacts WHERE number = ?", (artifact.number,))
        self._db.run(_BEFORE, (artifact.owner, artifact.name, artifact.version))
        if not self.versions(artifact.owner, artifact.name):
            self._db.run(
                "DELETE FROM artifact_names WHERE owner = ? AND name = ?",
                (artifact.owner, artifact.name),
            )
        self._add_use(artifact.owner, artifact.root, -artifact.size, -1)
        used = "SELECT EXISTS (SELECT 1 FROM artifacts WHERE digest = ?)"
        if not self._db.value(used, (artifact.digest,)):
            self._db.run("DELETE FROM contents WHERE digest = ?", (artifact.digest,))
            self._db.run("INSERT OR IGNORE INTO old_contents VALUES (?)", (artifact.digest,))

    def _add_use(self, owner: str, root: str, size: int, count: int) -> None:
        for party in (owner, f"tree:{root}"):
            self._db.run(
                "INSERT INTO artifact_use VALUES (?1, ?2, ?3) ON CONFLICT (party)"
                " DO UPDATE SET bytes = bytes + ?2, count = count + ?3",
                (party, size, count),
            )

    def usage(self, party: str) -> tuple[int, int]:
        """Bytes and versions of an agent, or of a tree (`tree:` and the UUID of its root)."""
        row = self._db.row("SELECT bytes, count FROM artifact_use WHERE party = ?", (party,))
        return (row[0], row[1]) if row else (0, 0)

    def get(self, id_: str) -> Artifact | None:
        return self._one("id = ?", id_)

    def get_version(self, owner: str, name: str, version: int) -> Artifact | None:
        """A version of a name."""
        return self._one("owner = ? AND name = ? AND version = ?", owner, name, version)

    def newest(self, owner: str, name: str) -> list[Artifact]:
        """The newest version of a name, then those that are the newest for some readers."""
        where = "owner = ? AND name = ? AND latest ORDER BY version DESC LIMIT ?"
        return self._many(where, owner, name, FOR_SOME_MOST)

    def versions(self, owner: str, name: str) -> list[Artifact]:
        """The versions of a name, the newest first."""
        return self._many("owner = ? AND name = ? ORDER BY version DESC", owner, name)

    def page(self, owner: str | None, after: int, limit: int) -> list[Artifact]:
        """The versions that are the newest for some reader, after a number, by age."""
        if owner is None:
            return self._many("latest AND number > ? ORDER BY number LIMIT ?", after, limit)
        where = "owner = ? AND latest AND number > ? ORDER BY number LIMIT ?"
        return self._many(where, owner, after, limit)

    def content(self, digest: str) -> Content | None:
        row = self._db.row("SELECT digest, size, blocks FROM contents WHERE digest = ?", (digest,))
        return Content(*row) if row else None

    def has_content(self, digest: str) -> bool:
        return self.content(digest) is not None

    def old_contents(self) -> list[str]:
        rows = self._db.rows("SELECT digest FROM old_contents LIMIT ?", (_AT_ONCE,))
        return [digest for (digest,) in rows]

    def forget_content(self, digest: str) -> None:
        self._db.run("DELETE FROM old_contents WHERE digest = ?", (digest,))

    def owners(self, name: str) -> list[str]:
        """The owners of artifacts that had this name."""
        rows = self._db.rows("SELECT DISTINCT owner FROM artifacts WHERE owner_name = ?", (name,))
        return [owner for (owner,) in rows]

    # Former ancestors.

    def add_heirs(self, destroyed: str, heirs: Iterable[str]) -> None:
        """Record a destroyed agent and its former ancestors as former ancestors of the heirs."""
        for heir in heirs:
            self._db.run(
                "INSERT OR IGNORE INTO heirs SELECT ?1, ?2"
                " UNION SELECT gone, ?2 FROM heirs WHERE heir = ?1",
                (destroyed, heir),
            )

    def former_ancestors(self, heirs: Iterable[str]) -> frozenset[str]:
        """The destroyed agents that were ancestors of one of these."""
        return frozenset(
            gone
            for heir in heirs
            for (gone,) in self._db.rows("SELECT gone FROM heirs WHERE heir = ?", (heir,))
        )

    def _many(self, where: str, *values: object) -> list[Artifact]:
        rows = self._db.rows(f"SELECT {_COLUMNS} FROM artifacts WHERE {where}", values)  # noqa: S608
        return [_artifact(row) for row in rows]

    def _one(self, where: str, *values: object) -> Artifact | None:
        return next(iter(self._many(f"{where} LIMIT 1", *values)), None)
