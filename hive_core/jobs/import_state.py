"""Copies a folder of the host into the state of an agent, with owners, modes and times.

First everything is copied to a separate folder. Then its entries are moved into place one by one.
Where the agent has an entry of the same name, that entry stays, and the copy stays in the separate
folder. A job that was killed is started again and continues; a marker records the end. Devices,
sockets and pipes are left out.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from hive_core.jobs.outcome import JobRefused

ROOM: Final = ".imported"
_NAME: Final = re.compile(r"import-[0-9a-f]{16}", re.ASCII)
_INTO: Final = re.compile(r"\.|[a-z][a-z0-9.-]{0,62}", re.ASCII)
Figures = dict[str, float]


def run(words: Sequence[str], root: Path) -> Figures:
    """The job: SOURCE INTO. `in2` is the folder, `agent` the state."""
    source, into = words
    if not _NAME.fullmatch(source) or not _INTO.fullmatch(into):
        raise JobRefused("words", "a source and a folder are plain words")
    place, old = root / "agent", root / "in2"
    room = _folder(place / ROOM)
    done, fresh = room / f"{source}.done", room / source
    figures: Figures = {"files": 0, "bytes": 0, "left_out": 0, "kept_aside": 0}
    if not os.path.lexists(done):
        _take(old, fresh, room / f"{source}.part", figures)
        figures["kept_aside"] = _move_into_place(fresh, _folder(place / into))
        os.sync()
        done.touch()
    with suppress(OSError):  # not empty: entries that could not be moved stay there
        fresh.rmdir()
    return figures


def _take(old: Path, fresh: Path, part: Path, figures: Figures) -> None:
    """Copy everything to the separate folder, which gets its name when it is complete."""
    if fresh.is_dir():
        return
    if os.path.lexists(part):
        shutil.rmtree(part)
    _copy(old, part, figures)
    part.rename(fresh)


def _folder(path: Path) -> Path:
    """Create a folder; refuse a symlink or a file in its place."""
    if os.path.lexists(path) and (path.is_symlink() or not path.is_dir()):
        raise JobRefused("place", "an entry of this name exists and is not a folder", path.name)
    path.mkdir(exist_ok=True)
    return path


def _copy(old: Path, new: Path, figures: Figures) -> None:
    """Copy a tree of any depth; folders get their modes and times last."""
    folders: list[tuple[Path, os.stat_result]] = []
    todo = [(old, new)]
    while todo:
        source, target = todo.pop()
        facts = source.lstat()
        if stat.S_ISDIR(facts.st_mode):
            target.mkdir(mode=0o700)
            folders.append((target, facts))
            todo += [(child, target / child.name) for child in _inside(source)]
        elif _copy_file(source, target, facts.st_mode):
            figures["files"] += 1
            figures["bytes"] += facts.st_size
            _copy_attributes(target, facts)
        else:
            figures["left_out"] += 1
    for folder, facts in reversed(folders):
        _copy_attributes(folder, facts)


def _inside(folder: Path) -> Iterator[Path]:
    with os.scandir(folder) as entries:
        yield from [Path(entry.path) for entry in entries]


def _copy_file(source: Path, target: Path, mode: int) -> bool:
    """Copy one file or symlink; False for anything else."""
    if stat.S_ISLNK(mode):
        target.symlink_to(source.readlink())
    elif stat.S_ISREG(mode):
        shutil.copyfile(source, target)
    else:
        return False
    return True


def _copy_attributes(target: Path, facts: os.stat_result) -> None:
    """Set owner, mode (without setuid and setgid) and times."""
    os.lchown(target, facts.st_uid, facts.st_gid)
    if not stat.S_ISLNK(facts.st_mode):
        target.chmod(stat.S_IMODE(facts.st_mode) & 0o1777)
    os.utime(target, ns=(facts.st_atime_ns, facts.st_mtime_ns), follow_symlinks=False)


def _move_into_place(fresh: Path, place: Path) -> int:
    """Move each entry whose name is free; return how many could not be moved."""
    for child in list(_inside(fresh)):
        if not os.path.lexists(place / child.name):
            child.rename(place / child.name)
    return sum(1 for _ in _inside(fresh))
