"""Packs of pushes that no commit in force is known to need.

A note tells of such a pack from before it is stored until its commit is adopted, or until the pack
is removed. So a daemon that was killed in between leaves no pack that is never looked at again.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Final

from hive_core.errors import InvalidArgument
from hive_core.host.git import gitfolder
from hive_core.host.git.file_writer import guard_repository, make_folder, put
from hive_core.host.git.pack_format import pack_fault
from hive_core.host.storage.disk import sync_folder

NOTES: Final = "hive-pushed"


class PushedPacks:
    """The packs of the repository in `folder` that have a note; the note holds the commit."""

    def __init__(self, folder: Path) -> None:
        self._packs = folder / "objects/pack"
        self._notes = folder / NOTES

    def store(self, pack: bytes, table: bytes, commit: str) -> tuple[str, bool]:
        """Store a pack; return its name, and whether it is new (another push may share it)."""
        name = f"pack-{pack[-20:].hex()}"
        if (self._packs / f"{name}.idx").exists():
            return name, False
        if fault := pack_fault(pack, table):
            raise InvalidArgument(f"cannot push: {fault}", field="pack")
        with guard_repository(self._packs):
            put(make_folder(self._notes) / name, commit.encode())
            return gitfolder.write_pack(self._packs, pack, table), True

    def keep(self, name: str) -> None:
        """Remove the note: a commit in force needs the pack."""
        (self._notes / name).unlink(missing_ok=True)

    def drop(self, names: Collection[str]) -> None:
        """Remove packs, then their notes. After a crash in between, the next call completes it."""
        with guard_repository(self._packs):
            for name in names:
                for suffix in (".idx", ".pack"):  # git ignores a pack without an index
                    (self._packs / f"{name}{suffix}").unlink(missing_ok=True)
            if names:
                sync_folder(self._packs)
            for name in names:
                (self._notes / name).unlink(missing_ok=True)

    def abandoned_packs(self, commits: Collection[str]) -> list[str]:
        """The packs whose commit is not in `commits`."""
        notes = sorted(self._notes.iterdir()) if self._notes.is_dir() else []
        return [
            note.name for note in notes
            if note.name.startswith("pack-") and note.read_text() not in commits
        ]  # fmt: skip
