"""The log on disk: what a crash leaves, what damage is, and what is never lost."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hive_core.agent.session.log import MAIN, ConversationLog, conversations, segments
from hive_core.agent.session.records import (
    RECORD_MOST,
    Record,
    decode_record,
    encode_record,
    read_records,
)
from hive_core.errors import Busy, Internal

SYSTEM: Record = {"t": "system", "text": "You are bob.\nBe brief. é"}
HELLO: Record = {"t": "input", "turn": 1, "id": "m1", "text": "hello"}
TEXTS = st.text(max_size=30)
RECORDS = st.builds(lambda text: {"t": "system", "text": text}, TEXTS)


@given(st.lists(RECORDS, max_size=6), st.data())
def test_a_log_that_is_cut_anywhere_keeps_its_whole_records(
    rows: list[Record], data: st.DataObject
) -> None:
    lines = [encode_record(row) for row in rows]
    whole = b"".join(lines)
    cut = data.draw(st.integers(0, len(whole)))
    contents = read_records(whole[:cut])
    assert contents.records == rows[: len(contents.records)]
    assert contents.size == sum(map(len, lines[: len(contents.records)])) <= cut
    assert len(contents.records) == len(rows) or cut < contents.size + len(
        lines[len(contents.records)]
    )


@given(st.binary(max_size=200))
def test_no_bytes_make_a_record_by_chance(data: bytes) -> None:
    contents = read_records(data)
    assert b"".join(map(encode_record, contents.records)) == data[: contents.size]


def test_a_damaged_record_before_whole_ones_is_refused() -> None:
    first, second = encode_record(SYSTEM), encode_record(HELLO)
    damaged = first.replace(b"brief", b"grief") + second
    with pytest.raises(Internal, match="record at byte 0 is damaged"):
        read_records(damaged)


def test_a_lone_surrogate_of_a_model_can_be_logged() -> None:
    line = encode_record({"t": "system", "text": "\ud800"})
    assert decode_record(line[:-1]) == {"t": "system", "text": "?"}


def test_a_record_has_a_known_kind_and_a_bounded_size() -> None:
    with pytest.raises(ValueError, match="kind 'letter'"):
        encode_record({"t": "letter"})
    with pytest.raises(ValueError, match="the limit is"):
        encode_record({"t": "system", "text": "a" * RECORD_MOST})


def test_a_log_is_of_its_owner_only_and_is_read_again(tmp_path: Path) -> None:
    folder = tmp_path / "session"
    with ConversationLog(folder, MAIN) as log:
        log.append(SYSTEM)
        log.append(HELLO)
        first = log.state.log
    file = folder / MAIN / "log"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    for place in (folder, file.parent):  # the names of conversations are ids of tasks
        assert stat.S_IMODE(place.stat().st_mode) == 0o700
    with ConversationLog(folder, MAIN) as log:
        assert log.state.log == first
        assert log.state.system == SYSTEM["text"]
        assert log.state.seen == {"m1"}
    assert conversations(folder) == [MAIN]


def test_a_torn_tail_is_cut_off_before_the_next_record(tmp_path: Path) -> None:
    with ConversationLog(tmp_path, MAIN) as log:
        log.append(SYSTEM)
    file = tmp_path / MAIN / "log"
    file.write_bytes(file.read_bytes() + encode_record(HELLO)[:-5])
    with ConversationLog(tmp_path, MAIN) as log:
        assert log.state.turn is None
        log.append(HELLO)
    assert [row["t"] for row in read_records(file.read_bytes()).records] == [
        "open", "system", "input",
    ]  # fmt: skip


def test_two_processes_do_not_write_the_same_log(tmp_path: Path) -> None:
    with (
        ConversationLog(tmp_path, MAIN),
        pytest.raises(Busy, match="another process has the log of main open"),
    ):
        ConversationLog(tmp_path, MAIN)


def test_a_failed_write_leaves_nothing_that_tears_the_log(tmp_path: Path) -> None:
    fails = [False]

    def sync(file: int) -> None:
        if fails[0]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.fdatasync(file)

    with ConversationLog(tmp_path, MAIN, sync) as log:
        fails[0] = True
        with pytest.raises(OSError, match="No space"):
            log.append(SYSTEM)
        fails[0] = False
        log.append(HELLO)
    rows = read_records((tmp_path / MAIN / "log").read_bytes()).records
    assert [row["t"] for row in rows] == ["open", "input"]


def test_a_record_that_begins_nothing_shares_the_sync_of_the_next(tmp_path: Path) -> None:
    synced: list[int] = []

    def sync(file: int) -> None:
        synced.append(len(read_records(os.pread(file, 1 << 16, 0)).records))

    with ConversationLog(tmp_path, MAIN, sync) as log:
        log.append(HELLO)
        log.append(SYSTEM, sync=False)
        assert synced == [1, 2]  # the opening, and the letter
        log.append({"t": "end", "turn": 1, "status": "done"})
        log.sync()  # nothing is left to do
        assert synced == [1, 2, 4]
        log.append({"t": "closed", "turn": 1}, sync=False)
        log.start_segment([SYSTEM])
        assert synced == [1, 2, 4, 5, 2]  # the old segment, then the new one


def test_a_segment_whose_folder_cannot_be_synced_is_the_one_that_grows(tmp_path: Path) -> None:
    """The rename was made: the next process reads the new file, so this one writes it."""
    outcomes = [True, False, False, True, True]  # the first one is that of the new log
    tries: list[bool] = []

    def sync_folder(file: int) -> None:
        tries.append(outcomes[len(tries)])
        if not tries[-1]:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        os.fsync(file)

    with ConversationLog(tmp_path, MAIN, sync_folder=sync_folder) as log:
        log.append(HELLO)
        log.append({"t": "end", "turn": 1, "status": "done"})
        log.append({"t": "closed", "turn": 1})
        with pytest.raises(OSError, match="Input/output"):
            log.start_segment([SYSTEM])
        later = {**HELLO, "turn": 2, "id": "m2"}
        with pytest.raises(OSError, match="Input/output"):
            log.append(later)  # nothing is on disk while the folder is not
        assert log.state.turn is None
        log.append(later)
        log.append({"t": "end", "turn": 2, "status": "done"})
        assert tries == [True, False, False, True]
        state = log.state
    with ConversationLog(tmp_path, MAIN) as log:
        assert log.state == state
        assert log.state.seen == {"m1", "m2"}
        assert log.state.system == SYSTEM["text"]


def test_a_record_whose_sync_is_due_is_synced_after_a_failed_write(tmp_path: Path) -> None:
    outcomes: list[bool] = [True, False, True]  # the opening, the letter, the explicit sync
    synced: list[int] = []

    def sync(file: int) -> None:
        if not outcomes[len(synced)]:
            synced.append(-1)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        synced.append(len(read_records(os.pread(file, 1 << 16, 0)).records))

    with ConversationLog(tmp_path, MAIN, sync) as log:
        log.append(SYSTEM, sync=False)
        with pytest.raises(OSError, match="No space"):
            log.append(HELLO)
        log.sync()
    assert synced == [1, -1, 2]


def test_a_new_segment_knows_turns_and_messages_and_keeps_the_old_file(tmp_path: Path) -> None:
    with ConversationLog(tmp_path, MAIN) as log:
        log.append(HELLO)
        log.append({"t": "closed", "turn": 1})
        before = log.state.key("x")
        log.start_segment([SYSTEM])
        log.append({**HELLO, "turn": 2, "id": "m2"})
        assert log.state.key("x") != before
    with ConversationLog(tmp_path, MAIN) as log:
        assert log.state.seen == {"m1", "m2"}
        assert log.state.turns == 2
        assert log.state.system == SYSTEM["text"]
    assert [file.name for file in segments(tmp_path / MAIN)] == ["log.1", "log"]


def test_a_crash_between_the_two_names_of_a_segment_makes_no_third(tmp_path: Path) -> None:
    with ConversationLog(tmp_path, MAIN) as log:
        log.append(HELLO)
        # What a crash leaves after the old file got its second name.
        os.link(log.folder / "log", log.folder / "log.1")
        (log.folder / "log.new").write_bytes(b"half")
        log.start_segment([SYSTEM])
    assert [file.name for file in segments(tmp_path / MAIN)] == ["log.1", "log"]
