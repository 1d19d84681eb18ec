"""Roots of the garbage collector: links to the systems of agents (attack 32).

Everything below `/nix/var/nix/profiles` is a root of the collector. Each agent has a folder there,
named by its UUID: `system-N-link` for each generation that is kept, `current` for the system that
it should run, `booted` for the system that it was started with (still in use after a live switch),
and `build-ID` for a system that was built and is not deployed yet. `inputs` holds the sources of
the flake. https://nix.dev/manual/nix/latest/package-management/garbage-collector-roots
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from hive_core.errors import Internal, StorageFull
from hive_core.ledger.core.ledger import Ledger
from hive_core.model.agents.hive import Hive
from hive_core.model.config.approval import FINALS
from hive_core.model.config.settings import NIX_IMAGE
from hive_core.model.names import is_uuid

FOLDER: Final = Path("/nix/var/nix/profiles/hive")
INPUTS: Final = "inputs"
BOOTED: Final = "booted"
STORE_PATH: Final = re.compile(r"/nix/store/[0-9a-df-np-sv-z]{32}-[A-Za-z0-9+._?=-]{1,200}")
_BUILD: Final = "build-"
_NAME: Final = re.compile(r"current|booted|system-[0-9]{1,9}-link|build-[0-9a-f]{12}|[0-9]{1,4}")
Links = Mapping[str, str]


class NixProfiles:
    """The folder of links. On a host without Nix it does not exist, and no link is made."""

    def __init__(self, folder: Path = FOLDER) -> None:
        self.folder = folder

    @property
    def there(self) -> bool:
        return self.folder.is_dir()

    def link(self, owner: str, name: str, target: str) -> None:
        """Create or replace one link. Replacing is one step, so the link is valid at any time."""
        if not (is_uuid(owner) or owner == INPUTS) or not _NAME.fullmatch(name):
            raise Internal(f"not a valid name for a link: {owner}/{name}")
        if not STORE_PATH.fullmatch(target):
            raise Internal(f"{target!r} is not a path of the Nix store")
        place = self.folder / owner
        with _guard_profiles("create a garbage collector root"):
            place.mkdir(exist_ok=True)
            if (place / name).is_symlink() and str((place / name).readlink()) == target:
                return
            spare = place / f".{name}"
            spare.unlink(missing_ok=True)
            spare.symlink_to(target)
            spare.rename(place / name)

    def link_built(self, uuid: str, approval: str, system: str) -> None:
        """Keep the system that was built for an approval until a generation refers to it."""
        self.link(uuid, f"{_BUILD}{approval}", system)

    def link_booted_system(self, uuid: str, system: str) -> None:
        """Keep the system that an agent is about to be started with."""
        self.link(uuid, BOOTED, system)

    def links(self, owner: str) -> dict[str, str]:
        """The links of an agent, by name."""
        with suppress(OSError):
            symlinks = (path for path in (self.folder / owner).iterdir() if path.is_symlink())
            return {symlink.name: str(symlink.readlink()) for symlink in symlinks}
        return {}

    def keep_inputs(self, sources: Iterable[str]) -> None:
        """Keep the sources of the locked inputs, because an evaluation has no network."""
        wanted = {str(number): source for number, source in enumerate(sorted(set(sources)))}
        self._update_links(INPUTS, wanted)

    def reconcile(self, hive: Hive, ledger: Ledger) -> None:
        """Make the links match hive and ledger, and remove the links of deleted agents."""
        if not self.there:
            return
        wanted = {
            spec.id: self._needed_links(spec.id, spec.system or "", ledger)
            for spec in hive.specs.values()
            if spec.image == NIX_IMAGE
        }
        for uuid, links in wanted.items():
            self._update_links(uuid, links)
        for path in self.folder.iterdir():
            archived = ledger.archives.get(path.name) is not None
            if is_uuid(path.name) and path.name not in wanted and not archived:
                self._update_links(path.name, {})

    def _needed_links(self, uuid: str, system: str, ledger: Ledger) -> dict[str, str]:
        """The links that an agent needs.

        Systems in use or under way come first and are never removed.
        """
        open_ = {
            f"{_BUILD}{approval.id}"
            for approval in ledger.approvals.of_agent(uuid)
            if approval.state not in FINALS
        }
        needed = {n: to for n, to in self.links(uuid).items() if n == BOOTED or n in open_}
        made = {
            f"system-{generation.number}-link": generation.system
            for generation in ledger.generations.all(uuid)
            if generation.system
        }
        return {**needed, **made, **({"current": system} if system else {})}

    def _update_links(self, owner: str, wanted: Links) -> None:
        """Create missing links before removing others."""
        for name, target in wanted.items():
            self.link(owner, name, target)
        place = self.folder / owner
        if not place.is_dir():
            return
        with _guard_profiles("remove a garbage collector root"):
            for path in place.iterdir():
                if path.name not in wanted:
                    path.unlink()
            if not wanted:
                place.rmdir()


@contextmanager
def _guard_profiles(action: str) -> Iterator[None]:
    """Turn an error of the disk into a HiveError that names the action."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise StorageFull(f"cannot {action}: the disk is full") from error
        raise Internal(f"cannot {action}: {error}; `hive setup` creates the folder") from error
