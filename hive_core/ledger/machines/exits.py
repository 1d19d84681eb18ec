"""The lives and ends of machines, and the snapshots of agents for their next start."""

from __future__ import annotations

from typing import Any, Final

from hive_core.ledger.core.connection import Connection
from hive_core.model.agents.exits import Activity, ExitRecord, LifeRecord

# Statements that shift times when the clock is set (ledger/core/clock_shift.py); ?1 is the shift in
# seconds.
MOVED: Final[tuple[str, ...]] = (
    "UPDATE lives SET due = due + ?1",
    "UPDATE ends SET at = at + ?1, reap = reap + ?1, collected = collected + ?1",
    "UPDATE snapshots SET at = at + ?1",
)
_LIFE: Final = "agent, nonce, invocation, up, ended, activity, next, due"
_END: Final = (
    "id, agent, name, parent, invocation, nonce, code, reason, clean, asked, wanted, stays, output,"
    " at, reap, collected"
)
_TRUTHS: Final = frozenset({8, 9, 11})
_AT_ONCE: Final = 1000


def _life(row: tuple[Any, ...]) -> LifeRecord:
    agent, nonce, invocation, up, *rest = row
    return LifeRecord(agent, nonce, invocation, bool(up), *rest)


def _end(row: tuple[Any, ...]) -> ExitRecord:
    values: list[Any] = [bool(value) if at in _TRUTHS else value for at, value in enumerate(row)]
    return ExitRecord(*values)


