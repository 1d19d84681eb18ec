"""What an event costs: appended to the chain, followed by agents, replayed, copied to the file.

Beside SQLite's own insert of the same bytes without a chain, and beside the figure of HiveKernel,
which flushes each event into a file and has neither chain nor fsync (spec, 10.7 us; measured there,
on a machine of the same kind). A million events, on memory: the disk costs one fsync a batch of
calls, whatever stands in it.
"""

import sqlite3
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.report.rows import Row, with_aim
from hive_core.host.storage.event_files import EventFiles
from hive_core.ledger.audit.event_json import form
from hive_core.ledger.audit.events import AuditEntry
from hive_core.ledger.core.ledger import Ledger
from hive_core.model.config.limits import LogSettings
from hive_core.model.wire.masks import Masks
from hive_core.operations.audit.event_filter import EventFilter, scan_events

COUNT, BATCH, PAGE = 1_000_000, 500, 1000
FOLLOWERS = 50
THEIRS = 10.7
AGENT = "6f1f6a52-0000-4000-8000-000000000000"
ENTRY = AuditEntry(
    "record", AGENT, "send", AGENT, allowed=True, rule="parent", reason="its parent",
    commit="ab" * 20, request="0123456789ab-1f", now=1.7e9,
    fields={"caller_name": "lead", "target_name": "worker"},
)  # fmt: skip


def run() -> list[Row]:
    with TemporaryDirectory(dir="/dev/shm") as name:
        folder = Path(name)
        ledger = Ledger.open(folder / "hive.db")
        rows = [*_appends(ledger, folder), *_reads(ledger), *_copies(ledger, folder)]
        ledger.close()
    return rows


def _cpu_microseconds(work: Callable[[], object], count: int) -> float:
    """Microseconds of CPU each: on memory nothing else is waited for but who runs beside it."""
    start = time.process_time()
    work()
    return (time.process_time() - start) / count * 1e6


def _row(name: str, value: float, unit: str = "us an event") -> Row:
    return {"name": name, "value": round(value, 3), "unit": unit}


def _appends(ledger: Ledger, folder: Path) -> list[Row]:
    bare = _cpu_microseconds(lambda: _bare(folder / "bare.db"), COUNT)
    chained = _cpu_microseconds(lambda: _append(ledger, COUNT), COUNT)
    with_task = ENTRY._replace(fields={**ENTRY.fields, "task": "0123456789ab"})
    traced = _cpu_microseconds(lambda: _append(ledger, 20_000, with_task), 20_000)
    ledger.events.masks = _secrets(100)
    masked = _cpu_microseconds(lambda: _append(ledger, 20_000), 20_000)
    ledger.events.masks = Masks()
    first = {**_row("append a million, 500 a commit", chained), "peer_value": THEIRS,
             "peer": "HiveKernel: emit and flush, no chain, no fsync"}  # fmt: skip
    return [
        with_aim(first, "at most HiveKernel's", ratio_at_most=1),
        {**_row("the same beside SQLite's insert", chained), "peer": "sqlite3, no chain",
         "peer_value": bare},
        _row("append, of a task (with its trace)", traced),
        _row("append, with 100 secrets to look for", masked),
    ]  # fmt: skip


def _append(ledger: Ledger, count: int, entry: AuditEntry = ENTRY) -> None:
    for _ in range(count // BATCH):
        with ledger.transaction():
            for _ in range(BATCH):
                ledger.events.append(entry)


def _bare(path: Path) -> None:
    raw = sqlite3.connect(path, isolation_level=None)
    raw.execute("PRAGMA journal_mode = WAL")
    raw.execute("CREATE TABLE events (seq INTEGER PRIMARY KEY, digest BLOB, body TEXT)")
    body = form(ENTRY).json_for(ENTRY.request, ENTRY.now)
    for first in range(0, COUNT, BATCH):
        raw.execute("BEGIN IMMEDIATE")
        raw.executemany(
            "INSERT INTO events VALUES (?, ?, ?)",
            [(seq, bytes(32), body) for seq in range(first, first + BATCH)],
        )
        raw.execute("COMMIT")
    raw.close()


def _secrets(count: int) -> Masks:
    masks = Masks()
    for number in range(count):
        masks.add(f"secret-{number:04}-abcdefghijklmnop".encode())
    return masks


def _reads(ledger: Ledger) -> list[Row]:
    last = ledger.events.last
    replay = _cpu_microseconds(lambda: _replay(ledger, EventFilter()), last)
    nothing = EventFilter(parties=frozenset({"nobody"}))
    values = _cpu_microseconds(lambda: _tails(ledger, nothing), FOLLOWERS)
    verify = _cpu_microseconds(ledger.events.verify, last)
    return [
        _row(f"replay {last:,}, all of them", replay),
        _row("follow the chain (verify)", verify),
        _row("a follower that one new event does not concern", values, "us a follower"),
    ]


def _replay(ledger: Ledger, wanted: EventFilter) -> None:
    at, last = 0, ledger.events.last
    while at < last:
        part = scan_events(ledger.events, wanted, at, PAGE)
        deque(ledger.events.some([head.seq for head in part.hits]), maxlen=0)
        at = part.end


def _tails(ledger: Ledger, wanted: EventFilter) -> None:
    """What is done for each agent that follows, whenever something happens."""
    for _ in range(FOLLOWERS):
        scan_events(ledger.events, wanted, ledger.events.last - 1, 200)


def _copies(ledger: Ledger, folder: Path) -> list[Row]:
    lines = EventFiles(folder / "events", LogSettings(rotate=64 << 20, total=1 << 40))
    lines.open()
    copied = _cpu_microseconds(lambda: _copy(ledger, lines), ledger.events.last)
    lines.close()
    size = sum(path.stat().st_size for path in (folder / "events").iterdir())
    return [
        _row("copy to the JSON lines, read and written", copied),
        _row("a line", size / ledger.events.last, "bytes"),
    ]


def _copy(ledger: Ledger, lines: EventFiles) -> None:
    while rows := ledger.events.raw(lines.at, PAGE):
        lines.append(rows)
