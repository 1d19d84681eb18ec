"""Reads the state of an agent under trial from the ledger, the hive and the last observation."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from hive_core.errors import HiveError
from hive_core.ledger.approvals.deploys import DeployRecord
from hive_core.model.agents.machine import Machine
from hive_core.model.config.approval import Approval, ApprovalState, Effect
from hive_core.model.names import agent_unit
from hive_core.model.wire.record import LogQuery
from hive_core.reconcile.deploy.context import DeployContext
from hive_core.reconcile.deploy.health import Trial, TrialState

log = logging.getLogger(__name__)
BYTES_MOST = 8000


@dataclass
class TrialReader:
    context: DeployContext

    def state(self, uuid: str) -> TrialState:
        ports, look, hive = self.context.ports, self.context.observed, self.context.hive()
        name = hive.name(uuid)
        return TrialState(
            ports.clock.now(), hive.spec(name) if name else None, ports.ledger.runs.get(uuid),
            look.machine(uuid) or Machine(uuid), look.state(uuid), ports.ledger.starts.get(uuid),
            ports.ledger.hellos.get(uuid), uuid in ports.ledger.revocations.restarting_agents(),
            ports.ledger.revocations.last_release(uuid),
        )  # fmt: skip

    def trial(self, approval: Approval, deploy: DeployRecord, invocation: str) -> Trial:
        generation = self.context.ports.ledger.generations.get(approval.agent, deploy.generation)
        at = generation.at if generation else approval.created
        effect = Effect(str(deploy.before.get("effect", Effect.RESTART)))
        back = approval.state is ApprovalState.FAILED
        if back and deploy.until is not None:
            at = deploy.until - self.patience(Effect.RESTART)
        patience = self.patience(Effect.RESTART if back else effect)
        return Trial(effect, at, deploy.nonce, patience, deploy.until, invocation)

    def patience(self, effect: Effect) -> float:
        """The time in which a deploy must be in place, including the stop of the old machine."""
        settings = self.context.ports.settings
        if effect is Effect.SWITCH:
            return settings.deploy.switch
        return settings.grace.start + settings.grace.stop

    async def last_lines(self, uuid: str) -> str:
        """The agent's last lines.

        Empty if the journal does not answer, so that the rollback continues.
        """
        ports, hive = self.context.ports, self.context.hive()
        name, most = hive.name(uuid), ports.settings.grace.crash_lines
        if name is None or not most:
            return ""
        boot = hive.spec(name).boots
        query = LogQuery(uuid=uuid, unit=agent_unit(name), lines=most, boot=boot)
        try:
            lines = await ports.journal.read(query)
        except (HiveError, TimeoutError) as error:
            log.warning("Cannot read the last lines of %s: %s", name, error)
            return ""
        return "\n".join(line.text for line in lines)[-BYTES_MOST:]
