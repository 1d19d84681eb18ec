"""Durable sends in the ledger alone, against bare inserts into SQLite with the same settings.

Both on disk (/var/tmp), one COMMIT with its fsync for each batch, batches one after the other.
"""

import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from hive_core.ledger.core.ledger import Ledger
from hive_core.ledger.mail.letters import NewMessage
from hive_core.model.wire.record import Relation

SECONDS = 2.0
SENDERS = 100
BODY = "How is the build? " * 6


def run() -> list[dict[str, object]]:
    rows = []
    for name, batch in (
        ("send, one for each COMMIT", 1),
        ("send, batches of 10", 10),
        ("send, 100 senders in one batch", SENDERS),
    ):
        with TemporaryDirectory(dir="/var/tmp") as folder:
            value = _rate(_ledger(Path(folder)), batch)
            peer = _rate(_bare(Path(folder)), batch)
        rows.append({
            "name": name, "value": value, "unit": "sends/s", "peer": "bare inserts in SQLite",
            "peer_value": peer, "ratio": value / peer,
        })  # fmt: skip
    return rows


def _rate(one_batch: Callable[[int], None], batch: int) -> float:
    done, start = 0, time.perf_counter()
    while (spent := time.perf_counter() - start) < SECONDS:
        one_batch(batch)
        done += batch
    return done / spent


def _ledger(folder: Path) -> Callable[[int], None]:
    """Sends, and the recipients read as fast, or the boxes would be full."""
    ledger = Ledger.open(folder / "hive.db")
    state = {"sent": 0}

    def one_batch(batch: int) -> None:
        now = time.time()
        with ledger.transaction():
            for _ in range(batch):
                number = state["sent"] = state["sent"] + 1
                sender, recipient = f"s{number % SENDERS}", f"r{number % SENDERS}"
                ledger.messages.send(
                    NewMessage(sender, sender, recipient, recipient, Relation.CHILD, BODY), now
                )
        if state["sent"] % (SENDERS * 500) < batch:
            _drain(ledger, now)

    return one_batch


def _drain(ledger: Ledger, now: float) -> None:
    with ledger.transaction():
        for number in range(SENDERS):
            recipient = f"r{number}"
            while values := ledger.messages.lease(recipient, 1000, 60, now):
                ledger.messages.ack(recipient, [item.id for item in values])


def _bare(folder: Path) -> Callable[[int], None]:
    db = sqlite3.connect(folder / "bare.db", isolation_level=None)
    for setting in ("locking_mode=EXCLUSIVE", "journal_mode=WAL", "synchronous=FULL"):
        db.execute(f"PRAGMA {setting}")
    db.execute("CREATE TABLE mail (id INTEGER PRIMARY KEY, sender INT, recipient INT, body TEXT)")
    state = {"sent": 0}

    def one_batch(batch: int) -> None:
        db.execute("BEGIN IMMEDIATE")
        for _ in range(batch):
            number = state["sent"] = state["sent"] + 1
            db.execute(
                "INSERT INTO mail (sender, recipient, body) VALUES (?, ?, ?)",
                (number % SENDERS, number % SENDERS, BODY),
            )
        db.execute("COMMIT")

    return one_batch
