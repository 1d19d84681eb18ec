"""Approvals: requests of agents, and their outcomes. Rows are kept as a record."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from types import MappingProxyType
from typing import Any, Final
from uuid import uuid4

from hive_core.errors import NotFound
from hive_core.ledger.core.connection import Connection
from hive_core.model.config.approval import (
    COURSE,
    Approval,
    ApprovalKind,
    ApprovalState,
    Binding,
    Effect,
)

DAY: Final = 86_400.0
_DIGITS: Final = 12
_COLUMNS: Final = (
    "id, kind, agent, requester, source, message, binding, state, created, expires, job, effect,"
    " wishes, review, decided_by, decided, ended, reason"
)
_UNDECIDED: Final = (ApprovalState.RECEIVED, ApprovalState.PENDING)
_JUDGED: Final = (
    ApprovalKind.CONFIG,
    ApprovalKind.INPUTS,
)  # for the other kinds, the requester also approves
_DECIDING: Final = frozenset({"approve", "deny"})


@dataclass(frozen=True, slots=True)
class ApprovalRequest:
    """A new request.

    Parties are UUIDs or `operator`; an empty `agent` means the inputs of all agents.
    """

    kind: ApprovalKind
    agent: str
    requester: str
    source: str
    message: str
    binding: Binding
    job: str = ""
    review: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}))


def _approval(row: tuple[Any, ...]) -> Approval:
    (id_, kind, agent, requester, source, message, binding, state, created, expires, job, effect,
     wishes, review, decided_by, decided, ended, reason) = row  # fmt: skip
    return Approval(
        id_, ApprovalKind(kind), agent, requester, source, message, Binding(**json.loads(binding)),
        ApprovalState(state), created, expires, job, Effect(effect),
        MappingProxyType(json.loads(wishes)), MappingProxyType(json.loads(review)), decided_by,
        decided, ended, reason,
    )  # fmt: skip


class Approvals:
    """The table of approvals."""

    def __init__(self, connection: Connection) -> None:
        self._db = connection

    def create(self, request: ApprovalRequest, now: float, expires: float) -> Approval:
        """Create an approval in its first state."""
        id_ = uuid4().hex[:_DIGITS]
        while self.get(id_) is not None:
            id_ = uuid4().hex[:_DIGITS]
        self._db.run(
            "INSERT INTO approvals (id, kind, agent, requester, source, message, binding, state,"
            " created, expires, job, review) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                id_, request.kind.value, request.agent, request.requester, request.source,
                request.message, _text(asdict(request.binding)), COURSE.start, now, expires,
                request.job, _text(request.review),
            ),
        )  # fmt: skip
        return self._require(id_)

    def get(self, id_: str) -> Approval | None:
        row = self._db.row(f"SELECT {_COLUMNS} FROM approvals WHERE id = ?", (id_,))  # noqa: S608
        return _approval(row) if row else None

    def origins(self, ids: Iterable[str]) -> dict[str, tuple[str, str]]:
        """Kind and requester of each of these, without the results of the check."""
        rows = self._db.rows(
            "SELECT id, kind, requester FROM approvals"
            " WHERE id IN (SELECT value FROM json_each(?))",
            (json.dumps(list(ids)),),
        )
        return {id_: (kind, requester) for id_, kind, requester in rows}

    def open(self) -> list[Approval]:
        """Approvals that have not ended, the oldest first."""
        rows = self._db.rows(
            f"SELECT {_COLUMNS} FROM approvals WHERE ended IS NULL ORDER BY number"  # noqa: S608
        )
        return [_approval(row) for row in rows]

    def pending_approvals(self, most: int) -> list[Approval]:
        """Approvals that wait for the operator, the oldest first."""
        rows = self._db.rows(
            f"SELECT {_COLUMNS} FROM approvals WHERE ended IS NULL AND state = ?"  # noqa: S608
            " ORDER BY number LIMIT ?",
            (ApprovalState.PENDING.value, most),
        )
        return [_approval(row) for row in rows]

    def of_agent(self, agent: str) -> list[Approval]:
        """Open approvals of one agent, the oldest first."""
        rows = self._db.rows(
            f"SELECT {_COLUMNS} FROM approvals WHERE ended IS NULL AND agent = ?"  # noqa: S608
            " ORDER BY number",
            (agent,),
        )
        return [_approval(row) for row in rows]

    def ended_approvals(self, agent: str, limit: int) -> list[Approval]:
        """Ended approvals of one agent, the newest first."""
        rows = self._db.rows(
            f"SELECT {_COLUMNS} FROM approvals WHERE ended IS NOT NULL AND agent = ?"  # noqa: S608
            " ORDER BY number DESC LIMIT ?",
            (agent, limit),
        )
        return [_approval(row) for row in rows]

    def page(
        self, after: str | None, limit: int, requester: str | None = None, *, open_: bool = False
    ) -> list[Approval]:
        """The newest first, after the one with id `after`; of one requester or of all."""
        where, values = _behind(after, open_=open_)
        if requester is not None:
            where += " AND requester = ?"
            values.append(requester)
        sql = f"SELECT {_COLUMNS} FROM approvals {where} ORDER BY number DESC LIMIT ?"  # noqa: S608
        return [_approval(row) for row in self._db.rows(sql, (*values, limit))]

    def parties(self, after: str | None, *, open_: bool = False) -> list[tuple[str, str, str]]:
        """Id, agent and requester of each, the newest first, to filter by visibility."""
        where, values = _behind(after, open_=open_)
        sql = f"SELECT id, agent, requester FROM approvals {where} ORDER BY number DESC"  # noqa: S608
        return [(id_, agent, asked) for id_, agent, asked in self._db.rows(sql, values)]

    def requesters(self, since: float) -> list[tuple[str, bool]]:
        """Requester and undecided flag of approvals that are undecided or newer than `since`.

        If the clock was set back, approvals created in the future count as newer.
        """
        sql = (
            "SELECT requester, state IN (?, ?) FROM approvals"
            " WHERE ((ended IS NULL AND state IN (?, ?)) OR created > ?) AND kind IN (?, ?)"
        )
        rows = self._db.rows(sql, (*_UNDECIDED, *_UNDECIDED, since, *_JUDGED))
        return [(requester, bool(undecided)) for requester, undecided in rows]

    def attach(self, id_: str, job: str) -> None:
        """Set the job that ends together with the approval."""
        self._db.run("UPDATE approvals SET job = ? WHERE id = ?", (job, id_))

    def record_review(
        self, id_: str, binding: Binding, effect: Effect, wishes: Mapping[str, object],
        review: Mapping[str, object],
    ) -> None:  # fmt: skip
        """Store the results of the check."""
        self._db.run(
            "UPDATE approvals SET binding = ?, effect = ?, wishes = ?, review = ? WHERE id = ?",
            (_text(asdict(binding)), effect.value, _text(wishes), _text(review), id_),
        )

    def move(self, id_: str, event: str, now: float, *, by: str = "", reason: str = "") -> Approval:
        """Apply `event`. IllegalTransition if the current state does not allow it."""
        approval = self._require(id_)
        state = ApprovalState(COURSE.next(approval.state, event))
        decides = event in _DECIDING
        self._db.run(
            "UPDATE approvals SET state = ?, decided_by = ?, decided = ?, ended = ?, reason = ?"
            " WHERE id = ?",
            (
                state.value, by if decides else approval.decided_by,
                now if decides else approval.decided, now if state in COURSE.finals else None,
                reason or approval.reason, id_,
            ),
        )  # fmt: skip
        return self._require(id_)

    def past_deadline(self, now: float) -> list[Approval]:
        """Undecided approvals that have expired."""
        rows = self._db.rows(
            f"SELECT {_COLUMNS} FROM approvals"  # noqa: S608
            " WHERE ended IS NULL AND state = ? AND expires <= ? ORDER BY number",
            (ApprovalState.PENDING, now),
        )
        return [_approval(row) for row in rows]

    def find_all(self, ids: Iterable[str]) -> list[Approval]:
        """The approvals of these ids that exist."""
        return [approval for id_ in ids if (approval := self.get(id_)) is not None]

    def _require(self, id_: str) -> Approval:
        approval = self.get(id_)
        if approval is None:
            raise NotFound(f"no approval {id_}")
        return approval


def _behind(after: str | None, *, open_: bool) -> tuple[str, list[object]]:
    """The WHERE clause of a page that starts after an approval, with its values."""
    where = "WHERE ended IS NULL" if open_ else "WHERE 1"
    if after is None:
        return where, []
    return f"{where} AND number < (SELECT number FROM approvals WHERE id = ?)", [after]  # noqa: S608


def _text(value: Mapping[str, object]) -> str:
    return json.dumps(dict(value), sort_keys=True)
