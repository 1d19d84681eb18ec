"""Triggers, and the times at which they are due."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import Any, Final
from uuid import uuid4

from hive_core.ledger.core.connection import Connection
from hive_core.ledger.triggers.fires import TriggerFireStore
from hive_core.model.work.trigger import (
    DueFires,
    Missed,
    Trigger,
    TriggerAction,
    TriggerKind,
    TriggerRule,
)


def _is_any_of(kinds: Iterable[TriggerKind]) -> str:
    words = ", ".join(f"'{kind}'" for kind in kinds)
    return f"kind IN ({words})"


# The kinds of triggers in SQL: a statement that treats kinds differently uses one of these.
_IS_INTERVAL: Final = _is_any_of(kind for kind in TriggerKind if kind.clock == "interval")
_IS_ON_WALL_CLOCK: Final = _is_any_of(kind for kind in TriggerKind if kind.clock == "wall clock")
_IS_ONE_SHOT: Final = f"kind = '{TriggerKind.AT}'"
_IS_WEBHOOK: Final = f"kind = '{TriggerKind.WEBHOOK}'"
# Statements that shift times when the clock is set (ledger/core/clock_shift.py); ?1 is the shift in
# seconds. An interval keeps its length. A trigger that follows the wall clock is checked again when
# the clock went back; when the clock went forward, it is due.
MOVED: Final[tuple[str, ...]] = (
    "UPDATE triggers SET due = due + ?1, since = since + ?1"  # noqa: S608 - our own words
    f" WHERE ({_IS_INTERVAL} OR parked) AND due IS NOT NULL",
    "UPDATE triggers SET due = 0"  # noqa: S608 - our own words
    f" WHERE ?1 < 0 AND {_IS_ON_WALL_CLOCK} AND NOT parked AND due IS NOT NULL",
    "UPDATE fires SET at = at + ?1, ended = ended + ?1",
    "UPDATE deliveries SET at = at + ?1",
)
_COLUMNS: Final = (
    "number, id, owner, agent, name, rule, act, action, missed, enabled, created, since, due,"
    " parked, hook, secret, fired, open"
)
_NOT_SPAWN: Final = "due IS NOT NULL AND act <> 'spawn'"
_SPAWN: Final = "due IS NOT NULL AND act = 'spawn'"


@dataclass(frozen=True, slots=True)
class NewTrigger:
    """A trigger to save."""

    owner: str
    agent: str
    name: str
    rule: TriggerRule
    act: TriggerAction
    action: dict[str, object]
    missed: Missed
    enabled: bool
    hook: str = ""
    secret: str = ""


def _trigger(row: tuple[Any, ...]) -> Trigger:
    (number, id_, owner, agent, name, rule, act, action, missed, enabled, created, since, due,
     parked, hook, secret, fired, open_) = row  # fmt: skip
    said = json.loads(rule)
    said.update(kind=TriggerKind(said["kind"]), methods=tuple(said["methods"]))
    return Trigger(
        number, id_, owner, agent, name, TriggerRule(**said), TriggerAction(act),
        MappingProxyType(json.loads(action)), Missed(missed), bool(enabled), created, since, due,
        bool(parked), hook or "", secret, fired, open_,
    )  # fmt: skip


class TriggerStore:
    def __init__(self, connection: Connection) -> None:
        self._db = connection
        self.fires = TriggerFireStore(connection)

    # Rows

    def put(self, new: NewTrigger, now: float, due: float | None) -> Trigger:
        """Save a trigger, replacing one with this owner, agent and name."""
        old = self.by_name(new.owner, new.agent, new.name)
        rule, action = json.dumps(asdict(new.rule)), json.dumps(new.action)
        values = (new.rule.kind.value, rule, new.act.value, action, new.missed.value,
                  new.enabled, now, due, new.hook or None, new.secret)  # fmt: skip
        if old is None:
            id_ = uuid4().hex[:12]
            self._db.run(
                "INSERT INTO triggers (kind, rule, act, action, missed, enabled, since, due, hook,"
                " secret, id, owner, agent, name, created)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (*values, id_, new.owner, new.agent, new.name, now),
            )
        else:
            id_ = old.id
            self._retire(old, keep=(new.hook, new.secret))
            self._db.run(
                "UPDATE triggers SET kind = ?, rule = ?, act = ?, action = ?, missed = ?,"
                " enabled = ?, since = ?, due = ?, hook = ?, secret = ?, parked = 0 WHERE id = ?",
                (*values, id_),
            )
        return self.require(id_)

    def remove(self, trigger: Trigger) -> None:
        self._retire(trigger, keep=("", ""))
        self._db.run("DELETE FROM triggers WHERE number = ?", (trigger.number,))
        self._db.run('DELETE FROM fires WHERE "trigger" = ?', (trigger.number,))

    def _retire(self, old: Trigger, keep: tuple[str, str]) -> None:
        """Schedule the removal of a webhook's secret after COMMIT, unless it is still in use."""
        if old.hook and (old.hook, old.secret) != keep:
            self._db.run("INSERT OR IGNORE INTO old_hooks VALUES (?, ?)", (old.hook, old.secret))
            if old.hook != keep[0]:
                self._db.run("DELETE FROM deliveries WHERE hook = ?", (old.hook,))

    def require(self, id_: str) -> Trigger:
        trigger = self.get(id_)
        if trigger is None:
            raise KeyError(id_)
        return trigger

    def get(self, id_: str) -> Trigger | None:
        return self._one("id = ?", id_)

    def by_number(self, number: int) -> Trigger | None:
        return self._one("number = ?", number)

    def by_hook(self, hook: str) -> Trigger | None:
        return self._one("hook = ?", hook)

    def by_path(self, agent: str, path: str) -> Trigger | None:
        """The webhook of an agent at this path. An agent has too few for an index to help."""
        where = f"agent = ? AND {_IS_WEBHOOK} AND json_extract(rule, '$.path') = ?"
        return self._one(where, agent, path) if path else None

    def by_name(self, owner: str, agent: str, name: str) -> Trigger | None:
        return self._one("owner = ? AND agent = ? AND name = ?", owner, agent, name)

    def count(self, agent: str) -> int:
        """The number of triggers that fire for one agent."""
        return int(self._db.value("SELECT COUNT(*) FROM triggers WHERE agent = ?", (agent,)))

    def spent_one_shot(self, agent: str) -> Trigger | None:
        """The oldest one-shot trigger of an agent that has fired and will not fire again."""
        return self._one(f"agent = ? AND {_IS_ONE_SHOT} AND due IS NULL AND open IS NULL", agent)

    def page(self, agent: str | None, after: int, limit: int) -> list[Trigger]:
        """Triggers for one agent, or all, by age."""
        where, values = ("number > ?", [after])
        if agent is not None:
            where, values = ("agent = ? AND number > ?", [agent, after])  # type: ignore[list-item]
        return self._many(f"{where} ORDER BY number LIMIT ?", *values, limit)

    def of_parties(self, uuids: frozenset[str]) -> list[Trigger]:
        """The triggers that these agents own, or that fire for them."""
        return [
            trigger
            for uuid in sorted(uuids)
            for trigger in self._many("owner = ?1 OR agent = ?1 ORDER BY number", uuid)
        ]

    def hooks(self) -> set[str]:
        """The ids of all webhooks for which a secret may be stored."""
        rows = self._db.rows("SELECT hook FROM triggers WHERE hook IS NOT NULL")
        return {hook for (hook,) in [*rows, *self._db.rows("SELECT hook FROM old_hooks")]}

    def hook_secrets(self) -> set[tuple[str, str]]:
        """Each webhook with the name of its valid secret."""
        return {*self._db.rows("SELECT hook, secret FROM triggers WHERE hook IS NOT NULL")}

    def old_hooks(self) -> list[tuple[str, str, bool]]:
        """Secrets to remove: (webhook, name of the secret, whether the webhook is removed)."""
        return [(hook, secret, bool(gone)) for hook, secret, gone in self._db.rows(
            "SELECT o.hook, o.secret, t.hook IS NULL FROM old_hooks o"
            " LEFT JOIN triggers t ON t.hook = o.hook LIMIT 64")]  # fmt: skip

    def forget_hook(self, hook: str, secret: str) -> None:
        self._db.run("DELETE FROM old_hooks WHERE hook = ? AND secret = ?", (hook, secret))

    def set_enabled(self, number: int, *, enabled: bool, due: float | None) -> None:
        self._db.run(
            "UPDATE triggers SET enabled = ?, due = ? WHERE number = ?", (enabled, due, number)
        )

    # Times

    def next_due(self, *, spawns: bool) -> float | None:
        """When the next trigger is due."""
        which = _SPAWN if spawns else _NOT_SPAWN
        due = self._db.value(f"SELECT MIN(due) FROM triggers WHERE {which}")  # noqa: S608
        return None if due is None else float(due)

    def agents_due(self, now: float, limit: int) -> list[str]:
        """The agents of the first `limit` triggers that are due, the longest overdue first."""
        rows = self._db.rows(
            f"SELECT agent FROM triggers WHERE {_NOT_SPAWN} AND due <= ?"  # noqa: S608
            " ORDER BY due LIMIT ?", (now, limit),
        )  # fmt: skip
        return list(dict.fromkeys(agent for (agent,) in rows))

    def due_of(self, agent: str, now: float) -> list[Trigger]:
        return self._many(
            f"agent = ? AND {_NOT_SPAWN} AND due <= ? ORDER BY due, number", agent, now
        )

    def spawn_due(self, now: float) -> Trigger | None:
        """The longest overdue spawn."""
        return self._one(f"{_SPAWN} AND due <= ? ORDER BY due, number", now)

    def save_verdict(self, number: int, verdict: DueFires) -> None:
        self._db.run(
            "UPDATE triggers SET since = ?, due = ? WHERE number = ?",
            (verdict.since, verdict.due, number),
        )

    def put_off(self, number: int, due: float | None) -> None:
        self._db.run("UPDATE triggers SET due = ? WHERE number = ?", (due, number))

    def park(self, agent: str, until: float) -> None:
        """Park the triggers of a destroyed agent for as long as it can be restored."""
        self._db.run("UPDATE triggers SET parked = 1, due = ? WHERE agent = ?", (until, agent))

    def list_parked_triggers(self, agent: str) -> list[Trigger]:
        return self._many("agent = ? AND parked", agent)

    def unpark(self, number: int, due: float | None) -> None:
        self._db.run("UPDATE triggers SET parked = 0, due = ? WHERE number = ?", (due, number))

    def _many(self, where: str, *values: object) -> list[Trigger]:
        rows = self._db.rows(f"SELECT {_COLUMNS} FROM triggers WHERE {where}", values)  # noqa: S608
        return [_trigger(row) for row in rows]

    def _one(self, where: str, *values: object) -> Trigger | None:
        row = self._db.row(
            f"SELECT {_COLUMNS} FROM triggers WHERE {where} LIMIT 1", values  # noqa: S608
        )  # fmt: skip
        return _trigger(row) if row else None
