"""Revocation: access that an agent's old ancestors lose by a move or a restore."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from hive_core.model.states import StateMachine, Transition


class RevocationState(StrEnum):
    """How far it is. Access is gone in `done`, and only there."""

    WAITING = "waiting"  # no restart yet
    RESTARTING = "restarting"  # the losers are down until their hard links are split
    LEFT = "left"  # the losers keep running: the operator chose `no_restart`
    CLOSING = "closing"  # the last of those has ended; their hard links are split
    DONE = "done"


_R = RevocationState
COURSE: Final = StateMachine(
    noun="revocation",
    start=_R.WAITING,
    finals=frozenset({_R.DONE}),
    transitions=(
        Transition(
            _R.WAITING,
            "restart",
            _R.RESTARTING,
            "the daemon",
            "the losers are idle, or their time is up",
        ),
        Transition(_R.WAITING, "leave", _R.LEFT, "the operator", "the losers are not restarted"),
        Transition(
            _R.RESTARTING,
            "end",
            _R.DONE,
            "the daemon",
            "the losers are down and their links are split",
        ),
        Transition(_R.LEFT, "close", _R.CLOSING, "the daemon", "the last loser has ended"),
        Transition(_R.CLOSING, "end", _R.DONE, "the daemon", "the links of the losers are split"),
    ),
)
# The job of the move waits for these.
PENDING: Final = frozenset({_R.WAITING, _R.RESTARTING})


@dataclass(frozen=True, slots=True)
class Revocation:
    """Access to one agent's files, taken from former ancestors and all agents below those.

    `agent` moved, or was restored; `lost` are the UUIDs of its former ancestors, the highest first.
    `restart`: they and all below them are restarted, at `latest` when that is set and they are busy
    until then. `came_back`: the agent was restored, and does not run yet. `nonces`: the agents that
    were told to restart, with the nonce of that start; 0: not told yet. In state `left` they are
    the agents that have not been restarted.
    """

    id: int
    job: str
    agent: str
    name: str
    lost: tuple[str, ...]
    restart: bool
    latest: float | None
    came_back: bool
    state: RevocationState
    since: float
    nonces: dict[str, int]

    @property
    def notified(self) -> frozenset[str]:
        """The agents that were told to restart, or that keep running."""
        return frozenset(agent for agent, nonce in self.nonces.items() if nonce)
