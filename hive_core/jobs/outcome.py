"""Writes the result of a job: accepted, refused, or failed."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from hive_core.plan.printable import escape

FILE: Final = "said.json"
_TEXT_MOST: Final = 500


class JobRefused(Exception):
    """The input breaks a rule: `rule` names it, `path` is its place."""

    def __init__(self, rule: str, text: str, path: str = "") -> None:
        super().__init__(text)
        self.rule = rule
        self.text = text
        self.path = path


def write_acceptance(out: Path, figures: Mapping[str, float]) -> None:
    _write(out, {"ok": True, "figures": dict(figures)})


def write_refusal(out: Path, error: JobRefused) -> None:
    said = {"rule": error.rule, "path": line(error.path), "text": line(error.text)}
    _write(out, {"ok": False, **said})


def write_fault(out: Path, reason: str) -> None:
    """Write that the job failed without a result."""
    _write(out, {"fault": line(reason)})


def line(text: str) -> str:
    """The text as one short line, escaped."""
    return escape(" ".join(text.split()))[:_TEXT_MOST]


def _write(out: Path, document: Mapping[str, object]) -> None:
    """Write the file atomically."""
    spare = out / f".{FILE}.new"
    spare.write_text(json.dumps(document, ensure_ascii=False) + "\n", encoding="utf-8")
    spare.replace(out / FILE)


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Refuse the input if the block takes longer."""

    def late(_number: int, _frame: object) -> None:
        raise JobRefused("seconds", f"cannot be checked within {seconds:g} seconds")

    signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
