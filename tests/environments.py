"""The Python environments beside the one of the tests, as `scripts/setup` makes them."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

import pytest

_ROOT = Path(__file__).resolve().parents[1]
_PLACE = Path("/opt/hive-dev")


def environment_of(lock: str) -> Path | None:
    """The finished environment of requirements/LOCK.lock; None where it could not be made."""
    version = subprocess.run(["/usr/bin/python3", "-V"], capture_output=True, check=True).stdout
    locked = (_ROOT / f"requirements/{lock}.lock").read_bytes()
    place = _PLACE / f"{lock}-{hashlib.sha256(locked + version).hexdigest()[:12]}"
    return place if (place / ".complete").exists() else None


def need_environment(lock: str) -> Path:
    """The environment of requirements/LOCK.lock; the test fails where it could not be made."""
    place = environment_of(lock)
    if place is None:
        pytest.fail(f"requirements/{lock}.lock is not installed; `scripts/setup` says why")
    return place
