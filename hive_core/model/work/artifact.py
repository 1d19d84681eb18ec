"""Artifacts: named contents in versions, and who may read which. Pure.

The readers of a version depend on the ancestors of its owner at the time when it was stored, also
after the author or one of these ancestors is destroyed.
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
    """Bytes, by their digest. `blocks`: the concatenated SHA-256 digests of the blocks."""

    digest: str
    size: int
    blocks: bytes


@dataclass(frozen=True, slots=True)
class UploadLimits:
    """Limits of the bytes in unfinished uploads: of one party, and of all parties."""

    party: int
    all: int


@dataclass(frozen=True, slots=True)
class Artifact:
    """One version. `author` stored it for `owner`. Parties are UUIDs.

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
    """A party that reads. `above`: itself, its ancestors now, and destroyed ancestors of these."""

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
    """Whether the reader may read the artifact. The operator reads all.

    private: the owner; subtree: also its ancestors at that time and its descendants; user: the
    whole tree of its root; global: every agent.
    """
    if artifact.visibility is Visibility.SUBTREE:
        visible = reader.uuid in artifact.lineage or artifact.owner in reader.above
    elif artifact.visibility is Visibility.USER:
        visible = artifact.root in reader.above
    else:
        visible = artifact.visibility is Visibility.GLOBAL
    return visible or reader.everything or reader.uuid == artifact.owner
