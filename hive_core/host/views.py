"""What an agent is shown in its door: `run/identity.json` and the symlinks of `view/`.

The container sees both read-only through a mount of the directory, so a file is replaced by a
rename within it and never by a new directory.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from hive_core.errors import HiveError, Internal, NotFound, StorageFull
from hive_core.plan.local import ShowIdentity, ShowView

_FULL = (28, 122)  # ENOSPC, EDQUOT


def show_identity(path: Path, action: ShowIdentity) -> None:
    """Replace the file; a reader sees the old one or the new one, whole."""
    spare = path.with_name(".identity.new")
    try:
        spare.write_text(json.dumps(action.document, indent=2) + "\n", encoding="utf-8")
        spare.chmod(0o644)
        spare.replace(path)
    except OSError as error:
        raise _refusal(error) from error


class Views:
    """The symlinks of everybody, with what was written before: only differences touch the disk."""

    def __init__(self) -> None:
        self._shown: dict[str, Mapping[str, str]] = {}

    def show(self, path: Path, action: ShowView) -> None:
        """Bring the symlinks up to date."""
        wanted = dict(action.links)
        there = self._shown.pop(action.uuid, None)  # not known while something may go wrong
        try:
            there = _links(path) if there is None else there
            for name in there.keys() - wanted.keys():
                with suppress(FileNotFoundError):
                    (path / name).unlink()
            for name, target in wanted.items():
                if there.get(name) != target:
                    _link(path, name, target)
        except OSError as error:
            raise _refusal(error) from error
        self._shown[action.uuid] = wanted

    def forget(self, uuid: str) -> None:
        """The door was closed."""
        self._shown.pop(uuid, None)


def _links(path: Path) -> Mapping[str, str]:
    with os.scandir(path) as entries:
        return {each.name: _target(each) for each in entries}


def _target(entry: os.DirEntry[str]) -> str:
    return str(Path(entry.path).readlink()) if entry.is_symlink() else ""


def _link(path: Path, name: str, target: str) -> None:
    spare = path / ".new"
    with suppress(FileNotFoundError):
        spare.unlink()
    spare.symlink_to(target)
    spare.replace(path / name)


def _refusal(error: OSError) -> HiveError:
    if error.errno in _FULL:
        return StorageFull(f"cannot write {error.filename}: {error.strerror}")
    if isinstance(error, FileNotFoundError):
        return NotFound(f"no door: {error.filename}")
    return Internal(f"cannot write {error.filename}: {error.strerror}")
