"""Which file names a configuration may use: those that every file system and tool reads alike.

Standard library only: jobs import this file.
"""

from __future__ import annotations

import re
from typing import Final

PATH_MOST: Final = 200
_PLAIN: Final = re.compile(r"[\x20-\x7e]+", re.ASCII)
# Names that HFS and NTFS treat as `.git`: https://git-scm.com/docs/git-config (core.protectNTFS).
_GIT: Final = re.compile(r"\.git[ .]*(:.*)?|git~[0-9]+", re.IGNORECASE)
_FORBIDDEN: Final = frozenset('/\\:*?"<>|')


def name_fault(name: str) -> str:
    """Why a file or folder may not have this name; empty when it may."""
    rules = (
        (name in ("", ".", ".."), "leads to another folder"),
        (not _PLAIN.fullmatch(name), "is not plain ASCII"),
        (_GIT.fullmatch(name), "is reserved by git, or some file systems treat it as such"),
        (_FORBIDDEN.intersection(name), "has a character that some file systems do not support"),
        (name[:1] in (" ", "-") or name[-1:] in (" ", "."), "begins or ends with an odd character"),
    )
    return next((text for broken, text in rules if broken), "")


class Names:
    """Checks the paths of one tree; no two may be equal on a file system that ignores case."""

    def __init__(self) -> None:
        self._seen: dict[str, str] = {}

    def fault(self, path: str) -> str:
        """Why this path may not be added to those before it; empty when it may."""
        if len(path) > PATH_MOST:
            return f"is longer than {PATH_MOST} characters"
        if fault := name_fault(path.rpartition("/")[2]):
            return fault
        other = self._seen.setdefault(path.lower(), path)
        return "" if other == path else f"differs from {other!r} only in case"
