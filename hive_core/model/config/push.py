"""What somebody pushes with git, and what became of it. Values only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

META: Final = "meta"  # the repository of the hive itself; every other one is named by a UUID
MAIN: Final = "refs/heads/main"
APPROVE: Final = "refs/tags/approve/"
NO_OBJECT: Final = "0" * 40  # what git calls the old value of a ref that is new


@dataclass(frozen=True, slots=True)
class Push:
    """`ref` of `repo` shall lead from `old` to `new`; `by` is the uid of who pushed."""

    repo: str
    ref: str
    old: str
    new: str
    by: int


@dataclass(frozen=True, slots=True)
class PackChunk:
    """Bytes of a pack. Without an upload they are all of it, or its beginning if `more` follow."""

    data: bytes
    upload: str | None = None
    offset: int = 0
    more: bool = False


@dataclass(frozen=True, slots=True)
class PushProgress:
    """`upload` is where the next part goes; empty when the push was judged."""

    upload: str = ""
    size: int = 0
    outcome: str = ""


@dataclass(frozen=True, slots=True)
class MetaCommit:
    """A commit of the meta repository. Author and message are the words of whoever made it."""

    oid: str
    parents: tuple[str, ...]
    author: str
    time: int
    message: str
