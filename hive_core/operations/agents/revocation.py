"""Revocation: which access an agent's former ancestors lose, and when that access has ended."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from hive_core.broker.call import Call
from hive_core.broker.hooks import AgentEnded, on
from hive_core.errors import LimitReached
from hive_core.ledger.agents.revocations import NewRevocation
from hive_core.model.agents.hive import Hive
from hive_core.model.agents.machine import State
from hive_core.plan.revocation import losing

OPEN_MOST: Final = 32  # revocations of one agent
UP = frozenset({State.STARTING, State.RUNNING, State.DEGRADED, State.DEPLOYING})


@dataclass(frozen=True, slots=True)
class RevocationOptions:
    """How to revoke access. `job` ends when the access has ended.

    `latest`: time until which the agents that lose access may finish their work. Without `restart`
    they keep running. `came_back`: the agent was restored, and does not run yet.
    """

    job: str
    restart: bool = True
    latest: float | None = None
    came_back: bool = False


def start_revocation(
    call: Call, hive: Hive, agent: str, lost: Sequence[str], how: RevocationOptions
) -> None:
    """Record which agents lost access to the files of `agent`; the change path revokes it.

    `lost` are the former ancestors, the highest first. The daemon also records them and the agents
    below them, since a later change of the tree may move them before their restart. Without
    restarts it records the running ones, each until it has ended.
    """
    spec, above = hive.spec(agent), [hive.spec(name).id for name in lost]
    _check_room(call, spec.id, agent)
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


def _check_room(call: Call, uuid: str, agent: str) -> None:
    """Refuse more open revocations of one agent: each pass works through all of them."""
    if call.ledger.revocations.count_open(uuid) >= OPEN_MOST:
        reason = f"agents that lost access by {OPEN_MOST} earlier moves are not restarted yet"
        raise LimitReached(f"cannot move {agent}: {reason}; wait, or restart them")


def running_agents(call: Call, hive: Hive, names: Iterable[str]) -> list[str]:
    """The agents whose machines are up: the others hold no open files."""
    return [name for name in names if call.states.state(hive.spec(name).id) in UP]


@on(AgentEnded)
def _drop_ended_loser(call: Call, event: AgentEnded) -> None:
    """An exit closes everything that the machine held open."""
    if call.ledger.revocations.drop_ended_revocations(event.uuid):
        call.notify(f"run:{event.uuid}")
