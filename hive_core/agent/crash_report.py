"""The report of an internal error: one line for people, and a file.

A report has the place and the kind of the fault, but no input of the command: no arguments, no
variables, no values. The message of an exception often quotes a value: the report omits quoted
text, and all words of the arguments and the environment.
"""

from __future__ import annotations

import os
import platform
import re
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from hive_core import VERSION

KEPT: Final = 20  # reports in a folder; the oldest are deleted
_SHORT: Final = 4  # a shorter value occurs in many words
_QUOTED: Final = re.compile(r"(['\"`]).*['\"`]", re.DOTALL)


def write_report(program: str, error: BaseException) -> str:
    """Write the report of a fault, and return a line about it."""
    summary = summarize_fault(error)
    try:
        file = _write_file(program, report_text(program, error) + "\n")
    except OSError as fault:
        return f"{summary}; no report could be written: {fault.strerror}"
    return f"{summary}; please report it with {file}"


def summarize_fault(error: BaseException) -> str:
    """The kind of a fault and its place in the program, without a value."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f" in {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    return f"internal error: {type(error).__name__}{where}"


def report_text(program: str, error: BaseException) -> str:
    """The report of a fault, with its traceback."""
    return "\n".join(_lines(program, error))


def report_threads(program: str) -> None:
    """Report faults in threads in the same way, instead of printing a traceback."""
    import threading  # noqa: PLC0415 - few commands have any

    def tell(fault: threading.ExceptHookArgs) -> None:
        if fault.exc_value is not None:
            sys.stderr.write(f"{program}: {write_report(program, fault.exc_value)}\n")

    threading.excepthook = tell


def _write_file(program: str, text: str) -> Path:
    """Write a file that only its owner may read, to the user's folder or to the folder for all."""
    home = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state"
    folder = Path(home, "hive")
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        number, name = tempfile.mkstemp(".txt", f"{program}-report-", folder)
    except (OSError, RuntimeError):  # no home, or one of another user
        number, name = tempfile.mkstemp(".txt", f"{program}-report-")
    else:
        _remove_old(folder, program)
    with os.fdopen(number, "w", encoding="utf-8", errors="backslashreplace") as file:
        file.write(text)
    return Path(name)


def _remove_old(folder: Path, program: str) -> None:
    reports = sorted(
        folder.glob(f"{program}-report-*.txt"), key=lambda report: report.stat().st_mtime
    )
    for old in reports[:-KEPT]:
        with suppress(OSError):
            old.unlink()


def _lines(program: str, error: BaseException) -> Iterator[str]:
    yield f"{program} {VERSION}, Python {platform.python_version()}, {platform.platform()}"
    yield time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    for fault in reversed(list(_chain(error))):
        yield "Traceback (most recent call last):"
        yield "".join(traceback.format_tb(fault.__traceback__)).rstrip("\n")
        yield f"{type(fault).__name__}: {_without_values(str(fault))}"


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The fault and its causes."""
    seen, at = set[int](), error
    while id(at) not in seen:
        yield at
        seen.add(id(at))
        at = at.__cause__ or at.__context__ or at


def _without_values(text: str) -> str:
    text = _QUOTED.sub("'...'", text)
    values = {*sys.argv[1:], *os.environ.values()}
    for value in sorted(values, key=len, reverse=True):
        if len(value) > _SHORT:
            text = text.replace(value, "...")
    return text
