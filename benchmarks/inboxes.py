"""What a message costs when its box holds 10, 1,000 or 100,000 others: sent, given out, acked.

The ledger alone, on memory: the disk costs the same whatever the box holds. A part of what waits is
given out and a part is acked, as in a box that is in use. Then the same with mail of all four
priorities from fifty senders in a box that is more than half full, where a send asks who fills it;
and a page of a listing.
"""

import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.report.rows import Row, with_aim
from hive_core.ledger.core.ledger import Ledger
from hive_core.ledger.mail.letters import NewMessage
from hive_core.model.config.settings import HostLimits
from hive_core.model.wire.record import Message, Relation

LENGTHS = (10, 1_000, 100_000)
BATCH, ROUNDS = 10, 60
BODY = "How is the build? " * 6
WIDE = HostLimits(inbox_count=10**7, inbox_bytes=10**12)
SENDERS, PAGE = 50, 10


def run() -> list[Row]:
    rows: list[Row] = []
    for crowded in (False, True):
        spent = {length: _measure(length, crowded=crowded) for length in LENGTHS}
        rows += [
            _row(name, length, spent[length][name], spent[LENGTHS[0]][name])
            for name in spent[LENGTHS[0]]
            for length in LENGTHS
        ]
    return rows


def _row(name: str, length: int, value: float, shortest: float) -> Row:
    row: Row = {
        "name": f"{name} at {length:,} in the box", "value": value,
        "unit": "us a page" if name.startswith("a page") else "us a message",
        "plot": "inbox", "line": name, "x": length, "x_unit": "messages in the box",
    }  # fmt: skip
    if length == LENGTHS[0]:
        return row
    beside = {"peer": f"at {LENGTHS[0]} in the box", "peer_value": shortest}
    return with_aim({**row, **beside}, "flat: at most twice", ratio_at_most=2)


def _measure(length: int, *, crowded: bool) -> dict[str, float]:
    """Microseconds a message; the box is as long after each round as before it."""
    full = HostLimits(inbox_count=length + length // 2 + BATCH, inbox_bytes=10**12)
    with TemporaryDirectory(dir="/dev/shm") as folder:
        ledger = Ledger.open(Path(folder) / "hive.db", limits=full if crowded else WIDE)
        _fill(ledger, length, crowded=crowded)
        spent: dict[str, list[float]] = {}
        values: list[Message] = []
        for _ in range(ROUNDS):
            for name, work in (
                _shared_inbox_steps(ledger, values) if crowded else _steps(ledger, values)
            ):
                start = time.process_time()
                with ledger.transaction():
                    work()
                spent.setdefault(name, []).append(time.process_time() - start)
        ledger.close()
    # The best third: what disturbs a round can only slow it.
    return {
        name: sum(sorted(item)[: ROUNDS // 3]) / (ROUNDS // 3) * 1e6
        / (1 if name.startswith("a page") else BATCH)
        for name, item in spent.items()
    }  # fmt: skip


Steps = list[tuple[str, Callable[[], object]]]


def _steps(ledger: Ledger, values: list[Message]) -> Steps:
    now, mail = time.time(), ledger.messages

    def lease() -> None:
        values[:] = mail.lease("bob", BATCH, 60, now)

    return [
        ("send", lambda: _send(ledger, BATCH)),
        ("recv", lease),
        ("ack", lambda: mail.ack("bob", [item.id for item in values])),
    ]


def _shared_inbox_steps(ledger: Ledger, values: list[Message]) -> Steps:
    """The same where it is looked at who fills the box, as a `send` of an agent does."""
    mail = ledger.messages

    def send() -> None:
        for _ in range(BATCH):
            mail.bytes_by_sender("bob")
            _send(ledger, 1, crowded=True)

    steps = [(name, work) for name, work in _steps(ledger, values) if name != "send"]
    words = "four priorities, half full: "
    page = lambda: mail.inbox("bob", dead=False, limit=PAGE)  # noqa: E731
    return [
        (f"{words}send", send),
        *((words + name, work) for name, work in steps),
        (f"a page of {PAGE}", page),
    ]


def _send(ledger: Ledger, count: int, *, crowded: bool = False) -> None:
    now = time.time()
    for number in range(count):
        who = f"s{int(now * 1e6) % SENDERS}" if crowded else "anna"
        rank = (int(now * 1e6) + number) % 4 if crowded else 2
        new = NewMessage(who, who, "bob", "bob", Relation.CHILD, BODY, priority=rank)
        ledger.messages.send(new, now)


def _fill(ledger: Ledger, length: int, *, crowded: bool) -> None:
    """So many that wait, a fifth of them given out."""
    for _ in range(0, length, BATCH):
        with ledger.transaction():
            _send(ledger, BATCH, crowded=crowded)
    left = length // 5
    while left > 0:
        with ledger.transaction():
            left -= len(ledger.messages.lease("bob", left, 3600, time.time()))
