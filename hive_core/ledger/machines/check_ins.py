"""Check-ins of agents: their latest report about themselves."""

from __future__ import annotations

from dataclasses import dataclass

from hive_core.ledger.core.connection import Connection


@dataclass(frozen=True, slots=True)
class CheckIn:
    """A check-in. `nonce`: the start requested at that time; `fault`.

    The agent's reported fault.
    """

    agent: str
    at: float
    nonce: int
    commit: str = ""
    system: str = ""
    fault: str = ""


class CheckInStore:
    def __init__(self, connection: Connection) -> None:
        self._db = connection

    def get(self, agent: str) -> CheckIn | None:
        row = self._db.row(
            'SELECT agent, at, nonce, "commit", system, fault FROM hellos WHERE agent = ?',
            (agent,),
        )
        return CheckIn(*row) if row else None

    def put(self, hello: CheckIn) -> None:
        self._db.run(
            'INSERT OR REPLACE INTO hellos (agent, at, nonce, "commit", system, fault)'
            " VALUES (?, ?, ?, ?, ?, ?)",
            (hello.agent, hello.at, hello.nonce, hello.commit, hello.system, hello.fault),
        )

    def drop(self, agent: str) -> None:
        self._db.run("DELETE FROM hellos WHERE agent = ?", (agent,))
