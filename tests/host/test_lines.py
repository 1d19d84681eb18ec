"""The events as JSON lines: nothing lost, nothing doubled, bounded (row K29)."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import stat
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hive_core.host.storage.event_files import NAME, EventFiles
from hive_core.host.storage.event_log import TROUBLE, EventLog
from hive_core.ledger.audit.events import AuditEntry
from hive_core.ledger.core.ledger import Ledger
from hive_core.model.agents.hive import Hive
from hive_core.model.config.limits import LogSettings

BIG = LogSettings(rotate=1 << 30, age=1e9, total=1 << 40)


def text(number: int) -> tuple[int, bytes, str]:
    body = {"kind": "x", "time": float(number)}
    return number, bytes(32), json.dumps(body, separators=(",", ":"))


def numbers(folder: Path) -> list[int]:
    """Of all files, the oldest first."""
    files = [*sorted(folder.glob("events-*.jsonl")), folder / NAME]
    rows = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    return [row["seq"] for row in rows if "seq" in row]


def test_lines_are_for_the_daemon_and_its_group(tmp_path: Path) -> None:
    lines = EventFiles(tmp_path / "events", BIG)
    assert lines.open() == 0
    lines.append([text(1)])
    lines.close()
    assert stat.S_IMODE((tmp_path / "events").stat().st_mode) == 0o750
    assert stat.S_IMODE((tmp_path / "events" / NAME).stat().st_mode) == 0o640


@given(st.lists(st.integers(1, 5), max_size=5), st.integers(0, 200), st.binary(max_size=40))
@example([1], 1, b"}\n")  # it looks like a whole line at both ends
def test_after_a_crash_the_torn_end_is_cut_off_and_the_rest_stays(
    sizes: list[int], cut: int, rubbish: bytes
) -> None:
    """For any bytes that a crash or a power cut leaves, the unbroken sequence is kept."""
    folder = Path(os.path.realpath("/dev/shm")) / f"hive-lines-{os.getpid()}"
    try:
        written = 0
        lines = EventFiles(folder, BIG)
        lines.open()
        for size in sizes:
            lines.append([text(number) for number in range(written + 1, written + size + 1)])
            written += size
        lines.close()
        place = folder / NAME
        remaining = place.read_bytes()[: max(0, place.stat().st_size - cut)]
        place.write_bytes(remaining + (b"\xff" + rubbish if rubbish else b""))
        again = EventFiles(folder, BIG)
        at = again.open()
        assert at == len(remaining.splitlines(keepends=True)) - (
            0 if remaining.endswith(b"\n") or not remaining else 1
        )
        again.append([text(at + 1)])
        again.close()
        assert numbers(folder) == list(range(1, at + 2))
    finally:
        for number in folder.glob("*"):
            number.unlink()
        folder.rmdir()


def test_files_are_rotated_by_size_and_the_oldest_go(tmp_path: Path) -> None:
    folder = tmp_path / "events"
    lines = EventFiles(folder, LogSettings(rotate=4096, age=1e9, total=20_000))
    lines.open()
    for number in range(1, 1001):
        lines.append([text(number)])
    assert sum(path.stat().st_size for path in folder.iterdir()) < 20_000 + 4096
    remaining = numbers(folder)
    assert remaining == list(range(remaining[0], 1001))
    assert remaining[0] > 1
    lines.close()
    again = EventFiles(folder, LogSettings(rotate=4096, age=1e9, total=20_000))
    assert again.open() == 1000


def test_a_file_covers_a_time_at_most(tmp_path: Path) -> None:
    lines = EventFiles(tmp_path, LogSettings(rotate=1 << 30, age=60, total=1 << 40))
    lines.open()
    for number in (1, 30, 60, 61, 100, 121):
        lines.append([text(number)])
    assert [path.name for path in sorted(tmp_path.glob("events-*"))] == [
        "events-000000000001.jsonl", "events-000000000061.jsonl",
    ]  # fmt: skip


def test_a_full_rotated_set_is_gone_on_from_when_the_current_file_is_empty(tmp_path: Path) -> None:
    lines = EventFiles(tmp_path, BIG)
    lines.open()
    lines.append([text(1), text(2)])
    lines.rotate()
    lines.close()
    again = EventFiles(tmp_path, BIG)
    assert again.open() == 2


def test_a_disk_that_is_full_leaves_whole_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = EventFiles(tmp_path, BIG)
    lines.open()
    lines.append([text(1)])
    write = os.write

    def full(file: int, data: bytes) -> int:
        if len(data) > 10:
            return write(file, data[:10])
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match="full"):
        lines.append([text(2)])
    monkeypatch.undo()
    lines.append([text(2)])
    assert numbers(tmp_path) == [1, 2]


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    made = Ledger.open(tmp_path / "hive.db", primed=0)
    yield made
    made.close()


def note(ledger: Ledger, count: int, reason: str = "") -> None:
    with ledger.transaction():
        for _ in range(count):
            ledger.events.append(AuditEntry("x", "a", "b", "", None, "", reason, "", "", 1.0))


def follow(
    ledger: Ledger, folder: Path, until: Callable[[], bool], troubles: dict[str, str] | None = None
) -> None:
    """Copy until something holds."""

    async def work() -> None:
        lines = EventFiles(folder, BIG)
        alarms = {} if troubles is None else troubles
        copy = EventLog(ledger.events, lines, Hive, alarms, "none", again=0.01)
        task = asyncio.create_task(copy.run())
        async with asyncio.timeout(20):
            while not until():
                copy.on_topics(frozenset({"events"}))
                await asyncio.sleep(0.005)
        copy.close()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(work())


def is_copied(folder: Path, last: int) -> Callable[[], bool]:
    def holds() -> bool:
        place = folder / NAME
        return place.exists() and place.read_text().count("\n") >= last

    return holds


def test_every_event_is_copied_once_over_restarts(ledger: Ledger, tmp_path: Path) -> None:
    folder = tmp_path / "events"
    for total in (700, 701, 2000):
        note(ledger, total - ledger.events.last)
        follow(ledger, folder, is_copied(folder, total))
    assert numbers(folder) == list(range(1, 2001))
    before = bytes(32)
    for line in (folder / NAME).read_text().splitlines():
        row = json.loads(line)
        covered = "{" + line.split(f'"{row["digest"]}",', 1)[1]
        before = sha256(before + covered.encode()).digest()
        assert row["digest"] == before.hex()  # whoever has the file can follow the chain


def test_what_was_pruned_before_it_was_copied_is_told_as_a_gap(
    ledger: Ledger, tmp_path: Path
) -> None:
    folder = tmp_path / "events"
    note(ledger, 5)
    follow(ledger, folder, is_copied(folder, 5))
    note(ledger, 20)
    with ledger.transaction():
        ledger.events.prune(21)
    follow(ledger, folder, is_copied(folder, 11))
    rows = [json.loads(line) for line in (folder / NAME).read_text().splitlines()]
    assert rows[5] == {"gap": {"from": 6, "to": 20}}
    assert [row["seq"] for row in rows[6:]] == [21, 22, 23, 24, 25]
    assert EventFiles(folder, BIG).open() == 25


def test_a_folder_that_cannot_be_is_an_alarm_and_is_tried_again(
    ledger: Ledger, tmp_path: Path
) -> None:
    folder, troubles = tmp_path / "events", dict[str, str]()
    folder.write_text("in the way")
    note(ledger, 3)
    follow(ledger, folder, lambda: TROUBLE in troubles, troubles)
    folder.unlink()
    copied = is_copied(folder, 3)
    follow(ledger, folder, lambda: copied() and not troubles, troubles)
    assert troubles == {}
