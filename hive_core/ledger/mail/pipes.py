"""Pipes between a parent and its child: ordered chunks of text, both ways, durable.

With each read a reader confirms the chunks that it received. Only those are deleted, and the others
are returned again.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from hive_core.errors import Conflict
from hive_core.ledger.core.connection import Connection
from hive_core.model.work.queue import Pipe

_COLUMNS: Final = "number, id, parent, child, opened, closed"
_ROOM: Final = 160 << 10


class Chunk(NamedTuple):
    seq: int
    data: str


class Pipes:
    def __init__(self, connection: Connection) -> None:
        self._db = connection

    def open(self, id_: str, parent: str, child: str, now: float) -> None:
        sql = "INSERT INTO pipes (id, parent, child, opened) VALUES (?, ?, ?, ?)"
        self._db.run(sql, (id_, parent, child, now))

    def get(self, id_: str) -> Pipe | None:
        row = self._db.row(f"SELECT {_COLUMNS} FROM pipes WHERE id = ?", (id_,))  # noqa: S608
        return None if row is None else Pipe(*row)

    def of(self, party: str) -> list[Pipe]:
        """Pipes of which this agent has an end, the oldest first."""
        rows = self._db.rows(
            f"SELECT {_COLUMNS} FROM pipes WHERE parent = ?1"  # noqa: S608
            f" UNION SELECT {_COLUMNS} FROM pipes WHERE child = ?1 ORDER BY number",
            (party,),
        )
        return [Pipe(*row) for row in rows]

    def count(self, parent: str) -> int:
        """The number of pipes of a parent that are open, or closed and not empty."""
        return int(self._db.value("SELECT COUNT(*) FROM pipes WHERE parent = ?", (parent,)))

    def count_unread(self, pipe: Pipe, reader: str) -> int:
        sql = "SELECT COUNT(*) FROM chunks WHERE pipe = ? AND reader = ?"
        return int(self._db.value(sql, (pipe.number, reader)))

    def write(self, pipe: Pipe, reader: str, data: str) -> int:
        """Append a chunk; return its number, under which the reader gets it."""
        if pipe.closed:
            raise Conflict(f"the pipe {pipe.id} is closed")
        end = "to_parent" if reader == pipe.parent else "to_child"
        seq = int(
            self._db.value(
                f"UPDATE pipes SET {end} = {end} + 1 WHERE number = ? RETURNING {end}",  # noqa: S608
                (pipe.number,),
            )
        )
        values = (pipe.number, reader, seq, data)
        self._db.run("INSERT INTO chunks VALUES (?, ?, ?, ?)", values)
        return seq

    def read(self, pipe: Pipe, reader: str, after: int, most: int) -> list[Chunk]:
        """The chunks after `after`, as many as fit into one answer. Earlier ones are deleted."""
        self._db.run(
            "DELETE FROM chunks WHERE pipe = ? AND reader = ? AND seq <= ?",
            (pipe.number, reader, after),
        )
        rows = self._db.rows(
            "SELECT seq, data FROM chunks WHERE pipe = ? AND reader = ? ORDER BY seq LIMIT ?",
            (pipe.number, reader, most),
        )
        chunks: list[Chunk] = []
        room = _ROOM
        for seq, data in rows:
            room -= len(data.encode())
            if chunks and room < 0:
                break
            chunks.append(Chunk(seq, data))
        return chunks

    def close(self, pipe: Pipe, party: str) -> None:
        """Close a pipe for writing. The other end can read the remaining chunks."""
        if not pipe.closed:
            self._db.run("UPDATE pipes SET closed = ? WHERE number = ?", (party, pipe.number))
        self._db.run("DELETE FROM chunks WHERE pipe = ? AND reader = ?", (pipe.number, party))
        self.drop_if_read(pipe)

    def drop_if_read(self, pipe: Pipe) -> None:
        """Delete a closed pipe without chunks."""
        self._db.run(
            "DELETE FROM pipes WHERE number = ?1 AND closed <> ''"
            " AND NOT EXISTS (SELECT 1 FROM chunks WHERE pipe = ?1)",
            (pipe.number,),
        )

    def close_all_of(self, party: str) -> None:
        """Close all pipes of a destroyed agent."""
        for pipe in self.of(party):
            self.close(pipe, party)
