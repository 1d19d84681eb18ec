"""Replaces an agent's configuration clone by a fresh template; the old files are kept.

The old files are moved to `.before/TIME` and not read. The agent may work in the folder meanwhile,
and the job may be killed and started again with the same TIME: each step is one rename, and a
finished step is skipped.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Sequence
from itertools import chain, count
from pathlib import Path
from typing import Final

from hive_core.jobs.outcome import JobRefused

KEPT: Final = ".before"
_TIME: Final = re.compile(r"[0-9]{1,20}", re.ASCII)


def run(words: Sequence[str], root: Path) -> dict[str, float]:
    """The job: TIME. `in/seed` is the new folder."""
    (time,) = words
    if not _TIME.fullmatch(time):
        raise JobRefused("time", "a time is a number")
    place, seed = root / "agent", root / "in/seed"
    archive = _folder(place / KEPT)
    copy, fresh, part, gone = (archive / f"{time}{end}" for end in (".copy", ".new", ".part", ""))
    if not fresh.is_dir():
        shutil.copytree(seed, copy, symlinks=True, dirs_exist_ok=True)
        copy.rename(fresh)
    moved = 0
    if not gone.is_dir():
        moved = _away(place, _folder(part))
        part.rename(gone)
    placed = _move_into_place(fresh, place)
    shutil.rmtree(fresh)
    return {"moved": moved, "placed": placed}


def _folder(path: Path) -> Path:
    """Make a folder; any other entry of that name is renamed and kept with the old files."""
    if path.is_symlink() or (path.exists() and not path.is_dir()):
        path.rename(_free(path))
    path.mkdir(exist_ok=True)
    return path


def _away(place: Path, target: Path) -> int:
    """Move all entries except `.before`; no file is overwritten."""
    names = [entry.name for entry in os.scandir(place) if entry.name != KEPT]
    for name in names:
        (place / name).rename(_free(target / name))
    return len(names)


def _move_into_place(fresh: Path, place: Path) -> int:
    """Move each entry whose name is free; an earlier run or the agent may have made others."""
    names = [entry.name for entry in os.scandir(fresh) if not os.path.lexists(place / entry.name)]
    for name in names:
        (fresh / name).rename(place / name)
    return len(names)


def _free(path: Path) -> Path:
    """This path, or the first similar one that is free."""
    others = (path.with_name(f"{path.name}.{number}") for number in count(1))
    return next(candidate for candidate in chain((path,), others) if not os.path.lexists(candidate))
