"""The diff of a proposal, as the review job wrote it, read in parts.

The file is stored beside the repository and may have megabytes, so no call reads all of it.
"""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path
from typing import Final

from hive_core.errors import Internal, NotFound
from hive_core.host.git.proposed_lock_files import FOLDER
from hive_core.model.config.review import LINE_MOST

PART: Final = 1 << 20  # bytes that are read at once
_UUID: Final = re.compile(r"[0-9a-f-]{36}")
_ID: Final = re.compile(r"[0-9a-f]{12}")


class ReviewDiffs:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def read(self, uuid: str, approval: str, at: int) -> tuple[bytes, bool]:
        """Whole lines from the byte `at`, at least one, and whether more follow.

        An empty `uuid` means the diff of updated flake inputs.
        """
        if not ((not uuid or _UUID.fullmatch(uuid)) and _ID.fullmatch(approval)):
            raise Internal("this is not the id of an agent and an approval")
        place = self._folder / f"{uuid}.git" / "hive" if uuid else self._folder / FOLDER
        path = place / f"{approval}.diff"
        try:
            file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
        except FileNotFoundError:
            raise NotFound(f"the diff of {approval} was deleted or never existed") from None
        except OSError as error:
            raise Internal(f"cannot read the diff of {approval}: {error}") from error
        try:
            return _lines(file, at)
        finally:
            os.close(file)


def _lines(file: int, at: int) -> tuple[bytes, bool]:
    status = os.fstat(file)
    if not stat.S_ISREG(status.st_mode):
        raise Internal("the diff is not a regular file")
    data = os.pread(file, PART, at)
    if b"\n" not in data:
        data = os.pread(file, LINE_MOST, at)
    end = data.rfind(b"\n") + 1
    if data and not end:
        raise Internal("the diff ends within a line, or a line is too long")
    return data[:end], at + end < status.st_size
