"""The turns of sessions: the last ones of each agent, bounded in number and in bytes."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from hive_core.ledger.core.connection import Connection

TURNS_KEPT: Final = 200
BYTES_KEPT: Final = 4 << 20
# Bytes of a row beside its texts.
_AROUND: Final = 200
_AT_ONCE: Final = 256
CLOCK_SHIFT: Final[tuple[str, ...]] = ("UPDATE turns SET began = began + ?1, ended = ended + ?1",)
_COLUMNS: Final = (
    "number, agent, conversation, turn, status, task, began, ended, system, input, text, error, cut"
)


class SavedTurn(NamedTuple):
    """One turn. `system`: the system text, where it is new; `cut`: texts were shortened."""

    number: int
    agent: str
    conversation: str
    turn: int
    status: str
    task: str
    began: float | None
    ended: float
    system: str
    input: str
    text: str
    error: str
    cut: bool

    @property
    def size(self) -> int:
        texts = (self.system, self.input, self.text, self.error)
        return _AROUND + sum(len(text.encode()) for text in texts)


def _turn(row: tuple[Any, ...]) -> SavedTurn:
    return SavedTurn._make((*row[:-1], bool(row[-1])))


class TurnStore:
    def __init__(self, connection: Connection) -> None:
        self._db = connection

    def save(self, turn: SavedTurn) -> int:
        """Save a turn, in place of one of the same name; return its number."""
        self._db.run(
            "DELETE FROM turns WHERE agent = ? AND conversation = ? AND turn = ?",
            (turn.agent, turn.conversation, turn.turn),
        )
        number: int = self._db.value(
            "INSERT INTO turns (agent, conversation, turn, status, task, began, ended, system,"
            " input, text, error, cut, size) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
            " RETURNING number",
            (*turn[1:], turn.size),
        )
        self._shorten(turn.agent)
        return number

    def page(
        self, agent: str, before: int | None, most: int, conversation: str | None = None
    ) -> list[SavedTurn]:
        """Turns of an agent, the newest first."""
        rows = self._db.rows(
            f"SELECT {_COLUMNS} FROM turns WHERE agent = ?1"  # noqa: S608 - our own words
            " AND (?2 IS NULL OR number < ?2) AND (?3 IS NULL OR conversation = ?3)"
            " ORDER BY number DESC LIMIT ?4",
            (agent, before, conversation, most),
        )
        return [_turn(row) for row in rows]

    def delete_all_of(self, agent: str) -> None:
        """Delete the turns of a destroyed agent."""
        self._db.run("DELETE FROM turns WHERE agent = ?", (agent,))

    def bytes_of_all(self) -> int:
        size: int = self._db.value("SELECT COALESCE(SUM(size), 0) FROM turns")
        return size

    def prune(self, most: int) -> int:
        """Delete the oldest turns of all agents beyond these bytes, a limited number; how many."""
        if self.bytes_of_all() <= most:
            return 0
        return self._db.run(
            "DELETE FROM turns WHERE number IN (SELECT number FROM turns ORDER BY number LIMIT ?)",
            (_AT_ONCE,),
        )

    def _shorten(self, agent: str) -> None:
        """Delete the oldest turns of an agent beyond its bounds; the newest one stays."""
        left, newest = BYTES_KEPT, True
        sizes = self._db.rows(
            "SELECT number, size FROM turns WHERE agent = ? ORDER BY number DESC LIMIT ?",
            (agent, TURNS_KEPT + 1),
        )
        for at, (number, size) in enumerate(sizes):
            left -= size
            if not newest and (left < 0 or at >= TURNS_KEPT):
                sql = "DELETE FROM turns WHERE agent = ? AND number <= ?"
                self._db.run(sql, (agent, number))
                return
            newest = False
