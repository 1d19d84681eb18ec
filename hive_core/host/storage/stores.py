"""Ledger and meta repository, opened and made consistent before any call is served."""

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
from hive_core.host.git.checkup import RESTORE, restore_objects
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
    """Ledger and repository. With `damage`, only the operator is served, for this reason."""

    ledger: Ledger
    repo: MetaRepo
    hive: Hive
    paths: Paths
    recovery: Recovery | None = None
    damage: str = ""

    @classmethod
    def open(cls, settings: Settings, restore: Path = RESTORE) -> Stores:
        """Open and recover both. `restore` may hold packs that replace lost objects."""
        try:
            ledger, repo = cls._open_stores(settings)
        except StorageFull:  # a daemon that cannot start can stop no agent
            if not Ballast(settings.paths.ballast, settings.ballast).release():
                raise
            log.warning(
                "The disk is full: starting on the reserved space (the ballast file was deleted)"
            )
            ledger, repo = cls._open_stores(settings)
        try:
            recovery = cls._recover(ledger, repo, settings, restore)
            hive = repo.read(ledger.head) if ledger.head else Hive()
            repo.repair_worktree()
        except DamagedRepo as error:
            # No agent has any rights until an operator has repaired it; nothing is torn down.
            repo.sealed = error.reason
            return cls(ledger, repo, Hive(commit=ledger.head), settings.paths, damage=error.reason)
        except (Busy, StorageFull) as error:
            # The ledger decides. The branch is compared every second, and moved when possible.
            log.warning("Cannot move the branch of the meta repository yet: %s", error.reason)
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
                taken = restore_objects(repo.folder, restore)
            except (OSError, ValueError) as error:
                log.warning("Cannot restore from %s: %s", restore, error)
                taken = 0
            if not taken:
                raise
            return repo.recover(ledger.head, may)

    @cached_property
    def vault(self) -> SecretStore:
        """The secrets. Once opened, their values are masked in events and log lines."""
        vault = SecretStore(self.paths.secrets)
        with suppress(HiveError):  # the error is raised when a secret is read
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
        """The operations that can be served: only those that read if the repository is damaged.

        Otherwise `gc` would take everything as orphaned.
        """
        if not self.damage:
            return registry
        return {
            name: replace(operation, handler=self._refuse) if operation.mutates else operation
            for name, operation in registry.items()
        }

    def _refuse(self, _call: Call, _params: Params) -> NoReturn:
        raise Internal(f"cannot change anything: {self.damage}")
