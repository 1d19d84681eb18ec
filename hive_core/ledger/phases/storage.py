"""The phases of queens, by UUID, and what runs for them in their colonies."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from hive_core.ledger.core.connection import Connection
from hive_core.model.agents.phase import QueenPhase, phase_of_name

CLOCK_SHIFT: Final[tuple[str, ...]] = (
    "UPDATE phases SET since = since + ?1, closes = closes + ?1",
)


@dataclass(frozen=True, slots=True)
class PhaseState:
    """The phase of one queen. `colony`: UUID of its agent; empty: none is open.

    `persona`: how she presents herself to people, in the operator's words.
    """

    agent: str
    phase: QueenPhase = QueenPhase.INDEPENDENT
    colony: str = ""
    goal: str = ""
    criteria: str = ""
    constraints: str = ""
    persona: str = ""
    since: float = 0.0
    closes: float | None = None


class PhaseWork(NamedTuple):
    """A task or batch of the present run; `outcome` is empty until it has ended."""

    work: str
    agent: str
    title: str
    outcome: str = ""


class PhaseStore:
    def __init__(self, connection: Connection) -> None:
        self._db = connection

    def get(self, agent: str) -> PhaseState:
        """The state of a queen; InvalidArgument for a phase that this version does not know."""
        row = self._db.row("SELECT * FROM phases WHERE agent = ?", (agent,))
        if row is None:
            return PhaseState(agent)
        state = PhaseState(*row)
        return replace(state, phase=phase_of_name(state.phase, has_colony=bool(state.colony)))

    def put(self, state: PhaseState) -> None:
        """Write a state in place of the earlier one of its queen."""
        self._db.run(
            "INSERT OR REPLACE INTO phases VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (state.agent, state.phase.value, state.colony, state.goal, state.criteria,
             state.constraints, state.persona, state.since, state.closes),
        )  # fmt: skip

    def set_persona(self, state: PhaseState, persona: str) -> None:
        """Set the persona of a queen."""
        self.put(replace(state, persona=persona))

    def delete(self, agent: str) -> None:
        """Forget a destroyed queen and her run."""
        self._db.run("DELETE FROM phases WHERE agent = ?", (agent,))
        self.clear_work(agent)

    def queen_of_colony(self, colony: str) -> str | None:
        """The queen whose open colony this agent is."""
        uuid: str | None = self._db.value("SELECT agent FROM phases WHERE colony = ?", (colony,))
        return uuid

    def close_at(self, agent: str, at: float) -> None:
        """Have the colony of a queen closed at a time."""
        self._db.run("UPDATE phases SET closes = ? WHERE agent = ?", (at, agent))

    def next_close(self) -> float | None:
        """When the next colony is to be closed."""
        at: float | None = self._db.value("SELECT MIN(closes) FROM phases WHERE closes IS NOT NULL")
        return at

    def closing(self, now: float) -> str | None:
        """A queen whose colony is to be closed now."""
        agent: str | None = self._db.value(
            "SELECT agent FROM phases WHERE closes <= ? ORDER BY closes, agent", (now,)
        )
        return agent

    # The run of a colony.

    def add_work(self, work: PhaseWork) -> None:
        self._db.run("INSERT OR REPLACE INTO phase_work VALUES (?, ?, ?, ?)", tuple(work))

    def find_work(self, work: str) -> PhaseWork | None:
        row = self._db.row("SELECT * FROM phase_work WHERE work = ?", (work,))
        return PhaseWork(*row) if row else None

    def work_of(self, agent: str) -> list[PhaseWork]:
        """All work of the present run of a queen, in the order of its beginning."""
        rows = self._db.rows("SELECT * FROM phase_work WHERE agent = ? ORDER BY work", (agent,))
        return [PhaseWork(*row) for row in rows]

    def end_work(self, work: str, outcome: str) -> None:
        self._db.run("UPDATE phase_work SET outcome = ? WHERE work = ?", (outcome, work))

    def clear_work(self, agent: str) -> None:
        """End the run of a queen. Workers that still work no longer belong to it."""
        self._db.run("DELETE FROM phase_work WHERE agent = ?", (agent,))
