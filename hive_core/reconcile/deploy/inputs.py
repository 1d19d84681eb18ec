"""Updates of the flake's inputs: the only way to change `flake.lock` (row H13).

A job locks and fetches the new inputs first, so that the operator can inspect them before the
decision. The approval is for exactly this file, which is stored by its hash. Then every system is
rebuilt, in waves.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from hashlib import sha256

from hive_core.errors import Conflict, InvalidArgument
from hive_core.host.config.nix_profiles import INPUTS, NixProfiles
from hive_core.host.git.proposed_lock_files import LOCK_MOST, ProposedLockFiles
from hive_core.model.agents.hive import Hive
from hive_core.model.config.approval import Approval, Effect
from hive_core.model.config.build_result import NixJobResult
from hive_core.plan import flake, locks
from hive_core.plan.actions import JobKind
from hive_core.reconcile.deploy.build import BuildFailed, NixJobs
from hive_core.reconcile.deploy.context import CheckedRequest

SHOWN_MOST = 100


@dataclass
class LockUpdates:
    """Handles approvals of the kind `inputs`."""

    nix: NixJobs
    profiles: NixProfiles
    pending_locks: ProposedLockFiles

    async def take_in(self, approval: Approval, hive: Hive) -> CheckedRequest:
        """Lock the requested inputs; Conflict if none has changed."""
        asked = approval.review.get("inputs")
        names = [str(name) for name in asked] if isinstance(asked, list | tuple) else []
        locks_read: list[bytes] = []

        def collect(said: NixJobResult, read: Callable[[str, int], bytes]) -> None:
            locks_read.append(read("flake.lock", LOCK_MOST))
            # Keep the old ones too: evaluations use them until the approval.
            self.profiles.keep_inputs({*self.profiles.links(INPUTS).values(), *said.sources})

        files = {"flake.nix": flake.render(self.nix.settings.nix, [])}
        files |= {"flake.lock": hive.lock} if hive.lock else {}
        try:
            await self.nix.run(JobKind.LOCK, files, lambda out: [out, *names], collect)
        except BuildFailed as error:
            reason = f"cannot lock the inputs: {error.reason}"
            raise InvalidArgument(reason, "inputs") from error
        return self._checked_request(approval, hive, locks_read[0], names)

    def _checked_request(
        self, approval: Approval, hive: Hive, lock: bytes, names: list[str]
    ) -> CheckedRequest:
        changes = locks.changes(hive.lock, lock)
        if lock == hive.lock or not changes:
            raise Conflict("the inputs are up to date")
        difference = locks.as_jsonl(locks.difference(hive.lock, lock))
        self.pending_locks.put(approval.id, lock, difference)
        binding = replace(
            approval.binding, commit=sha256(lock).hexdigest()[:40], lock=hive.lock_hash
        )
        rows = [change._asdict() for change in changes[:SHOWN_MOST]]
        review = {"inputs": names, "changes": rows, "more": max(0, len(changes) - SHOWN_MOST)}
        return CheckedRequest(binding, Effect.NOTHING, review=review)

    def change(self, approval: Approval, hive: Hive) -> Hive:
        """The hive with the approved lock file; Conflict if the lock file has changed since."""
        if approval.binding.lock != hive.lock_hash:
            raise Conflict("flake.lock changed since this was requested")
        lock = self.pending_locks.lock(approval.id)
        if sha256(lock).hexdigest()[:40] != approval.binding.commit:
            raise Conflict("the stored lock file is not the approved one")
        return hive.with_lock(lock)

    @staticmethod
    def built_agents(hive: Hive) -> list[str]:
        """The agents that already have a system, parents first."""
        return [name for name in flake.agents_built_from_inputs(hive) if hive.specs[name].system]
