"""The bytes of the ledger that each party uses, by noun.

Temporary triggers keep them in a temporary table. It is in memory, is rolled back with its
transaction, and follows every change of the tables. A start counts them again.

Mail is charged to its sender until it is acked or dead; after that, the limit of its inbox applies.
New mail is counted in addition to the table (`add_mail`), because a trigger costs more than all
else that a send writes. Items that can be deleted once they have ended count as history.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from functools import cache
from typing import Final, NamedTuple

from hive_core.ledger.core.connection import Connection

# Bytes of a row in addition to its texts.
_AROUND: Final = 200
_MAIL_NOUN: Final = "mail"
HISTORY: Final = frozenset({
    "old tasks", "old questions", "batches", "plans", "waits", "keys", "jobs", "usage", "turns",
    "judgements",
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
    SizedTable("turns", "{row}.agent", "'turns'", ("system", "input", "text", "error")),
    SizedTable("judgements", "{row}.agent", "'judgements'", ("feedback",)),
    SizedTable("delivered_results", "{row}.agent", "'tasks'", ("result",)),
    SizedTable("keys", "{row}.caller", "'keys'", ("key", "result")),
    SizedTable(
        "jobs", "{row}.caller", "'jobs'", ("goals", "progress", "error"), ("progress", "error")
    ),
)  # fmt: skip
_MAIL_TRIGGERS: Final = (
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
# New mail is not in the table before `tidy`, so there may be no row to take from.
_TAKE_MAIL: Final = _ADD.format(party="{party}", noun="'mail'", size=f"-(OLD.size + {_AROUND})")
_ADD_ROW: Final = (
    "INSERT INTO temp.stored VALUES (?, ?, ?)"
    " ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes"
)
_TAKE: Final = "UPDATE stored SET bytes = bytes - {size} WHERE party = {party} AND noun = {noun}"


class StorageUse:
    def __init__(self, connection: Connection) -> None:
        self._db = connection
        self._undo = connection.undo
        # Bytes of new mail by sender that are not in the table yet.
        self._new_mail = defaultdict[str, int](int)

    def start(self) -> None:
        """Count everything once. Called when the mail tables exist."""
        if self._db.control("PRAGMA temp.table_info(stored)"):
            self._db.run("DELETE FROM temp.stored")
        else:
            self._create_triggers()
        # After the triggers: each of them makes SQLite prepare the queries before it again.
        rows = [(*key, size) for key, size in self.recount().items()]
        self._db.run_each("INSERT INTO stored VALUES (?, ?, ?)", rows)

    def _create_triggers(self) -> None:
        """Create the table of the counts, and the triggers, for the life of the connection."""
        self._db.control(
            "CREATE TEMP TABLE stored (party TEXT, noun TEXT, bytes INTEGER NOT NULL,"
            " PRIMARY KEY (party, noun)) STRICT, WITHOUT ROWID"
        )
        for table in TABLES:
            for sql in _triggers(table):
                self._db.control(sql)
        wrote = (
            "(SELECT p.party FROM messages m CROSS JOIN parties p ON p.id = m.sender"
            " WHERE m.id = OLD.id)"
        )
        for sql in _MAIL_TRIGGERS:
            self._db.control(sql.format(take=_TAKE_MAIL.format(party=wrote)))

    def add_mail(self, sender: str, size: int) -> None:
        """Count a message that comes into the ledger."""
        self._new_mail[sender] += size + _AROUND
        self._undo.steps.append((self._remove_mail, (sender, size)))

    def _remove_mail(self, sender: str, size: int) -> None:
        self._new_mail[sender] -= size + _AROUND

    def recount(self) -> dict[tuple[str, str], int]:
        """Count the tables again: bytes by party and noun."""
        sizes = Counter[tuple[str, str]]()
        for sql in (_LIVE_MAIL.format(around=_AROUND), *map(_whole, TABLES)):
            for party, noun, size in self._db.rows(sql):
                sizes[party, noun] += size
        return dict(sizes)

    def recorded_sizes(self) -> dict[tuple[str, str], int]:
        """The bytes recorded by the triggers and by `add_mail`."""
        rows = self._db.rows("SELECT party, noun, bytes FROM temp.stored")
        sizes = Counter({(party, noun): size for party, noun, size in rows})
        for party, size in self._new_mail.items():
            sizes[party, _MAIL_NOUN] += size
        return {key: size for key, size in sizes.items() if size}

    def of(self, party: str) -> dict[str, int]:
        """The bytes of a party, by noun."""
        rows = self._db.rows("SELECT noun, bytes FROM temp.stored WHERE party = ?", (party,))
        sizes: dict[str, int] = dict(rows)
        sizes[_MAIL_NOUN] = sizes.get(_MAIL_NOUN, 0) + self._new_mail.get(party, 0)
        return {noun: size for noun, size in sizes.items() if size > 0}

    def sums_of(self, party: str) -> tuple[int, int]:
        """The bytes of a party: of its open rows and its mail, and of its history."""
        # One loop: each of many calls pays for a part of it.
        live, past = self._new_mail.get(party, 0), 0
        rows = self._db.rows("SELECT noun, bytes FROM temp.stored WHERE party = ?", (party,))
        for noun, size in rows:
            if noun in HISTORY:
                past += size
            else:
                live += size
        return live, past

    def all(self) -> dict[str, int]:
        """Bytes of each party."""
        sizes = Counter(self._new_mail)
        rows = self._db.rows("SELECT party, SUM(bytes) FROM temp.stored GROUP BY party")
        sizes.update(dict(rows))
        return dict(sizes)

    def tidy(self) -> None:
        """Write the bytes of new mail down; delete the rows of parties without bytes."""
        rows = [(party, _MAIL_NOUN, size) for party, size in self._new_mail.items()]
        self._undo.note(self._new_mail.update, dict(self._new_mail))
        self._new_mail.clear()
        self._db.run_each(_ADD_ROW, rows)
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
