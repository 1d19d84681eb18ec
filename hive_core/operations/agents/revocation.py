"""Access that an agent's old ancestors lose: who they are, what is done, and when it is over."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hive_core.broker.call import Call
from hive_core.broker.hooks import AgentEnded, when
from hive_core.ledger.agents.revocations import NewRevocation
from hive_core.model.agents.hive import Hive
from hive_core.model.agents.machine import State
from hive_core.plan.move_effects import losing

UP = frozenset({State.STARTING, State.RUNNING, State.DEGRADED, State.DEPLOYING})


@dataclass(frozen=True, slots=True)
class RevocationOptions:
    """`job` ends when access is gone. `latest`: until then they may finish what they do.

    Without `restart` they run on. `came_back`: the agent was restored, and does not run yet.
    """

    job: str
    restart: bool = True
    latest: float | None = None
    came_back: bool = False


def start_revocation(
    call: Call, hive: Hive, agent: str, lost: Sequence[str], how: RevocationOptions
) -> None:
    """Write down who lost access to the files of `agent` in `hive`; the change road takes it away.

    `lost` are those who were above it, the highest first. They and those below them are written
    down too: by the time of their restart they may be elsewhere. Where they are not restarted it is
    those that run, each until it has ended.
    """
    spec, above = hive.spec(agent), [hive.spec(name).id for name in lost]
    new = NewRevocation(
        how.job, spec.id, agent, tuple(above), how.restart, how.latest, how.came_back
    )
    id_ = call.ledger.revocations.create(new, call.now)
    names = losing(hive, lost, agent)
    if how.restart:
        nonces = {hive.spec(name).id: 0 for name in names}
    else:
        runs = [
            call.ledger.runs.get(hive.spec(name).id) for name in running_agents(call, hive, names)
        ]
        nonces = {run.agent: run.nonce for run in runs if run is not None}
    call.ledger.revocations.set_nonces(id_, nonces)


def running_agents(call: Call, hive: Hive, names: Iterable[str]) -> list[str]:
    """Those whose machine is up: the others have nothing to lose."""
    return [name for name in names if call.states.state(hive.spec(name).id) in UP]


@when(AgentEnded)
def _held_until_now(call: Call, what: AgentEnded) -> frozenset[str]:
    """What a machine held ends with it."""
    over = call.ledger.revocations.drop_ended(what.uuid)
    return frozenset({f"run:{what.uuid}"} if over else ())
