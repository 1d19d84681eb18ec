"""Shifts stored times when the wall clock is set, so that periods and deadlines keep their length.

Not shifted are the chain of events, and the ids of messages, which contain the time of sending.
These must not look older than they are, so the sum of forward steps is stored as long as such data
is kept.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Final

from hive_core.ledger.accounts import links, logins
from hive_core.ledger.agents import quarantines
from hive_core.ledger.artifacts import storage as artifact_storage
from hive_core.ledger.budgets import storage as budget_storage
from hive_core.ledger.colonies import storage as colony_storage
from hive_core.ledger.core.connection import Connection
from hive_core.ledger.machines import exits
from hive_core.ledger.mail import queues
from hive_core.ledger.models import storage as model_storage
from hive_core.ledger.phases import storage as phase_storage
from hive_core.ledger.plans import storage as plan_storage
from hive_core.ledger.questions import storage as question_storage
from hive_core.ledger.subagents import storage as subagent_storage
from hive_core.ledger.tasks import storage as task_storage
from hive_core.ledger.tools import storage as tool_storage
from hive_core.ledger.triggers import storage as trigger_storage
from hive_core.ledger.turns import storage as turn_storage

_KEY: Final = "clock"
_MOVED: Final = (
    "UPDATE keys SET at = at + ?1",
    "UPDATE jobs SET started = started + ?1, ended = ended + ?1",
    "UPDATE archives SET at = at + ?1, expires = expires + ?1",
    "UPDATE runs SET since = since + ?1",
    "UPDATE approvals SET created = created + ?1, expires = expires + ?1, decided = decided + ?1,"
    " ended = ended + ?1",
    "UPDATE deploys SET until = until + ?1",
    "UPDATE generations SET at = at + ?1",
    "UPDATE ranges SET given = given + ?1",
    "UPDATE hellos SET at = at + ?1",
    *artifact_storage.MOVED,
    *budget_storage.MOVED,
    *colony_storage.CLOCK_SHIFT,
    *exits.MOVED,
    *links.CLOCK_SHIFT,
    *logins.CLOCK_SHIFT,
    *model_storage.CLOCK_SHIFT,
    *phase_storage.CLOCK_SHIFT,
    *plan_storage.CLOCK_SHIFT,
    *question_storage.MOVED,
    *quarantines.CLOCK_SHIFT,
    *queues.MOVED,
    *subagent_storage.CLOCK_SHIFT,
    *task_storage.CLOCK_SHIFT,
    *tool_storage.CLOCK_SHIFT,
    *trigger_storage.MOVED,
    *turn_storage.CLOCK_SHIFT,
)


@dataclass(frozen=True, slots=True)
class Known:
    """State of the clock. `seen`: the last time it was checked; `ahead` is valid until `until`."""

    seen: float = 0.0
    ahead: float = 0.0
    until: float = 0.0


class Shifts:
    """Shifts times. Call inside a transaction."""

    def __init__(self, connection: Connection) -> None:
        self._db = connection

    @property
    def known(self) -> Known:
        text = self._db.value("SELECT value FROM meta WHERE key = ?", (_KEY,))
        return Known(**json.loads(text)) if text else Known()

    def ahead(self, now: float) -> float:
        """How much older than it is unchangeable data may look."""
        known = self.known
        return known.ahead if now < known.until else 0.0

    def see(self, now: float) -> None:
        """Record that the clock was checked."""
        known = self.known
        self._keep(Known(now, self.ahead(now), known.until))

    def move(self, seconds: float, now: float, retention: float) -> None:
        """Shift all stored times by `seconds`.

        No data is kept longer than `retention` from `now`.
        """
        for sql in _MOVED:
            self._db.run(sql, (seconds,))
        for agent, text in self._db.rows("SELECT agent, value FROM starts"):
            starts = json.loads(text)
            starts["failures"] = [moment + seconds for moment in starts["failures"]]
            starts["next_at"] += seconds
            self._db.run("UPDATE starts SET value = ? WHERE agent = ?", (json.dumps(starts), agent))
        ahead = max(0.0, self.ahead(now) + seconds)
        self._keep(Known(now, ahead, now + retention))

    def _keep(self, known: Known) -> None:
        value = json.dumps(asdict(known))
        self._db.run("INSERT OR REPLACE INTO meta VALUES (?, ?)", (_KEY, value))
