"""What an agent sees in its socket directory: `run/identity.json` and the symlinks of `view/`.

The container sees both read-only through a mount of the directory, so a file is replaced by a
rename within it and never by a new directory.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from hive_core.errors import HiveError, Internal, NotFound, StorageFull
from hive_core.host.storage.disk import FULL
from hive_core.plan.daemon_actions import ShowIdentity, ShowView

_AT_ONCE = 100


def show_identity(path: Path, action: ShowIdentity) -> None:
    """Replace the file in one step: a reader sees the old or the new one."""
    spare = path.with_name(".identity.new")
    try:
        spare.write_text(json.dumps(action.document, indent=2) + "\n", encoding="utf-8")
        spare.chmod(0o644)
        spare.replace(path)
    except OSError as error:
        raise refusal(error) from error


class Views:
    """The symlinks of all agents. A cache of what was written limits writes to differences."""

    def __init__(self) -> None:
        self._shown: dict[str, Mapping[str, str]] = {}

    async def show(self, path: Path, action: ShowView) -> None:
        """Update the symlinks; yield to the event loop after a number of them."""
        wanted = dict(action.links)
        there = self._shown.pop(action.uuid, None)  # dropped first: unknown if an error occurs
        try:
            there = _links(path) if there is None else there
            fresh = [name for name, target in wanted.items() if there.get(name) != target]
            for number, name in enumerate((*there.keys() - wanted.keys(), *fresh), 1):
                _link(path, name, wanted.get(name))
                if number % _AT_ONCE == 0:
                    await asyncio.sleep(0)
        except OSError as error:
            raise refusal(error) from error
        self._shown[action.uuid] = wanted

    def forget(self, uuid: str) -> None:
        """Drop the cache, because the socket directory was removed."""
        self._shown.pop(uuid, None)


def _links(path: Path) -> Mapping[str, str]:
    with os.scandir(path) as entries:
        return {entry.name: _target(entry) for entry in entries}


def _target(entry: os.DirEntry[str]) -> str:
    return str(Path(entry.path).readlink()) if entry.is_symlink() else ""


def _link(path: Path, name: str, target: str | None) -> None:
    """Replace or remove one symlink.

    Uses plain calls, because a view has a link for each agent below.
    """
    place, spare = f"{path}/{name}", f"{path}/.new"
    with suppress(FileNotFoundError):
        os.unlink(spare if target else place)  # noqa: PTH108
    if target:
        os.symlink(target, spare)  # noqa: PTH211
        os.rename(spare, place)  # noqa: PTH104


def refusal(error: OSError) -> HiveError:
    if error.errno in FULL:
        return StorageFull(f"cannot write {error.filename}: {error.strerror}")
    if isinstance(error, FileNotFoundError):
        return NotFound(f"no socket directory: {error.filename}")
    return Internal(f"cannot write {error.filename}: {error.strerror}")
