"""The applied repositories of all agents: `UUID.git`, and `NAME` as a symlink to it.

The repositories of destroyed agents are in `.archive` until the agent is restored or deleted for
good. Each pass compares the repositories with the hive and repairs every difference, so a pass that
was interrupted by a crash is completed by the next one.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Final

from hive_core.errors import NotFound
from hive_core.host.git.applied_repository import AppliedRepo
from hive_core.host.git.file_writer import FOLDER, guard_repository
from hive_core.host.git.seed import seed
from hive_core.model.agents.hive import Hive
from hive_core.model.config.seed import SEEDS, template_name
from hive_core.model.names import is_uuid
from hive_core.plan import nar

ARCHIVE: Final = ".archive"
_SUFFIX: Final = ".git"


class AppliedRepositories:
    """Knows where the repositories are, and keeps them in line with the hive."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._there: set[str] = set()
        self._shelved: set[str] = set()
        self._links: dict[str, str] = {}
        self._seen: Mapping[str, str] | None = None

    def open(self) -> None:
        """Read which repositories and links exist; create the folders if they are missing."""
        with guard_repository(self.folder):
            for folder in (self.folder, self.folder / ARCHIVE):
                folder.mkdir(exist_ok=True)
                folder.chmod(FOLDER)
            self._there = set(_uuids(self.folder))
            self._shelved = set(_uuids(self.folder / ARCHIVE))
            links = (path for path in self.folder.iterdir() if path.is_symlink())
            self._links = {link.name: str(link.readlink()) for link in links}

    def repo(self, uuid: str) -> AppliedRepo:
        """The repository of one agent, living or archived."""
        if not is_uuid(uuid):
            raise NotFound(f"no repository of {uuid!r}")
        room = self.folder / ARCHIVE if uuid in self._shelved else self.folder
        return AppliedRepo(room / f"{uuid}{_SUFFIX}")

    def nar(self, uuid: str, commit: str, expected: str) -> bytes:
        """The files of a deployed commit.

        The commit of a seed template is served without a repository.
        """
        for kind, start in SEEDS.items():
            if (commit, expected) == start:
                return nar.pack(seed(kind).files)
        return self.repo(uuid).nar(commit, expected)

    async def follow(
        self, hive: Hive, archived: Collection[str], dead: Callable[[str], bool]
    ) -> None:
        """Create, archive and delete repositories so that they match the hive.

        `dead` returns whether a destroyed agent can no longer be restored.
        """
        living = hive.names
        if living is self._seen and self._shelved <= set(archived):
            return  # no agent was created or destroyed
        with guard_repository(self.folder):
            for uuid in living.keys() - self._there:
                # In a thread: each repository is a dozen files, and the disk may be slow.
                await asyncio.to_thread(
                    self._restore_or_create, uuid, hive.specs[living[uuid]].image
                )
                self._there.add(uuid)
            for uuid in self._there - living.keys():
                self._archive(uuid)
            for uuid in self._shelved - set(archived) - living.keys():
                if dead(uuid):
                    shutil.rmtree(self._archive_path(uuid))
                    self._shelved.discard(uuid)
            self._update_links({name: f"{uuid}{_SUFFIX}" for uuid, name in living.items()})
        self._seen = living

    def _restore_or_create(self, uuid: str, image: str) -> None:
        if uuid in self._shelved:
            self._archive_path(uuid).rename(self.folder / f"{uuid}{_SUFFIX}")
            self._shelved.discard(uuid)
        else:
            AppliedRepo(self.folder / f"{uuid}{_SUFFIX}").create(template_name(image))

    def _archive(self, uuid: str) -> None:
        (self.folder / f"{uuid}{_SUFFIX}").rename(self._archive_path(uuid))
        self._there.discard(uuid)
        self._shelved.add(uuid)

    def _archive_path(self, uuid: str) -> Path:
        return self.folder / ARCHIVE / f"{uuid}{_SUFFIX}"

    def _update_links(self, wanted: Mapping[str, str]) -> None:
        """Replace the symlinks that differ. Each link is valid at every moment."""
        for name in self._links.keys() - wanted.keys():
            (self.folder / name).unlink(missing_ok=True)
        for name, target in wanted.items() - self._links.items():
            spare = self.folder / ".new"
            spare.unlink(missing_ok=True)
            spare.symlink_to(target)
            spare.rename(self.folder / name)
        self._links = dict(wanted)


def _uuids(folder: Path) -> list[str]:
    names = (path.name.removesuffix(_SUFFIX) for path in folder.glob(f"*{_SUFFIX}"))
    return [name for name in names if is_uuid(name)]
