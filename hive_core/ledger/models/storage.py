"""Calls of models, what each holds in budgets, and the agents that wait for a budget."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil
from typing import Any, Final, NamedTuple

from hive_core.ledger.core.connection import Connection
from hive_core.model.work.budget import BudgetKind

# Statements that shift times when the clock is set (ledger/core/clock_shift.py); ?1 is the shift in
# seconds.
CLOCK_SHIFT: Final[tuple[str, ...]] = (
    "UPDATE model_calls SET begun = begun + ?1, due = due + ?1, ended = ended + ?1",
    "UPDATE model_waiting SET look_at = look_at + ?1",
)
# How long an ended call is kept: its settlement may be repeated, or replace an estimate.
KEPT: Final = 3600.0
# Ended calls are deleted together, at most once in so many seconds.
PAUSE: Final = 60.0
OPEN, ESTIMATED, SETTLED = "open", "estimated", "settled"
_COLUMNS: Final = (
    "id, agent, sub, alias, wire, tier, task, hand_back, tokens_in, tokens_out, price_in,"
    " price_out, begun, due, ended, status, charged"
)
_SELECT: Final = f"SELECT {_COLUMNS} FROM model_calls"  # noqa: S608 - our own words


class ModelHold(NamedTuple):
    """What a call holds in one budget. `holder`: the agent of it, or the task whose fund it is."""

    holder: str
    kind: BudgetKind
    tier: str
    amount: int


@dataclass(frozen=True, slots=True)
class ReservedCall:
    """One call of a model. `tokens_in` is estimated; `tokens_out` is what was noted last.

    `charged`: for an ended call what was charged, with `paid`, a list of holds.
    """

    id: str
    agent: str
    sub: str
    alias: str
    wire: str
    tier: str
    task: str
    hand_back: bool
    tokens_in: int
    tokens_out: int
    price_in: float
    price_out: float
    begun: float
    due: float | None
    ended: float | None = None
    status: str = OPEN
    charged: Mapping[str, Any] = field(default_factory=dict)

    def cost(self, tokens_out: int) -> int:
        """The price of its input and so much output, in millionths."""
        return ceil(self.tokens_in * self.price_in + tokens_out * self.price_out)

    def with_end(self, now: float, status: str, charged: Mapping[str, Any]) -> ReservedCall:
        return replace(self, due=None, ended=now, status=status, charged=charged)


class WaitingAgent(NamedTuple):
    """An agent whose call was refused, and the tokens and money that the call needs at least.

    `holder`: the agent, or the task, whose budget had no room.
    """

    agent: str
    task: str
    tokens: int
    money: int
    holder: str


class SubAgentUse(NamedTuple):
    """What calls of a sub-agent were charged so far. `cost` is in millionths."""

    model_calls: int
    tokens_in: int
    tokens_out: int
    cost: int


class ModelCallStore:
    def __init__(self, connection: Connection) -> None:
        self._db = connection

    def get(self, id_: str) -> ReservedCall | None:
        row = self._db.row(f"{_SELECT} WHERE id = ?", (id_,))
        return _call(row) if row else None

    def save(self, call: ReservedCall) -> None:
        values = (
            call.id, call.agent, call.sub, call.alias, call.wire, call.tier, call.task,
            int(call.hand_back), call.tokens_in, call.tokens_out, call.price_in, call.price_out,
            call.begun, call.due, call.ended, call.status, json.dumps(dict(call.charged)),
        )  # fmt: skip
        places = ", ".join("?" * len(values))
        self._db.run(f"INSERT OR REPLACE INTO model_calls ({_COLUMNS}) VALUES ({places})", values)  # noqa: S608

    def use_of_subagent(self, id_: str) -> SubAgentUse:
        """What its calls were charged, those that are not deleted yet."""
        rows = self._db.rows("SELECT charged FROM model_calls WHERE sub = ? AND sub <> ''", (id_,))
        charged = [json.loads(text) for (text,) in rows]
        sums = (sum(int(one.get(key, 0)) for one in charged) for key in SubAgentUse._fields[1:])
        return SubAgentUse(len(charged), *sums)

    def open_calls(self) -> list[ReservedCall]:
        return [_call(row) for row in self._db.rows(f"{_SELECT} WHERE due IS NOT NULL ORDER BY id")]

    def next_due(self) -> float | None:
        """When the next open call is to be estimated, or an ended one deleted."""
        due = self._db.value("SELECT due FROM model_calls WHERE due IS NOT NULL ORDER BY due")
        ended = self._db.value(
            "SELECT ended FROM model_calls WHERE ended IS NOT NULL ORDER BY ended LIMIT 1"
        )
        times = [due] if due is not None else []
        return min((*times, *([] if ended is None else [ended + KEPT + PAUSE])), default=None)

    def overdue(self, now: float, limit: int) -> list[ReservedCall]:
        rows = self._db.rows(f"{_SELECT} WHERE due <= ? ORDER BY due LIMIT ?", (now, limit))
        return [_call(row) for row in rows]

    def prune(self, now: float) -> None:
        """Delete calls that ended long ago."""
        self._db.run("DELETE FROM model_calls WHERE ended <= ?", (now - KEPT,))

    # The call beyond its budget that an attempt of a task has

    def has_handed_back(self, task: str, attempt: int) -> bool:
        """Whether this attempt of the task had its call."""
        row = self._db.row("SELECT attempt FROM model_hand_backs WHERE task = ?", (task,))
        return row is not None and row[0] == attempt

    def hand_back(self, task: str, attempt: int, call: str) -> None:
        """Note that this is the call of the attempt."""
        values = (task, attempt, call)
        self._db.run("INSERT OR REPLACE INTO model_hand_backs VALUES (?, ?, ?)", values)

    def allow_another_hand_back(self, call: str) -> None:
        """This call came to nothing: its task may have another one."""
        self._db.run("DELETE FROM model_hand_backs WHERE call = ?", (call,))

    def forget_hand_back(self, task: str) -> None:
        """The task has ended."""
        self._db.run("DELETE FROM model_hand_backs WHERE task = ?", (task,))

    # What calls hold

    def hold(self, call: str, holds: Sequence[ModelHold]) -> None:
        rows = [(call, *hold) for hold in holds]
        self._db.run_each("INSERT INTO model_holds VALUES (?, ?, ?, ?, ?)", rows)

    def take_holds(self, call: str) -> list[ModelHold]:
        """Remove and return what a call holds."""
        rows = self._db.rows(
            "DELETE FROM model_holds WHERE call = ? RETURNING holder, kind, tier, amount", (call,)
        )
        return sorted(_hold(row) for row in rows)

    def drop_holds(self, holder: str, kind: BudgetKind, tier: str) -> None:
        """Remove what all calls hold in one budget, which is closed."""
        self._db.run(
            "DELETE FROM model_holds WHERE holder = ? AND kind = ? AND tier = ?",
            (holder, kind, tier),
        )

    def holds(self) -> list[ModelHold]:
        """Everything that calls hold."""
        rows = self._db.rows(
            "SELECT holder, kind, tier, amount FROM model_holds ORDER BY holder, kind, tier"
        )
        return [_hold(row) for row in rows]

    # Agents that were refused

    def wait(self, waiting: WaitingAgent, look_at: float) -> None:
        self._db.run(
            "INSERT OR REPLACE INTO model_waiting VALUES (?, ?, ?, ?, ?, ?)", (*waiting, look_at)
        )

    def stop_waiting(self, agent: str) -> None:
        self._db.run("DELETE FROM model_waiting WHERE agent = ?", (agent,))

    def look_again(self, holder: str, now: float) -> None:
        """A budget of this agent or task has more: look soon whether those that wait have room."""
        sql = "UPDATE model_waiting SET look_at = ?1 WHERE holder = ?2 AND look_at > ?1"
        self._db.run(sql, (now, holder))

    def next_look(self) -> float | None:
        look_at: float | None = self._db.value("SELECT MIN(look_at) FROM model_waiting")
        return look_at

    def waiting(self, now: float, limit: int) -> list[WaitingAgent]:
        rows = self._db.rows(
            "SELECT agent, task, tokens, money, holder FROM model_waiting WHERE look_at <= ?"
            " ORDER BY look_at LIMIT ?",
            (now, limit),
        )
        return [WaitingAgent(*row) for row in rows]


def _call(row: tuple[Any, ...]) -> ReservedCall:
    values = list(row)
    values[7], values[16] = bool(row[7]), json.loads(row[16])
    return ReservedCall(*values)


def _hold(row: tuple[Any, ...]) -> ModelHold:
    holder, kind, tier, amount = row
    return ModelHold(holder, BudgetKind(kind), tier, amount)
