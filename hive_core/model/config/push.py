"""A push with git, and its result. Values only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

META: Final = "meta"  # the repository of the hive itself; the others are named by UUIDs
MAIN: Final = "refs/heads/main"
APPROVE: Final = "refs/tags/approve/"
NO_OBJECT: Final = "0" * 40  # what git calls the old value of a ref that is new


@dataclass(frozen=True, slots=True)
class Push:
    """`ref` of `repo` is to change from `old` to `new`; `by` is the uid of the pusher."""

    repo: str
    ref: str
    old: str
    new: str
    by: int


@dataclass(frozen=True, slots=True)
class PackChunk:
    """Bytes of a pack. Without `upload`: the whole pack, or its beginning when `more` follows."""

    data: bytes
    upload: str | None = None
    offset: int = 0
    more: bool = False


@dataclass(frozen=True, slots=True)
class PushProgress:
    """`upload` identifies the upload for the next chunk; empty when the push was judged."""

    upload: str = ""
    size: int = 0
    outcome: str = ""


@dataclass(frozen=True, slots=True)
class MetaCommit:
    """A commit of the meta repository. Author and message are unchecked texts of its author."""

    oid: str
    parents: tuple[str, ...]
    author: str
    time: int
    message: str
