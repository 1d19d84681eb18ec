"""The deployed configuration of an agent: plain files in its socket directory, behind `config`.

A container sees the files read-only through the mount of its socket directory. New files are
written beside the current ones, then the symlink `config` changes, so a reader sees either commit
and no mixture. The files of the commit before stay until the next change, for readers that have
them open.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from hive_core.errors import Internal
from hive_core.host.storage.views import refusal
from hive_core.plan import nar

ROOM: Final = ".configs"
LINK: Final = "config"
_SPARE: Final = ".new"


def show_config(run: Path, commit: str, source: Callable[[], bytes]) -> None:
    """Make `config` in the folder `run` point to the files of `commit`.

    Remove it if `commit` is empty.

    `source` returns the NAR of the files. It is called only if they are not there yet.
    """
    try:
        before = shown_commit(run)
        if commit and not (run / ROOM / commit).is_dir():
            _write(run / ROOM, commit, source())
        if before != commit:
            _set_link(run, commit)
        _sweep(run / ROOM, {before, commit})
    except OSError as error:
        raise refusal(error) from error
    except ValueError as error:
        raise Internal(f"cannot read the configuration {commit}: {error}") from error


def shown_commit(run: Path) -> str:
    """The commit that `config` points to; empty if none."""
    try:
        return (run / LINK).readlink().name
    except (FileNotFoundError, OSError):
        return ""


def _set_link(run: Path, commit: str) -> None:
    if not commit:
        with suppress(FileNotFoundError):
            (run / LINK).unlink()
        return
    spare = run / f".{LINK}{_SPARE}"
    with suppress(FileNotFoundError):
        spare.unlink()
    spare.symlink_to(f"{ROOM}/{commit}")
    spare.rename(run / LINK)


def _write(room: Path, commit: str, data: bytes) -> None:
    """Write all files under a temporary name first. A folder named by a commit is complete."""
    spare = room / _SPARE
    _remove(spare)
    for folder in (room, spare):
        _folder(folder)
    _fill(spare, nar.unpack(data))
    spare.rename(room / commit)


def _fill(top: Path, files: Mapping[str, tuple[bool, bytes]]) -> None:
    for path, (executable, data) in files.items():
        *folders, name = path.split("/")
        at = top
        for folder in folders:
            at /= folder
            _folder(at)
        file = at / name
        with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:  # noqa: PTH123
            out.write(data)
        file.chmod(0o755 if executable else 0o644)  # regardless of the umask


def _folder(path: Path) -> None:
    path.mkdir(exist_ok=True)
    path.chmod(0o755)


def _sweep(room: Path, wanted: set[str]) -> None:
    with suppress(FileNotFoundError):
        for path in room.iterdir():
            if path.name not in wanted:
                _remove(path)


def _remove(folder: Path) -> None:
    with suppress(FileNotFoundError):
        shutil.rmtree(folder)
