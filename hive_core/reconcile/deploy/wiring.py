"""Connects the deployer's parts on a real host: jobs that check and build, and their results."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from hive_core.host.config.nix_profiles import NixProfiles
from hive_core.host.git.proposed_lock_files import ProposedLockFiles
from hive_core.host.storage.secrets import SecretStore
from hive_core.model.agents.hive import Hive
from hive_core.model.config.settings import NIX_IMAGE
from hive_core.reconcile.deploy.build import NixBuilder, NixJobs
from hive_core.reconcile.deploy.context import AppliedRepoSource, DeployContext
from hive_core.reconcile.deploy.inputs import LockUpdates
from hive_core.reconcile.deploy.intake import JobIntake
from hive_core.reconcile.deps import Perform, Ports
from hive_core.reconcile.observed import ObservedState


@dataclass
class DeployWiring:
    ports: Ports
    applied: AppliedRepoSource
    profiles: NixProfiles

    def context(
        self,
        look: ObservedState,
        hive: Callable[[], Hive],
        perform: Perform,
        spare: Callable[[], bool],
    ) -> DeployContext:
        """Build the context; `spare` frees the ballast of a full disk."""
        ports, settings = self.ports, self.ports.settings
        nix = NixJobs(settings, ports.jobs)
        locks = ProposedLockFiles(settings.paths.applied)
        return DeployContext(
            ports, look, hive, perform, self.applied,
            JobIntake(settings, ports.jobs, self.applied, ports.catalog),
            NixBuilder(nix, self.applied, self.profiles),
            LockUpdates(nix, self.profiles, locks) if NIX_IMAGE in settings.image_names else None,
            on_tree_followed=partial(self._follow, hive), release_ballast=spare,
        )  # fmt: skip

    def _follow(self, hive: Callable[[], Hive]) -> None:
        """Protect the systems of agents from the store's garbage collector.

        Also delete secrets, their labels, and generations of agents that can no longer be restored.
        """
        ledger, names = self.ports.ledger, hive().names
        self.profiles.reconcile(hive(), ledger)
        vault = SecretStore(self.ports.settings.paths.secrets)
        retained = {*names, *(archive.uuid for archive in ledger.archives.all())}
        left = {*vault.holders(), *ledger.generations.agents()} - retained
        gone = [uuid for uuid in left if ledger.archives.is_tombstone(uuid)]
        for uuid in gone:
            vault.drop(uuid)
        if gone:
            with ledger.transaction():
                for uuid in gone:
                    ledger.generations.drop(uuid)
                    ledger.credentials.delete_all_of(uuid)
