"""Makes repositories private that the operators' group could once write to (attack 59).

Files made by members of that group are replaced by copies, because the members own them. Files that
the group could write are replaced too, because a member may have them open.
"""

from __future__ import annotations

import logging
import os
import shutil
import stat
from pathlib import Path
from typing import Final

log = logging.getLogger(__name__)
_FOLDER: Final = 0o700
_SHARED: Final = 0o022
_SPARE: Final = ".private"


def make_private(folder: Path) -> None:
    """Make a folder and everything in it accessible to the daemon only.

    Can be repeated after a crash.
    """
    with os.scandir(folder) as entries:
        paths = [Path(entry.path) for entry in entries]
    for path in paths:
        facts = path.lstat()
        if stat.S_ISDIR(facts.st_mode):
            make_private(path if facts.st_uid == os.geteuid() else _new_folder(path))
        elif stat.S_ISREG(facts.st_mode):
            _make_file_private(path, facts)
        elif not stat.S_ISLNK(facts.st_mode):
            path.unlink()  # sockets and devices are not part of a repository
    os.chown(folder, -1, os.getegid())
    folder.chmod(_FOLDER)


def _new_folder(path: Path) -> Path:
    """Move the content into a new folder of the daemon; git lets the group write to its folders."""
    new = path.with_name(f"{path.name}{_SPARE}")
    new.mkdir(exist_ok=True)
    for child in path.iterdir():
        child.rename(new / child.name)
    path.rmdir()
    return new.rename(path)


def _make_file_private(path: Path, facts: os.stat_result) -> None:
    mode = facts.st_mode & _FOLDER
    if facts.st_uid == os.geteuid() and not facts.st_mode & _SHARED:
        os.chown(path, -1, os.getegid())
        path.chmod(mode)
        return
    new = path.with_name(f"{path.name}{_SPARE}")
    try:
        shutil.copyfile(path, new)
    except PermissionError as error:
        # an unfinished object of another git
        log.warning("Cannot make %s private: %s", path, error)
        new.unlink(missing_ok=True)
        return
    os.chown(new, -1, os.getegid())  # the folder may pass on another group
    new.chmod(mode)
    new.rename(path)
