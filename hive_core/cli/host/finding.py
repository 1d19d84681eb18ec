"""The result of a check of `hive doctor`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """The result of a check: `fail` makes the exit status 1."""

    check: str
    verdict: str  # ok, warn or fail
    detail: str


def ok(check: str, detail: str = "") -> Finding:
    return Finding(check, "ok", detail)


def warn(check: str, detail: str) -> Finding:
    return Finding(check, "warn", detail)


def fail(check: str, detail: str) -> Finding:
    return Finding(check, "fail", detail)
