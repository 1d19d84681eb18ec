"""What a message costs when its box holds 10, 1,000 or 100,000 others: sent, given out, acked.

The ledger alone, on memory: the disk costs the same whatever the box holds. A part of what waits is
given out and a part is acked, as in a box that is in use.
"""

import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.report.rows import Row, aimed
from hive_core.ledger.letters import NewMessage
from hive_core.ledger.store import Ledger
from hive_core.model.record import Message, Relation
from hive_core.model.settings import Bounds

LENGTHS = (10, 1_000, 100_000)
BATCH, ROUNDS = 10, 60
BODY = "How is the build? " * 6
WIDE = Bounds(inbox_count=10**7, inbox_bytes=10**12)


def run() -> list[Row]:
    spent = {length: _measure(length) for length in LENGTHS}
    return [
        _row(name, length, spent[length][name], spent[LENGTHS[0]][name])
        for name in spent[LENGTHS[0]]
        for length in LENGTHS
    ]


def _row(name: str, length: int, value: float, shortest: float) -> Row:
    row: Row = {
        "name": f"{name} at {length:,} in the box", "value": value, "unit": "us a message",
        "plot": "inbox", "line": name, "x": length, "x_unit": "messages in the box",
    }  # fmt: skip
    if length == LENGTHS[0]:
        return row
    beside = {"peer": f"at {LENGTHS[0]} in the box", "peer_value": shortest}
    return aimed({**row, **beside}, "flat: at most twice", ratio_at_most=2)


def _measure(length: int) -> dict[str, float]:
    """Microseconds a message; the box is as long after each round as before it."""
    with TemporaryDirectory(dir="/dev/shm") as folder:
        ledger = Ledger.open(Path(folder) / "hive.db", limits=WIDE)
        _fill(ledger, length)
        spent: dict[str, list[float]] = {}
        given: list[Message] = []
        for _ in range(ROUNDS):
            for name, work in _steps(ledger, given):
                start = time.process_time()
                with ledger.transaction():
                    work()
                spent.setdefault(name, []).append(time.process_time() - start)
        ledger.close()
    # The best third: what disturbs a round can only slow it.
    return {
        name: sum(sorted(each)[: ROUNDS // 3]) / (ROUNDS // 3) / BATCH * 1e6
        for name, each in spent.items()
    }


def _steps(ledger: Ledger, given: list[Message]) -> list[tuple[str, Callable[[], object]]]:
    now, mail = time.time(), ledger.messages

    def lease() -> None:
        given[:] = mail.lease("bob", BATCH, 60, now)

    return [
        ("send", lambda: _send(ledger, BATCH)),
        ("recv", lease),
        ("ack", lambda: mail.ack("bob", [each.id for each in given])),
    ]


def _send(ledger: Ledger, count: int) -> None:
    now = time.time()
    for _ in range(count):
        ledger.messages.send(NewMessage("anna", "anna", "bob", "bob", Relation.CHILD, BODY), now)


def _fill(ledger: Ledger, length: int) -> None:
    """So many that wait, a fifth of them given out."""
    for _ in range(0, length, BATCH):
        with ledger.transaction():
            _send(ledger, BATCH)
    left = length // 5
    while left > 0:
        with ledger.transaction():
            left -= len(ledger.messages.lease("bob", left, 3600, time.time()))
