"""Reports that hived has not answered yet, in a file: another process of the service sends them.

A line is written before anything that follows from the report is seen by others, and not synced: it
outlives the process. A host that loses power loses the last ones, and hived estimates.
"""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path
from typing import Final

from hive_core.varlink import Message

log = logging.getLogger(__name__)
_SIZE_MOST: Final = 1 << 20  # a longer file is written anew, with what is open


class ReportJournal:
    """Parameters of reports by key. Without a path, or where the file fails, it keeps nothing."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._file: int | None = None
        self._size = 0
        self._open: dict[str, Message] = {}

    def start(self) -> dict[str, Message]:
        """Open the file; returns the reports that an earlier process left open."""
        if self._path is None:
            return {}
        try:
            self._open = _read_reports(self._path)
            self._rewrite(self._path)
        except OSError as error:
            self._fail(error)
        return dict(self._open)

    def keep(self, key: str, parameters: Message) -> None:
        """Write a report, in place of an earlier one of this key."""
        if self._file is not None:
            self._open[key] = parameters
            self._append([key, parameters])

    def drop(self, key: str) -> None:
        """hived has answered the report."""
        if self._open.pop(key, None) is None:
            return
        if self._open:
            self._append([key, None])
        elif self._file is not None:
            os.ftruncate(self._file, 0)
            self._size = 0

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _append(self, row: list[object]) -> None:
        if self._file is None or self._path is None:
            return
        try:
            self._write(self._file, row)
            if self._size > _SIZE_MOST:
                self._rewrite(self._path)
        except OSError as error:
            self._fail(error)

    def _write(self, file: int, row: list[object]) -> None:
        data = json.dumps(row, separators=(",", ":")).encode() + b"\n"
        if os.write(file, data) != len(data):
            raise OSError("the line is not whole")
        self._size += len(data)

    def _rewrite(self, path: Path) -> None:
        """Write a new file with what is open, and replace the old one in one step."""
        spare = path.with_name(f".{path.name}.new")
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        file = os.open(spare, flags, 0o600)
        try:
            self._size = 0
            for key, parameters in self._open.items():
                self._write(file, [key, parameters])
            spare.replace(path)
        except BaseException:
            os.close(file)
            raise
        self.close()
        self._file = file

    def _fail(self, error: OSError) -> None:
        """Continue without the file; open reports are then lost when the process ends."""
        log.error("Cannot keep reports in %s, and go on without: %s", self._path, error)
        self.close()


def _read_reports(path: Path) -> dict[str, Message]:
    """The open reports; a torn or damaged line counts for nothing."""
    reports: dict[str, Message] = {}
    try:
        lines = path.read_bytes().split(b"\n")
    except FileNotFoundError:
        return reports
    for line in lines:
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            continue
        match row:
            case [str(key), dict(parameters)]:
                reports[key] = parameters
            case [str(key), None]:
                reports.pop(key, None)
            case _:
                pass
    return reports
