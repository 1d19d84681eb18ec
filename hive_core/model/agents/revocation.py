"""Taking access away from agents that lost it: by a move, or because one came back elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from hive_core.model.states import StateMachine, Transition


class RevocationState(StrEnum):
    """How far it is. Access is gone in `done`, and only there."""

    WAITING = "waiting"  # nothing was restarted yet
    RESTARTING = "restarting"  # who lost access goes down, and stays down until its links are split
    LEFT = "left"  # who lost access runs on, because the operator said so
    CLOSING = "closing"  # the last of those was restarted; what they linked meanwhile is split
    DONE = "done"


_R = RevocationState
COURSE: Final = StateMachine(
    noun="revocation",
    start=_R.WAITING,
    finals=frozenset({_R.DONE}),
    transitions=(
        Transition(
            _R.WAITING, "restart", _R.RESTARTING, "the daemon", "they are idle, or time is up"
        ),
        Transition(_R.WAITING, "leave", _R.LEFT, "the operator", "they are not to be restarted"),
        Transition(
            _R.RESTARTING, "end", _R.DONE, "the daemon", "they are down and their links split"
        ),
        Transition(_R.LEFT, "close", _R.CLOSING, "the daemon", "the last of them has ended"),
        Transition(_R.CLOSING, "end", _R.DONE, "the daemon", "their links are split"),
    ),
)
# The job of the move waits for these.
PENDING: Final = frozenset({_R.WAITING, _R.RESTARTING})


@dataclass(frozen=True, slots=True)
class Revocation:
    """Access to one agent's files, taken from agents above it and from all below those.

    `agent` is who moved, or was restored; `lost` are UUIDs of those that were above it and are not
    any more, the highest first. `restart`: they and all below them are restarted, at `latest` when
    that is set and they are busy until then. `came_back`: the agent was restored, and does not run
    yet. `nonces`: who was told to restart and with which nonce, 0 for who was below those and was
    not told yet; while it is `left`, who has not been restarted.
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
        """Who was told to restart, or runs on."""
        return frozenset(agent for agent, nonce in self.nonces.items() if nonce)
