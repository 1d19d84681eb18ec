"""Artifacts: named contents in versions, and who may read which. Pure.

Who may read is decided by the line of ancestors as it was when a version was stored, so it holds
also when its author, or anybody of that line, is gone.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

BLOCK: Final = 256 * 1024
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}(/[A-Za-z0-9][A-Za-z0-9._-]{0,63}){0,7}")
_DIGEST: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)


class Visibility(StrEnum):
    PRIVATE = "private"
    SUBTREE = "subtree"
    USER = "user"
    GLOBAL = "global"


@dataclass(frozen=True, slots=True)
class Content:
    """Some bytes, by what they are. `blocks`: the SHA-256 of each block, one behind the other."""

    digest: str
    size: int
    blocks: bytes


@dataclass(frozen=True, slots=True)
class UploadLimits:
    """Bytes that may be on their way at once: those of one party, and those of all."""

    party: int
    all: int


@dataclass(frozen=True, slots=True)
class Artifact:
    """One version. `author` stored it; `owner` is whose it is. Parties are UUIDs.

    `lineage`: the owner's ancestors when it was stored, the root first.
    """

    number: int
    id: str
    owner: str
    owner_name: str
    author: str
    name: str
    version: int
    type: str
    visibility: Visibility
    digest: str
    size: int
    created: float
    lineage: tuple[str, ...]
    latest: bool = True

    @property
    def root(self) -> str:
        return self.lineage[0] if self.lineage else self.owner


@dataclass(frozen=True, slots=True)
class ArtifactReader:
    """Who wants to read. `above`: itself, its ancestors as they are now, and those who are gone
    and left one of these behind."""

    uuid: str
    above: frozenset[str]
    everything: bool = False


def name_fault(name: str) -> str | None:
    """Say why `name` cannot be an artifact's name, or None when it can."""
    if _NAME.fullmatch(name):
        return None
    return (
        "must be 1 to 8 parts joined by '/', each 1 to 64 of A-Z, a-z, 0-9, '.', '_' and '-' that"
        " begins with a letter or a digit"
    )


def is_digest(text: str) -> bool:
    return _DIGEST.fullmatch(text) is not None


def may_read(artifact: Artifact, reader: ArtifactReader) -> bool:
    """Private: the owner. Subtree: also who was above it then, and who is below it.

    User: the whole tree of its root. Global: everybody. The operator reads all.
    """
    if artifact.visibility is Visibility.SUBTREE:
        found = reader.uuid in artifact.lineage or artifact.owner in reader.above
    elif artifact.visibility is Visibility.USER:
        found = artifact.root in reader.above
    else:
        found = artifact.visibility is Visibility.GLOBAL
    return found or reader.everything or reader.uuid == artifact.owner
