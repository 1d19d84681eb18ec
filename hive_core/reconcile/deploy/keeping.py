"""What is kept in the applied repositories, and what goes.

An agent's repository keeps what is open, the generations that are kept (their number is a setting)
and as many ended proposals beside them; older ones go with their refs, tags and objects. That is
at most three times the setting, each within the bounds of the intake; the ledger keeps every row.
"""

from __future__ import annotations

from dataclasses import dataclass

from hive_core.model.seed import seed_of
from hive_core.reconcile.deploy.given import Means


@dataclass
class Keeping:
    means: Means

    async def follow(self) -> None:
        """Repositories for those who live, out of sight those of who was destroyed."""
        ledger = self.means.ports.ledger
        archived = {each.uuid for each in ledger.archives.all()}
        await self.means.applied.follow(self.means.hive(), archived, self._is_dead)
        self.means.followed()

    def _is_dead(self, uuid: str) -> bool:
        ledger = self.means.ports.ledger
        return ledger.archives.is_tombstone(uuid) and ledger.archives.get(uuid) is None

    def tidy(self, agent: str) -> None:
        """Drop old proposals of one agent."""
        name = self.means.hive().name(agent)
        if name is None or not (repo := self.means.applied.repo(agent)).exists:
            return
        ledger, keep = self.means.ports.ledger, self.means.ports.settings.deploy.generations
        ended = ledger.approvals.ended(agent, keep)
        generations = ledger.generations.all(agent)
        kept = [*ledger.approvals.of_agent(agent), *ended]
        spec = self.means.hive().spec(name)
        repo.prune(
            {*(each.id for each in kept), *(each.approval for each in generations)},
            {
                *(each.binding.commit for each in kept), *(each.commit for each in generations),
                spec.config or "", seed_of(spec.image).commit,
            } - {""},
        )  # fmt: skip
        self.means.step("tidied")
