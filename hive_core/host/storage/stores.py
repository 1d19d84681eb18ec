"""Ledger and meta repo, opened and brought together before anybody is served."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import NoReturn

from hive_core.broker.call import Call
from hive_core.broker.operation import Operation, Params
from hive_core.errors import Busy, HiveError, Internal, StorageFull
from hive_core.host.git import restore as restoring
from hive_core.host.git.faults import DamagedRepo
from hive_core.host.git.manual_commits import judge
from hive_core.host.git.recovery import Recovery
from hive_core.host.git.repo import MetaRepo
from hive_core.host.storage import layout
from hive_core.host.storage.artifacts import ArtifactContents
from hive_core.host.storage.secrets import SecretStore
from hive_core.host.systemd import notify
from hive_core.ledger.core.ballast import Ballast
from hive_core.ledger.core.ledger import Ledger
from hive_core.model.agents.hive import Hive
from hive_core.model.config.settings import Paths, Settings

log = logging.getLogger(__name__)


@dataclass
class Stores:
    """Ledger and repository. `damage`: why only the operator is served."""

    ledger: Ledger
    repo: MetaRepo
    hive: Hive
    paths: Paths
    recovery: Recovery | None = None
    damage: str = ""

    @classmethod
    def open(cls, settings: Settings, restore: Path = restoring.FOLDER) -> Stores:
        """`restore`: where an operator put packs with what a damaged repository lacks."""
        try:
            ledger, repo = cls._open_stores(settings)
        except StorageFull:  # a daemon that cannot start can stop nobody
            if not Ballast(settings.paths.ballast, settings.ballast).release():
                raise
            log.warning("The disk is full: starting on the room that was held back")
            ledger, repo = cls._open_stores(settings)
        try:
            recovery = cls._recover(ledger, repo, settings, restore)
            hive = repo.read(ledger.head) if ledger.head else Hive()
            repo.repair_worktree()
        except DamagedRepo as error:
            # Nobody has any authority until an operator has mended it; nothing is torn down.
            repo.sealed = error.reason
            return cls(ledger, repo, Hive(commit=ledger.head), settings.paths, damage=error.reason)
        except (Busy, StorageFull) as error:
            # The ledger decides; the branch is looked at every second, and follows when it can.
            log.warning("The branch of the meta repo has to wait: %s", error.reason)
            hive = repo.read(ledger.head) if ledger.head else Hive()
            return cls(ledger, repo, hive, settings.paths)
        return cls(ledger, repo, hive, settings.paths, recovery)

    @staticmethod
    def _recover(ledger: Ledger, repo: MetaRepo, settings: Settings, restore: Path) -> Recovery:
        may = judge(ledger, settings.limits)
        try:
            return repo.recover(ledger.head, may)
        except DamagedRepo:
            try:
                taken = restoring.restore_objects(repo.folder, restore)
            except (OSError, ValueError) as error:
                log.warning("Cannot restore from %s: %s", restore, error)
                taken = 0
            if not taken:
                raise
            return repo.recover(ledger.head, may)

    @cached_property
    def vault(self) -> SecretStore:
        """The secrets. Once opened, its values are masked in events and log lines."""
        vault = SecretStore(self.paths.secrets)
        with suppress(HiveError):  # the disk tells whoever reads a secret
            vault.sweep()
        self.ledger.events.masks = vault.masks
        notify.hide(vault.masks)
        return vault

    @cached_property
    def contents(self) -> ArtifactContents:
        return ArtifactContents(self.paths.artifacts)

    @staticmethod
    def _open_stores(settings: Settings) -> tuple[Ledger, MetaRepo]:
        layout.migrate(settings.paths)
        ledger = Ledger.open(settings.paths.database, limits=settings.limits)
        try:
            layout.note(settings.paths, ledger.schema)
            repo = MetaRepo.open(settings.paths.meta, settings.limits.depth)
        except BaseException:
            ledger.close()
            raise
        repo.set_nix_inputs(settings.nix)
        repo.set_root_agent(settings.root.name)
        return ledger, repo

    def served_operations(self, registry: Mapping[str, Operation]) -> Mapping[str, Operation]:
        """The operations that can be served: with a damaged repository only those that read.

        Else `gc` would find that nobody accounts for anything.
        """
        if not self.damage:
            return registry
        return {
            name: replace(operation, handler=self._refuse) if operation.mutates else operation
            for name, operation in registry.items()
        }

    def _refuse(self, _call: Call, _params: Params) -> NoReturn:
        raise Internal(f"nothing can be changed: {self.damage}")
