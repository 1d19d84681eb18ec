"""Rolls a change out to many agents in waves. Each agent has its own deploy (attack 51).

The rows in `waves` are the plan. A wave begins when all agents of the previous wave are healthy.
The first failure stops the rollout: agents that failed or were not tried keep their system. A
restarted daemon continues from the rows.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from hive_core.broker.call import Call, Record
from hive_core.errors import Conflict
from hive_core.ledger.approvals.rollouts import (
    DONE,
    FAILED,
    RUNNING,
    STOPPED,
    WAITING,
    RolloutAgent,
)
from hive_core.model.config.approval import ApprovalKind, ApprovalState
from hive_core.operations.approvals.history import create_update
from hive_core.operations.approvals.outcome import approval_topic, display_name
from hive_core.reconcile.deploy.context import DeployContext
from hive_core.reconcile.deploy.transactions import DeployResult

_WHY: Final = "stopped after the first failure"


@dataclass
class Rollouts:
    context: DeployContext

    @property
    def open(self) -> list[str]:
        return self.context.ports.ledger.rollouts.open()

    def advance(self, rollout: str) -> None:
        """Record the outcome of each running deploy, and start the next wave or end the rollout."""
        rows = self.context.ports.ledger.rollouts.agents(rollout)
        if any(row.state in (WAITING, RUNNING) for row in rows):
            self.context.perform("roll_out", lambda call: _advance(call, rollout))
            self.context.step("rolled out")


def _advance(call: Call, rollout: str) -> Record[DeployResult]:
    waves = call.ledger.rollouts
    for row in waves.agents(rollout):
        if row.state == RUNNING and (state := _outcome(call, row)):
            waves.set_state(rollout, row.agent, state)
    rows, topics = waves.agents(rollout), set[str]()
    running = [row for row in rows if row.state == RUNNING]
    waiting = [row for row in rows if row.state == WAITING]
    if any(row.state == FAILED for row in rows):
        for row in waiting:
            waves.set_state(rollout, row.agent, STOPPED)
    elif waiting and not running:
        topics |= _start_wave(call, [row for row in waiting if row.wave == waiting[0].wave])
    rows = waves.agents(rollout)
    if not any(row.state in (WAITING, RUNNING) for row in rows):
        topics |= _finish_job(call, rollout, rows)
    call.notify(*topics)
    return Record(DeployResult(text=rollout), fields={"rollout": rollout})


def _outcome(call: Call, row: RolloutAgent) -> str:
    """The outcome of one agent's deploy; empty while it runs.

    A destroyed agent counts as stopped.
    """
    approval = call.ledger.approvals.get(row.approval)
    if approval is None or approval.state is ApprovalState.DEPLOYED:
        return DONE
    if approval.open:
        return ""
    return FAILED if call.hive.name(row.agent) else STOPPED


def _start_wave(call: Call, rows: Iterable[RolloutAgent]) -> set[str]:
    topics = {"rollout:" + row.rollout for row in rows}
    for row in rows:
        name = call.hive.name(row.agent)
        if name is None:
            call.ledger.rollouts.set_state(row.rollout, row.agent, STOPPED)
            continue
        approval = _update_request(call, name, row.agent)
        call.ledger.rollouts.set_state(row.rollout, row.agent, RUNNING, approval)
        topics.add(approval_topic(approval))
    return topics


def _update_request(call: Call, name: str, uuid: str) -> str:
    """A new update request, or the one that is already open."""
    try:
        return create_update(call, name).id
    except Conflict:
        open_ = call.ledger.approvals.of_agent(uuid)
        return next(approval.id for approval in open_ if approval.kind is ApprovalKind.UPDATE)


def _finish_job(call: Call, rollout: str, rows: Iterable[RolloutAgent]) -> set[str]:
    job = call.ledger.jobs.get(rollout)
    if job is None or job.ended is not None:
        return set()
    failed = [display_name(call, row.agent) for row in rows if row.state == FAILED]
    error = f"Conflict: {', '.join(failed)} failed; {_WHY}" if failed else ""
    call.ledger.jobs.finish(job.id, error, call.now)
    return {f"job:{job.id}"}
