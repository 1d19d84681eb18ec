"""Destroyed agents: their last parent, and where their usage counts.

Each has sums of its own for a while. Then they are added to the sums of all destroyed children of
its parent, and its row is deleted. So the sum of each subtree stays correct, and the amount of data
does not grow with the number of agents that ever existed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

from hive_core.ledger.budgets.usage import UsageAmount, UsageStore
from hive_core.ledger.core.connection import Connection

# Seconds after its destruction in which an agent's last machine may still end.
SETTLED: Final = 600.0
# How many destroyed agents keep their own sums; those created for one task do not.
SHOWN: Final = 256
# Rows that are moved at once; the last day is moved as a whole.
PART: Final = 500
_EVER: Final = 1 << 40
_MARK: Final = "gone:"
_COLUMNS: Final = "agent, name, parent, brief"
_LEAVES: Final = (
    "FROM departed WHERE brief = ? AND at <= ? AND NOT EXISTS"
    " (SELECT 1 FROM departed AS child WHERE child.parent = departed.agent) ORDER BY at LIMIT ?"
)
_FOLD: Final = (
    "INSERT INTO usage SELECT day, ?1, kind, source, tier, model, amount FROM usage"
    " WHERE agent = ?2 AND day <= ?3 AND model = ''"
    " ON CONFLICT DO UPDATE SET amount = usage.amount + excluded.amount"
)
_WITH_MODELS: Final = (
    "SELECT day, ?1, kind, source, tier, model, amount FROM usage"
    " WHERE agent = ?2 AND day <= ?3 AND model != ''"
)
_FOLD_TASKS: Final = (
    "UPDATE task_usage SET agent = ?1 WHERE (task, kind, source) IN"
    " (SELECT task, kind, source FROM task_usage WHERE agent = ?2 LIMIT ?3)"
)


class DestroyedAgent(NamedTuple):
    """A destroyed agent. `brief`: it was created for one task."""

    agent: str
    name: str
    parent: str
    brief: bool = False


def children_key(parent: str) -> str:
    """The key for the usage of all destroyed children of a parent; not a UUID."""
    return f"{_MARK}{parent}"


def parent_in_key(agent: str) -> str | None:
    """The parent in such a key; None if `agent` is a UUID."""
    return agent.removeprefix(_MARK) if agent.startswith(_MARK) else None


class UsageRollups:
    def __init__(self, connection: Connection, usage: UsageStore) -> None:
        self._db = connection
        self._usage = usage
        self._rests = 0.0
        # Rows moved by this daemon; a paged sum compares it to detect moves.
        self.moved = 0

    def add(self, gone: DestroyedAgent, now: float) -> None:
        self._db.run(
            "INSERT OR REPLACE INTO departed (agent, name, parent, brief, at)"
            " VALUES (?, ?, ?, ?, ?)",
            (*gone, now),
        )

    def remove(self, agent: str) -> None:
        """Delete the row of an agent that was rolled up or restored."""
        self._db.run("DELETE FROM departed WHERE agent = ?", (agent,))

    def get(self, agent: str) -> DestroyedAgent | None:
        row = self._db.row(f"SELECT {_COLUMNS} FROM departed WHERE agent = ?", (agent,))  # noqa: S608
        return _destroyed_agent(row) if row else None

    def of(self, agents: Iterable[str]) -> dict[str, DestroyedAgent]:
        """The agents among these that are destroyed."""
        rows = ((agent, self.get(agent)) for agent in agents)
        return {agent: row for agent, row in rows if row is not None}

    def below(self, parents: Iterable[str]) -> list[str]:
        """The destroyed agents whose last parent is one of these."""
        rows = self._db.rows(
            "SELECT agent FROM departed WHERE parent IN (SELECT value FROM json_each(?))",
            (json.dumps(list(parents)),),
        )
        return [agent for (agent,) in rows]

    # Rolling up: leaves first, oldest first

    def next_due(self) -> float | None:
        """When the next agent is to be rolled up."""
        times = [row[0] for row in self._leaves("SELECT at", 1)]
        return max(min(times) + SETTLED, self._rests) if times else None

    def pause_until(self, until: float) -> None:
        """Roll up nothing before this time, until this daemon ends."""
        self._rests = until

    def due(self, now: float, limit: int) -> list[DestroyedAgent]:
        """The agents to roll up; those without destroyed children first."""
        before = now - SETTLED
        rows = self._leaves(f"SELECT {_COLUMNS}", limit, before)
        return [_destroyed_agent(row) for row in rows]

    def _leaves(self, select: str, limit: int, before: float = float(_EVER)) -> Iterator[Any]:
        newest = "SELECT at FROM departed WHERE brief = 0 ORDER BY at DESC LIMIT 1 OFFSET ?"
        last = self._db.value(newest, (SHOWN,))
        yield from self._db.rows(f"{select} {_LEAVES}", (1, before, limit))
        if last is not None:
            yield from self._db.rows(f"{select} {_LEAVES}", (0, min(before, last), limit))

    def put_off(self, agent: str, at: float) -> None:
        """Count an agent as destroyed at this time."""
        self._db.run("UPDATE departed SET at = ? WHERE agent = ?", (at, agent))

    def fold(self, gone: DestroyedAgent) -> int:
        """Move its usage or a part of it, and delete its row with the last part.

        Return the row count.
        """
        target, moved, whole = children_key(gone.parent), 0, True
        for agent in (gone.agent, children_key(gone.agent)):
            rows, tasks = self._fold(target, agent)
            moved += rows + tasks
            whole = whole and not self._has_usage(agent)
        self.moved += moved
        if whole:
            self.remove(gone.agent)
        return moved

    def _fold(self, target: str, agent: str) -> tuple[int, int]:
        page = "SELECT day FROM usage WHERE agent = ? ORDER BY day LIMIT 1 OFFSET ?"
        last = self._db.value(page, (agent, PART))
        which = (target, agent, _EVER if last is None else last)
        self._db.run(_FOLD, which)
        for row in self._db.rows(_WITH_MODELS, which):
            self._usage.add(UsageAmount._make(row))  # enforces the limit of model names a day
        rows = self._db.run("DELETE FROM usage WHERE agent = ? AND day <= ?", which[1:])
        return rows, self._db.run(_FOLD_TASKS, (target, agent, PART))

    def _has_usage(self, agent: str) -> bool:
        sql = (
            "SELECT EXISTS (SELECT 1 FROM usage WHERE agent = ?1)"
            " OR EXISTS (SELECT 1 FROM task_usage WHERE agent = ?1)"
        )
        return bool(self._db.value(sql, (agent,)))

    def prune(self, before: float) -> None:
        """Delete the agents without usage and without destroyed children."""
        self._db.run(
            "DELETE FROM departed WHERE at < ?"
            " AND NOT EXISTS (SELECT 1 FROM usage WHERE usage.agent = departed.agent)"
            " AND NOT EXISTS (SELECT 1 FROM departed AS child WHERE child.parent = departed.agent)",
            (before,),
        )


def _destroyed_agent(row: tuple[Any, ...]) -> DestroyedAgent:
    agent, name, parent, brief = row
    return DestroyedAgent(agent, name, parent, bool(brief))
