"""Revocations: access being taken away, until no process holds it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from hive_core.errors import NotFound
from hive_core.ledger.core.connection import Connection
from hive_core.model.agents.revocation import COURSE, Revocation, RevocationState

KEPT: Final = 86_400.0  # seconds for which a finished revocation is kept
_COLUMNS: Final = "id, job, agent, name, lost, restart, latest, came_back, state, since"


class NewRevocation(NamedTuple):
    """A new row: see `Revocation`."""

    job: str
    agent: str
    name: str
    lost: tuple[str, ...]
    restart: bool = True
    latest: float | None = None
    came_back: bool = False


class Revocations:
    """The table of revocations, and the agents that each of them restarts."""

    def __init__(self, connection: Connection) -> None:
        self._db = connection

    def create(self, new: NewRevocation, now: float) -> int:
        """Create a revocation and return its id."""
        id_ = 1 + int(self._db.value("SELECT COALESCE(MAX(id), 0) FROM revocations"))
        self._db.run(
            "INSERT INTO revocations (id, job, agent, name, lost, restart, latest, came_back,"
            " state, since) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                id_, new.job, new.agent, new.name, json.dumps(new.lost), int(new.restart),
                new.latest, int(new.came_back), COURSE.start, now,
            ),
        )  # fmt: skip
        return id_

    def open(self) -> list[Revocation]:
        """Revocations that are not done, the oldest first."""
        rows = self._db.rows(
            f"SELECT {_COLUMNS} FROM revocations WHERE ended IS NULL ORDER BY id"  # noqa: S608
        )
        return [self._read(row) for row in rows]

    def count_open(self, agent: str) -> int:
        """Number of revocations of this agent's files that are not done."""
        where = "ended IS NULL AND agent = ?"
        return int(self._db.value(f"SELECT COUNT(*) FROM revocations WHERE {where}", (agent,)))  # noqa: S608

    def get(self, id_: int) -> Revocation:
        row = self._db.row(f"SELECT {_COLUMNS} FROM revocations WHERE id = ?", (id_,))  # noqa: S608
        if row is None:
            raise NotFound(f"no revocation {id_}")
        return self._read(row)

    def advance(self, id_: int, event: str, now: float) -> Revocation:
        """Apply an event, and return the revocation in its new state."""
        state = COURSE.next(self.get(id_).state, event)
        ended = now if state in COURSE.finals else None
        self._db.run(
            "UPDATE revocations SET state = ?, ended = ? WHERE id = ?", (state, ended, id_)
        )
        if ended is not None:
            self._prune(now)
        return self.get(id_)

    def set_nonces(self, id_: int, nonces: Mapping[str, int]) -> None:
        """Record the agents to restart with the nonces of their starts; 0: not requested yet."""
        for agent, nonce in nonces.items():
            self._db.run("INSERT OR REPLACE INTO revoked VALUES (?, ?, ?)", (id_, agent, nonce))

    def drop_ended_revocations(self, agent: str) -> bool:
        """Drop an agent whose machine has ended, with all its open handles.

        Return whether it was listed.
        """
        return bool(
            self._db.run(
                "DELETE FROM revoked WHERE agent = ? AND revocation IN"
                " (SELECT id FROM revocations WHERE state = ?)",
                (agent, RevocationState.LEFT),
            )
        )

    def is_restart_requested(self, agent: str, nonce: int) -> bool:
        """Whether a revocation requested the end of the machine with this nonce."""
        return bool(
            self._db.value(
                "SELECT EXISTS (SELECT 1 FROM revoked JOIN revocations ON id = revocation"
                " WHERE revoked.agent = ? AND nonce > ? AND state = ?)",
                (agent, nonce, RevocationState.RESTARTING),
            )
        )

    def last_release(self, agent: str) -> float:
        """The time at which an agent could start again after its last such restart; 0: never."""
        return float(
            self._db.value(
                "SELECT COALESCE(MAX(ended), 0) FROM revoked JOIN revocations ON id = revocation"
                " WHERE revoked.agent = ? AND nonce > 0",
                (agent,),
            )
        )

    def restarting_agents(self) -> frozenset[str]:
        """Agents that were requested to restart and may not start yet."""
        rows = self._db.rows(
            "SELECT revoked.agent FROM revoked JOIN revocations ON id = revocation"
            " WHERE state = ? AND nonce > 0",
            (RevocationState.RESTARTING,),
        )
        return frozenset(agent for (agent,) in rows)

    def _prune(self, now: float) -> None:
        old: Iterable[tuple[int]] = self._db.rows(
            "SELECT id FROM revocations WHERE ended < ? LIMIT 100", (now - KEPT,)
        )
        for row in old:
            self._db.run("DELETE FROM revoked WHERE revocation = ?", row)
            self._db.run("DELETE FROM revocations WHERE id = ?", row)

    def _read(self, row: tuple[Any, ...]) -> Revocation:
        id_, job, agent, name, lost, restart, latest, came_back, state, since = row
        nonces = self._db.rows("SELECT agent, nonce FROM revoked WHERE revocation = ?", (id_,))
        return Revocation(
            id_, job, agent, name, tuple(json.loads(lost)), bool(restart), latest,
            bool(came_back), RevocationState(state), since, dict(nonces),
        )  # fmt: skip