class LifeStore:
    def __init__(self, connection: Connection) -> None:
        self._db = connection

    # Lives of machines

    def get(self, agent: str) -> LifeRecord:
        """The last recorded state of an agent; an empty record for a new one."""
        sql = f"SELECT {_LIFE} FROM lives WHERE agent = ?"  # noqa: S608 - our own words
        row = self._db.row(sql, (agent,))
        return _life(row) if row else LifeRecord(agent)

    def all(self) -> dict[str, LifeRecord]:
        rows = self._db.rows(f"SELECT {_LIFE} FROM lives")  # noqa: S608 - our own words
        return {row[0]: _life(row) for row in rows}

    def mark_running(self, agent: str, invocation: str, nonce: int) -> None:
        """Record that a machine runs, and cancel a scheduled leave."""
        self._ensure_row(agent)
        self._db.run(
            "UPDATE lives SET invocation = ?, nonce = ?, up = 1, next = '', due = NULL"
            " WHERE agent = ?",
            (invocation, nonce, agent),
        )

    def mark_ended(self, agent: str, invocation: str, *, recorded: bool) -> None:
        """Record that a machine ended. `recorded`: systemd has a record of the exit."""
        self._ensure_row(agent)
        self._db.run(
            "UPDATE lives SET up = 0, next = '', due = NULL, ended = iif(?, ?, ended)"
            " WHERE agent = ?",
            (recorded, invocation, agent),
        )

    def delete(self, agent: str) -> None:
        """Delete the rows of an agent that cannot be restored."""
        self.forget_life(agent)
        self._db.run("DELETE FROM snapshots WHERE agent = ?", (agent,))

    def _ensure_row(self, agent: str) -> None:
        self._db.run("INSERT OR IGNORE INTO lives (agent) VALUES (?)", (agent,))

    # Activity

    def activity(self, agent: str) -> str:
        activity = self._db.value("SELECT activity FROM lives WHERE agent = ?", (agent,))
        return activity or Activity.IDLE.value

    def set_activity(self, agent: str, activity: str) -> None:
        self._ensure_row(agent)
        self._db.run("UPDATE lives SET activity = ? WHERE agent = ?", (activity, agent))

    def blocked_reason(self, agent: str) -> str:
        """Why the session of the agent says that it waits; empty: it does not."""
        return self._db.value("SELECT blocked FROM lives WHERE agent = ?", (agent,)) or ""

    def set_blocked(self, agent: str, reason: str) -> None:
        self._ensure_row(agent)
        self._db.run("UPDATE lives SET blocked = ? WHERE agent = ?", (reason, agent))

    # After the last task

    def schedule_leave(self, agent: str, action: str, due: float | None) -> None:
        """Schedule an agent's leave at `due` with this action; None cancels it."""
        self._ensure_row(agent)
        self._db.run("UPDATE lives SET next = ?, due = ? WHERE agent = ?", (action, due, agent))

    def next_leave(self) -> float | None:
        due: float | None = self._db.value("SELECT MIN(due) FROM lives WHERE due IS NOT NULL")
        return due

    def due_leaves(self, now: float, most: int) -> list[LifeRecord]:
        """The agents whose leave is due."""
        sql = f"SELECT {_LIFE} FROM lives WHERE due <= ? ORDER BY due LIMIT ?"  # noqa: S608
        return [_life(row) for row in self._db.rows(sql, (now, most))]

    # Ends

    def save_end(self, end: ExitRecord) -> bool:
        """Save an end under a new id; False if it was saved before."""
        return self._db.run(
            "INSERT OR IGNORE INTO ends (agent, name, parent, invocation, nonce, code, reason,"
            " clean, asked, wanted, stays, output, at, reap, collected)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (end.agent, end.name, end.parent, end.invocation, end.nonce, end.code, end.reason,
             end.clean, end.asked, end.wanted, end.stays, end.output, end.at, end.reap,
             end.collected),
        ) > 0  # fmt: skip

    def last_end(self, agent: str) -> ExitRecord | None:
        """The last end of an agent."""
        sql = f"SELECT {_END} FROM ends WHERE agent = ? ORDER BY id DESC LIMIT 1"  # noqa: S608
        row = self._db.row(sql, (agent,))
        return _end(row) if row else None

    def uncollected_ends(self, parent: str, agent: str | None = None) -> list[ExitRecord]:
        """Ends that a parent has not collected, of one child or of all; the oldest first."""
        sql = (
            f"SELECT {_END} FROM ends WHERE parent = ?1 AND collected IS NULL"  # noqa: S608
            " AND (?2 IS NULL OR agent = ?2) ORDER BY id LIMIT ?3"
        )
        return [_end(row) for row in self._db.rows(sql, (parent, agent, _AT_ONCE))]

    def collect(self, end: ExitRecord, now: float, *, reap: bool) -> None:
        """Mark an end as collected by the parent. `reap`: the agent may be removed now."""
        self._db.run(
            "UPDATE ends SET collected = ?, reap = iif(?, ?, reap) WHERE id = ?",
            (now, reap, now, end.id),
        )

    def settle_ends(self, agent: str, now: float) -> None:
        """Close the earlier ends of an agent that runs again, so that it is not reaped for them."""
        self._db.run(
            "UPDATE ends SET collected = coalesce(collected, ?), reap = NULL WHERE agent = ?"
            " AND (collected IS NULL OR reap IS NOT NULL)",
            (now, agent),
        )

    def forget_life(self, agent: str) -> None:
        """Delete the life of a destroyed agent. Its ends are kept for its parent."""
        self._db.run("DELETE FROM lives WHERE agent = ?", (agent,))
        self._db.run("UPDATE ends SET reap = NULL WHERE agent = ? AND reap IS NOT NULL", (agent,))

    def reassign_ends(self, parent: str, heir: str) -> None:
        """Let the heir collect the ends that were meant for this parent."""
        self._db.run(
            "UPDATE ends SET parent = ? WHERE parent = ? AND collected IS NULL", (heir, parent)
        )

    def next_reap(self) -> float | None:
        reap: float | None = self._db.value("SELECT MIN(reap) FROM ends WHERE reap IS NOT NULL")
        return reap

    def first_to_reap(self, now: float) -> ExitRecord | None:
        """The first end whose agent is to be reaped by now."""
        sql = f"SELECT {_END} FROM ends WHERE reap <= ? ORDER BY reap, id LIMIT 1"  # noqa: S608
        row = self._db.row(sql, (now,))
        return _end(row) if row else None

    def cancel_reap(self, end: ExitRecord) -> None:
        """Cancel the reaping of the agent for this end."""
        self._db.run("UPDATE ends SET reap = NULL WHERE id = ?", (end.id,))

    def zombies(self) -> frozenset[str]:
        """UUIDs of one-shot agents that have ended and are still in the tree."""
        rows = self._db.rows("SELECT DISTINCT agent FROM ends WHERE reap IS NOT NULL")
        return frozenset(agent for (agent,) in rows)

    def oldest_end(self) -> float | None:
        """The time of the oldest end that may be pruned."""
        at: float | None = self._db.value("SELECT MIN(at) FROM ends WHERE reap IS NULL")
        return at

    def prune_ends(self, before: float) -> int:
        """Delete a limited number of old ends."""
        return self._db.run(
            "DELETE FROM ends WHERE id IN (SELECT id FROM ends WHERE reap IS NULL AND at <= ?"
            " LIMIT ?)",
            (before, _AT_ONCE),
        )

    # Snapshots

    def save_snapshot(self, agent: str, data: str, now: float) -> None:
        """Save a snapshot for the next start; an empty text deletes it."""
        if data:
            self._db.run("INSERT OR REPLACE INTO snapshots VALUES (?, ?, ?)", (agent, data, now))
        else:
            self._db.run("DELETE FROM snapshots WHERE agent = ?", (agent,))

    def snapshot(self, agent: str) -> tuple[str, float | None]:
        row = self._db.row("SELECT data, at FROM snapshots WHERE agent = ?", (agent,))
        return (row[0], row[1]) if row else ("", None)
