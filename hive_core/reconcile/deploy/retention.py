"""Prunes the applied repositories.

An agent's repository keeps open proposals, the last generations (a setting limits their number) and
as many ended proposals. Older ones are removed with their refs, tags and objects. So it holds at
most three times the setting, each within the limits of the intake. The ledger keeps every row.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from hive_core.errors import Internal
from hive_core.model.config.seed import seed_for, template_name
from hive_core.reconcile.deploy.context import DeployContext

log = logging.getLogger(__name__)


@dataclass
class Retention:
    context: DeployContext

    async def follow(self) -> None:
        """Create a repository for each agent, and archive those of destroyed agents."""
        ledger = self.context.ports.ledger
        archived = {archive.uuid for archive in ledger.archives.all()}
        await self.context.applied.follow(self.context.hive(), archived, self._is_dead)
        self.context.on_tree_followed()

    def _is_dead(self, uuid: str) -> bool:
        ledger = self.context.ports.ledger
        return ledger.archives.is_tombstone(uuid) and ledger.archives.get(uuid) is None

    def tidy(self, agent: str) -> None:
        """Delete old proposals of one agent."""
        name = self.context.hive().name(agent)
        if name is None or not (repo := self.context.applied.repo(agent)).exists:
            return
        ledger, keep = self.context.ports.ledger, self.context.ports.settings.deploy.generations
        ended = ledger.approvals.ended_approvals(agent, keep)
        generations = ledger.generations.all(agent)
        recent = [*ledger.approvals.of_agent(agent), *ended]
        spec = self.context.hive().spec(name)
        approvals = {approval.id for approval in recent}
        approvals |= {generation.approval for generation in generations}
        commits = {approval.binding.commit for approval in recent}
        commits |= {generation.commit for generation in generations}
        commits |= {spec.config or "", seed_for(spec.image).commit}
        try:
            repo.prune(approvals, commits - {""})
        except Internal as error:  # reported and not repaired, so that nothing needed is lost
            log.warning("Cannot tidy the repository of %s: %s", name, error)
            repo.rewrite_seed_pack(template_name(spec.image))
        self.context.step("tidied")
