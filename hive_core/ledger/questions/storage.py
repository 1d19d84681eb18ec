"""Questions and escalations: their holders, deadlines and ends."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple
from uuid import uuid4

from hive_core.errors import NotFound
from hive_core.ledger.core.connection import Connection
from hive_core.model.work.question import (
    COURSE,
    Hop,
    HopReason,
    Question,
    QuestionItem,
    QuestionKind,
    QuestionState,
)

_DIGITS: Final = 12
_SEEN: Final = "questions"
_COLUMNS: Final = (
    "id, kind, asker, holder, items, state, asked, context, severity, task, deadline, climbs,"
    " answers, answered_by, ended, reason"
)
# The subqueries match the indexes, so that each one is a single lookup.
_NEXT: Final = (
    "SELECT (SELECT MIN(deadline) FROM questions WHERE ended IS NULL AND deadline NOT NULL),"
    " (SELECT MIN(climbs) FROM questions WHERE ended IS NULL AND climbs NOT NULL),"
    " (SELECT MIN(owed) FROM questions WHERE owed NOT NULL),"
    " (SELECT MIN(gone) FROM questions WHERE gone NOT NULL)"
)
# Statements that shift times when the clock is set (ledger/core/clock_shift.py); ?1 is the shift in
# seconds.
MOVED: Final[tuple[str, ...]] = (
    "UPDATE questions SET asked = asked + ?1, deadline = deadline + ?1, climbs = climbs + ?1,"
    " ended = ended + ?1, owed = owed + ?1, gone = gone + ?1",
    "UPDATE hops SET at = at + ?1",
    "UPDATE reminders SET made = made + ?1, due = due + CASE relative WHEN 1 THEN ?1 ELSE 0 END",
)


class NewQuestion(NamedTuple):
    """A question to save. Parties are UUIDs, or `operator`; times are seconds since 1970."""

    kind: QuestionKind
    asker: str
    holder: str
    items: tuple[QuestionItem, ...]
    context: str = ""
    severity: str = ""
    task: str = ""
    deadline: float | None = None
    climbs: float | None = None


class QuestionEnd(NamedTuple):
    """The end of a question. `keep_until`: the time until which it can be read."""

    event: str
    keep_until: float
    answers: Sequence[str | None] = ()
    by: str = ""
    reason: str = ""


def _question(row: tuple[Any, ...]) -> Question:
    (id_, kind, asker, holder, items, state, asked, context, severity, task, deadline, climbs,
     answers, answered_by, ended, reason) = row  # fmt: skip
    return Question(
        id_, QuestionKind(kind), asker, holder,
        tuple(QuestionItem(item[0], tuple(item[1]), item[2]) for item in json.loads(items)),
        QuestionState(state), asked, context, severity, task, deadline, climbs,
        tuple(json.loads(answers)), answered_by, ended, reason,
    )  # fmt: skip


class QuestionStore:
    def __init__(self, connection: Connection) -> None:
        self._db = connection

    def create(self, new: NewQuestion, now: float) -> Question:
        """Save a new question, which waits on its holder."""
        id_ = uuid4().hex[:_DIGITS]
        while self.get(id_) is not None:
            id_ = uuid4().hex[:_DIGITS]
        self._db.run(
            "INSERT INTO questions (id, kind, asker, holder, items, state, asked, context,"
            " severity, task, deadline, climbs) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                id_, new.kind.value, new.asker, new.holder, _json(new.items), COURSE.start, now,
                new.context, new.severity, new.task, new.deadline, new.climbs,
            ),
        )  # fmt: skip
        self._add_hop(id_, Hop(new.holder, now, new.asker, HopReason.ASKED))
        return self.require(id_)

    def get(self, id_: str) -> Question | None:
        return next(iter(self._all("WHERE id = ?", id_)), None)

    def require(self, id_: str) -> Question:
        question = self.get(id_)
        if question is None:
            raise NotFound(f"no question {id_}")
        return question

    def pass_on(self, id_: str, hop: Hop, climbs: float | None) -> Question:
        """Let a question wait on another holder."""
        sql = "UPDATE questions SET holder = ?, climbs = ?, owed = NULL WHERE id = ?"
        self._db.run(sql, (hop.holder, climbs, id_))
        self._add_hop(id_, hop)
        return self.require(id_)

    def end(self, id_: str, end: QuestionEnd, now: float) -> Question:
        """End a question; IllegalTransition if it has ended already."""
        state = QuestionState(COURSE.next(self.require(id_).state, end.event))
        self._db.run(
            "UPDATE questions SET state = ?, answers = ?, answered_by = ?, reason = ?, ended = ?,"
            " gone = ?, owed = NULL WHERE id = ?",
            (state.value, _json(end.answers), end.by, end.reason, now, end.keep_until, id_),
        )
        return self.require(id_)

    def set_retry(self, id_: str, until: float | None) -> None:
        """Set when to send undeliverable mail again; None: not at all."""
        self._db.run("UPDATE questions SET owed = ? WHERE id = ?", (until, id_))

    def hops(self, id_: str) -> list[Hop]:
        """The holders of a question, in order."""
        rows = self._db.rows(
            "SELECT holder, at, by, why, letter FROM hops WHERE question = ? ORDER BY step", (id_,)
        )
        return [Hop(holder, at, by, HopReason(why), letter) for holder, at, by, why, letter in rows]

    def set_letter(self, id_: str, letter: str) -> None:
        """Save the message that informed the current holder."""
        self._db.run(
            "UPDATE hops SET letter = ?2 WHERE question = ?1 AND step ="
            " (SELECT MAX(step) FROM hops WHERE question = ?1)",
            (id_, letter),
        )

    def has_held(self, id_: str, party: str) -> bool:
        """Whether the question waits, or has waited, for this party."""
        sql = "SELECT 1 FROM hops WHERE question = ? AND holder = ?"
        return self._db.value(sql, (id_, party)) is not None

    def has_open_question(self, asker: str) -> bool:
        """Whether this agent has an open question."""
        return self.count_open_questions(asker) > 0

    def count_open_questions(self, asker: str) -> int:
        sql = "SELECT COUNT(*) FROM questions WHERE asker = ? AND ended IS NULL"
        return int(self._db.value(sql, (asker,)))

    def count_held(self, holder: str, asker: str | None = None) -> int:
        """The number of open questions that wait for a party; of one asker or of all."""
        sql = "SELECT COUNT(*) FROM questions WHERE holder = ? AND ended IS NULL"
        if asker is None:
            return int(self._db.value(sql, (holder,)))
        return int(self._db.value(f"{sql} AND asker = ?", (holder, asker)))

    def all_open(self) -> list[Question]:
        """All open questions, the oldest first."""
        return self._all("WHERE ended IS NULL ORDER BY number")

    def oldest_held(self, holders: Iterable[str]) -> dict[str, float]:
        """When the oldest open question of each of these holders was asked."""
        rows = self._db.rows(
            "SELECT holder, MIN(asked) FROM questions WHERE ended IS NULL"
            " AND holder IN (SELECT value FROM json_each(?)) GROUP BY holder",
            (_json(list(holders)),),
        )
        return dict(rows)

    def open_of_asker(self, asker: str) -> list[Question]:
        """Open questions of an asker, the oldest first."""
        return self._all("WHERE ended IS NULL AND asker = ? ORDER BY number", asker)

    def open_of_holder(self, holder: str) -> list[Question]:
        """Open questions that wait for a holder, the oldest first."""
        return self._all("WHERE ended IS NULL AND holder = ? ORDER BY number", holder)

    def open_of_task(self, task: str) -> list[Question]:
        """Open questions that a task waits for."""
        return self._all("WHERE ended IS NULL AND task <> '' AND task = ? ORDER BY number", task)

    def page(
        self, of: tuple[str, Sequence[str]] | None, after: str | None, limit: int, *, open_: bool
    ) -> list[Question]:
        """Questions after the one with this id, newest first, of all or of some parties.

        `of`: the column (`asker` or `holder`) and the parties.
        """
        where, values = ["ended IS NULL" if open_ else "1"], list[object]()
        if of is not None:
            column, parties = of
            if column not in ("asker", "holder"):
                raise ValueError(column)
            where.append(f"{column} IN (SELECT value FROM json_each(?))")  # noqa: S608
            values.append(_json(parties))
        if after is not None:
            where.append("number < (SELECT number FROM questions WHERE id = ?)")
            values.append(after)
        return self._all(
            f"WHERE {' AND '.join(where)} ORDER BY number DESC LIMIT ?", *values, limit
        )

    def next_due(self) -> float | None:
        """The time of the next deadline, escalation, mail to send again, or row to prune."""
        times = [time for time in self._db.row(_NEXT) or () if time is not None]
        return min(times) if times else None

    def past_deadline(self, now: float, most: int) -> list[Question]:
        """Open questions past their deadline."""
        return self._all(
            "WHERE ended IS NULL AND deadline <= ? ORDER BY deadline, number LIMIT ?", now, most
        )

    def due_to_climb(self, now: float, most: int) -> list[Question]:
        """Open questions that are due for escalation."""
        return self._all(
            "WHERE ended IS NULL AND climbs <= ? ORDER BY climbs, number LIMIT ?", now, most
        )

    def due_retries(self, now: float, most: int) -> list[Question]:
        """Questions with mail to send again."""
        return self._all("WHERE owed <= ? ORDER BY owed, number LIMIT ?", now, most)

    def forget(self, now: float, most: int) -> int:
        """Delete questions that ended long ago; return how many."""
        rows = self._db.rows("SELECT id FROM questions WHERE gone <= ? LIMIT ?", (now, most))
        self._db.run_each("DELETE FROM hops WHERE question = ?", rows)
        self._db.run_each("DELETE FROM questions WHERE id = ?", rows)
        return len(rows)

    @property
    def any(self) -> bool:
        """Whether there are open questions."""
        return self._db.value("SELECT 1 FROM questions WHERE ended IS NULL LIMIT 1") is not None

    @property
    def checked_commit(self) -> str:
        """The commit of the tree at the last check of the open questions."""
        return self._db.value("SELECT value FROM meta WHERE key = ?", (_SEEN,)) or ""

    def mark_checked(self, commit: str) -> None:
        self._db.run("INSERT OR REPLACE INTO meta VALUES (?, ?)", (_SEEN, commit))

    def _add_hop(self, id_: str, hop: Hop) -> None:
        self._db.run(
            "INSERT INTO hops (question, step, holder, at, by, why)"
            " SELECT ?1, COUNT(*), ?2, ?3, ?4, ?5 FROM hops WHERE question = ?1",
            (id_, hop.holder, hop.at, hop.by, hop.why.value),
        )

    def _all(self, where: str, *values: object) -> list[Question]:
        sql = f"SELECT {_COLUMNS} FROM questions {where}"  # noqa: S608 - our own words
        return [_question(row) for row in self._db.rows(sql, values)]


def _json(value: Sequence[object]) -> str:
    return json.dumps(value, ensure_ascii=False)
