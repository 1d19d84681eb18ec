"""What a proposal would change, as the job that judged it wrote it down; read in parts.

The file lies beside the repository and may have megabytes, so no call reads all of it.
"""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path
from typing import Final

from hive_core.errors import Internal, NotFound
from hive_core.host.git.pending_locks import FOLDER
from hive_core.model.config.review import LINE_MOST

PART: Final = 1 << 20  # bytes of lines that are read at once
_UUID: Final = re.compile(r"[0-9a-f-]{36}")
_ID: Final = re.compile(r"[0-9a-f]{12}")


class ReviewDiffs:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def read(self, uuid: str, approval: str, at: int) -> tuple[bytes, bool]:
        """Whole lines from the byte `at` on, one at least, and whether there are more.

        Without a UUID it is the difference of newer inputs.
        """
        if not ((not uuid or _UUID.fullmatch(uuid)) and _ID.fullmatch(approval)):
            raise Internal("no name of a difference")
        place = self._folder / f"{uuid}.git" / "hive" if uuid else self._folder / FOLDER
        path = place / f"{approval}.diff"
        try:
            file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
        except FileNotFoundError:
            raise NotFound(f"the changes of {approval} are not kept (any more)") from None
        except OSError as error:
            raise Internal(f"cannot read the changes of {approval}: {error}") from error
        try:
            return _lines(file, at)
        finally:
            os.close(file)


def _lines(file: int, at: int) -> tuple[bytes, bool]:
    status = os.fstat(file)
    if not stat.S_ISREG(status.st_mode):
        raise Internal("the changes are no file")
    data = os.pread(file, PART, at)
    if b"\n" not in data:
        data = os.pread(file, LINE_MOST, at)
    end = data.rfind(b"\n") + 1
    if data and not end:
        raise Internal("the changes end in the middle of a line, or have one that is too long")
    return data[:end], at + end < status.st_size
