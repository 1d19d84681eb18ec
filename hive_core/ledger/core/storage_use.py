"""The bytes of the ledger that each party uses, by noun.

Temporary triggers keep them in a temporary table. It is in memory, is rolled back with its
transaction, and follows every change of the tables. A start counts them again.

Mail is charged to its sender until it is acked or dead; after that, the limit of its inbox applies.
Items that can be deleted once they have ended count as history.
"""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import Final, NamedTuple

from hive_core.ledger.core.connection import Connection

# Bytes of a row in addition to its texts.
_AROUND: Final = 200
HISTORY: Final = frozenset({
    "old tasks", "old questions", "batches", "plans", "waits", "keys", "jobs", "usage",
})  # fmt: skip


class SizedTable(NamedTuple):
    """How rows of a table are charged: the party, the noun, and the texts that make the size.

    `{row}` stands for NEW, OLD or the name of the table. `changes`: columns that change the size.
    """

    table: str
    party: str
    noun: str
    texts: tuple[str, ...]
    changes: tuple[str, ...] = ()


_BATCH_OWNER: Final = "(SELECT owner FROM batches WHERE id = {row}.batch)"
_WRITER: Final = (
    "(SELECT CASE WHEN {row}.reader = parent THEN child ELSE parent END FROM pipes"
    " WHERE number = {row}.pipe)"
)
TABLES: Final = (
    SizedTable(
        "tasks", "{row}.assigner",
        "CASE WHEN {row}.ended IS NULL THEN 'tasks' ELSE 'old tasks' END",
        ("wish", "result", "progress", "why"),
        ("assigner", "ended", "wish", "result", "progress", "why"),
    ),
    SizedTable(
        "questions", "{row}.asker",
        "CASE WHEN {row}.ended IS NULL THEN 'questions' ELSE 'old questions' END",
        ("items", "context", "answers", "reason"),
        ("asker", "ended", "context", "answers", "reason"),
    ),
    SizedTable("batches", "{row}.owner", "'batches'", ("title", "template", "reason"), ("reason",)),
    SizedTable("batch_items", _BATCH_OWNER, "'batches'", ("title", "body", "reason"), ("reason",)),
    SizedTable("plans", "{row}.agent", "'plans'", ("note", "reason"), ("reason",)),
    SizedTable(
        "plan_steps", "(SELECT agent FROM plans WHERE id = {row}.plan)", "'plans'",
        ("title", "detail", "tools", "note"), ("note",),
    ),
    SizedTable("waits", "{row}.agent", "'waits'", ("reason",), ("reason",)),
    SizedTable("awaited", "(SELECT agent FROM waits WHERE id = {row}.wait)", "'waits'", ("thing",)),
    SizedTable("reminders", "{row}.setter", "'reminders'", ("body",)),
    SizedTable("triggers", "{row}.owner", "'triggers'", ("rule", "action"), ("rule", "action")),
    SizedTable("things", "{row}.sender", "'queues'", ("body",)),
    SizedTable("chunks", _WRITER, "'pipes'", ("data",)),
    SizedTable("task_usage", "{row}.agent", "'usage'", ("task", "kind", "source"), ("agent",)),
    SizedTable("keys", "{row}.caller", "'keys'", ("key", "result")),
    SizedTable(
        "jobs", "{row}.caller", "'jobs'", ("goals", "progress", "error"), ("progress", "error")
    ),
)  # fmt: skip
_MAIL: Final = (
    "CREATE TEMP TRIGGER mail_came AFTER INSERT ON main.messages BEGIN {add}; END",
    "CREATE TEMP TRIGGER mail_over AFTER UPDATE OF state ON main.queue"
    " WHEN OLD.state < 3 AND NEW.state >= 3 BEGIN {take}; END",
    "CREATE TEMP TRIGGER mail_gone AFTER DELETE ON main.queue WHEN OLD.state < 3 BEGIN {take}; END",
)
_LIVE_MAIL: Final = (
    "SELECT p.party, 'mail', SUM(q.size + {around}) FROM queue q"
    " CROSS JOIN messages m ON m.id = q.id CROSS JOIN parties p ON p.id = m.sender"
    " WHERE q.state < 3 GROUP BY m.sender"
)
_ADD: Final = (
    "INSERT INTO stored SELECT {party}, {noun}, {size} WHERE {party} IS NOT NULL"
    " ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes"
)
_TAKE: Final = "UPDATE stored SET bytes = bytes - {size} WHERE party = {party} AND noun = {noun}"


