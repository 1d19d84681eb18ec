"""Records of a conversation's log, and how they lie on disk: `crc length json`, one a line.

A write that was cut off leaves a torn tail, which is dropped. A damaged record before whole ones
was not torn by a crash: that log is refused.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final, NamedTuple
from zlib import crc32

from hive_core.errors import Internal

Record = dict[str, object]
KINDS: Final = frozenset({
    "open", "system", "input", "response", "call", "result", "end", "closed", "compact", "rewind",
    "fork", "cli", "inherit", "reflect", "reflected", "park", "resume",
})  # fmt: skip
RECORD_MOST: Final = 16 << 20
_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))


class LogContents(NamedTuple):
    """The whole records of a log; `size` is where the torn tail begins, or the end."""

    records: list[Record]
    size: int


def encode_record(record: Record) -> bytes:
    """The line of a record; ValueError when it is too large or of an unknown kind."""
    if record.get("t") not in KINDS:
        raise ValueError(f"cannot log a record of kind {record.get('t')!r}")
    # A model may send a lone surrogate, which UTF-8 cannot hold.
    data = _ENCODER.encode(record).encode(errors="replace")
    if len(data) > RECORD_MOST:
        raise ValueError(f"cannot log {len(data)} bytes in one record: the limit is {RECORD_MOST}")
    return b"%08x %d %s\n" % (crc32(data), len(data), data)


def decode_record(line: bytes) -> Record | None:
    """The record of a line without its newline; None when the line is not whole."""
    crc, _, rest = line.partition(b" ")
    length, _, data = rest.partition(b" ")
    if not (length.isdigit() and int(length[:10]) == len(data) and crc == b"%08x" % crc32(data)):
        return None
    try:
        record = json.loads(data)
    except ValueError:
        return None
    return record if isinstance(record, dict) and record.get("t") in KINDS else None


def read_records(data: bytes) -> LogContents:
    """The records up to a torn tail; Internal for a log that is damaged before its end."""
    records: list[Record] = []
    at = 0
    for line in _whole_lines(data):
        record = decode_record(line)
        if record is None:
            if any(decode_record(later) is not None for later in _whole_lines(data[at:])):
                raise Internal(f"cannot read the log: the record at byte {at} is damaged")
            break
        records.append(record)
        at += len(line) + 1
    return LogContents(records, at)


def _whole_lines(data: bytes) -> Iterator[bytes]:
    lines = data.split(b"\n")
    return iter(lines[:-1])


def read_hops(record: Record) -> int:
    """The hops of a letter's record; -1 for any other record."""
    hops = record.get("hops")
    return hops if isinstance(hops, int) and record.get("id") else -1