class StorageUse:
    def __init__(self, connection: Connection) -> None:
        self._db = connection

    def start(self) -> None:
        """Count everything once, and create the triggers. Called when the mail tables exist."""
        self._db.control(
            "CREATE TEMP TABLE stored (party TEXT, noun TEXT, bytes INTEGER NOT NULL,"
            " PRIMARY KEY (party, noun)) STRICT, WITHOUT ROWID"
        )
        rows = [(*key, size) for key, size in self.recount().items()]
        self._db.run_each("INSERT INTO stored VALUES (?, ?, ?)", rows)
        for table in TABLES:
            for sql in _triggers(table):
                self._db.control(sql)
        sender = "(SELECT party FROM parties WHERE id = NEW.sender)"
        size = f"length(CAST(NEW.body AS BLOB)) + {_AROUND}"
        wrote = (
            "(SELECT p.party FROM messages m CROSS JOIN parties p ON p.id = m.sender"
            " WHERE m.id = OLD.id)"
        )
        for sql in _MAIL:
            self._db.control(sql.format(
                add=_ADD.format(party=sender, noun="'mail'", size=size),
                take=_TAKE.format(party=wrote, noun="'mail'", size=f"(OLD.size + {_AROUND})"),
            ))  # fmt: skip

    def recount(self) -> dict[tuple[str, str], int]:
        """Count the tables again: bytes by party and noun."""
        sizes = Counter[tuple[str, str]]()
        for sql in (_LIVE_MAIL.format(around=_AROUND), *map(_whole, TABLES)):
            for party, noun, size in self._db.rows(sql):
                sizes[party, noun] += size
        return dict(sizes)

    def recorded_sizes(self) -> dict[tuple[str, str], int]:
        """The bytes recorded by the triggers."""
        rows = self._db.rows("SELECT party, noun, bytes FROM temp.stored WHERE bytes <> 0")
        return {(party, noun): size for party, noun, size in rows}

    def of(self, party: str) -> dict[str, int]:
        """The bytes of a party, by noun."""
        sql = "SELECT noun, bytes FROM temp.stored WHERE party = ? AND bytes > 0"
        return dict(self._db.rows(sql, (party,)))

    def all(self) -> dict[str, int]:
        """Bytes of each party."""
        return dict(self._db.rows("SELECT party, SUM(bytes) FROM temp.stored GROUP BY party"))

    def tidy(self) -> None:
        """Delete the rows of parties without bytes."""
        self._db.run("DELETE FROM temp.stored WHERE bytes = 0")

    def bytes_in_use(self) -> int:
        """Used bytes of the file. Freed pages are used again."""
        pages = self._db.value("PRAGMA page_count") - self._db.value("PRAGMA freelist_count")
        return int(pages * self._db.value("PRAGMA page_size"))


def _size(table: SizedTable, row: str) -> str:
    texts = (f"COALESCE(length(CAST({row}.{text} AS BLOB)), 0)" for text in table.texts)
    return f"({' + '.join(texts)} + {_AROUND})"


def _words(table: SizedTable, row: str) -> dict[str, str]:
    return {
        "party": table.party.format(row=row), "noun": table.noun.format(row=row),
        "size": _size(table, row),
    }  # fmt: skip


@cache
def _whole(table: SizedTable) -> str:
    words = _words(table, table.table)
    return (
        f"SELECT {words['party']} AS party, {words['noun']} AS noun, SUM({words['size']})"  # noqa: S608
        f" FROM {table.table} WHERE {words['party']} IS NOT NULL GROUP BY 1, 2"
    )


@cache
def _triggers(table: SizedTable) -> tuple[str, ...]:
    add, take = _ADD.format(**_words(table, "NEW")), _TAKE.format(**_words(table, "OLD"))
    events = (
        ("INSERT", add), ("DELETE", take),
        *((f"UPDATE OF {', '.join(table.changes)}", f"{take}; {add}") for _ in table.changes[:1]),
    )  # fmt: skip
    return tuple(
        f"CREATE TEMP TRIGGER {table.table}_{event.partition(' ')[0].lower()} AFTER {event}"
        f" ON main.{table.table} BEGIN {steps}; END"
        for event, steps in events
    )
