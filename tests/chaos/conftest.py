"""Crashes, power cuts, full disks, bad agents and bad days of a host.

One process serves all tests that live through the verbs, and one lab those of bad agents.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from chaos.lives import Lives
from e2e.hivehost import HiveHost
from e2e.labhost import Lab

TREE: dict[str, str | None] = {"root": None, "lead": "root", "ann": "lead", "ben": "lead"}
# Bad agents make much of everything at once; no pause is worth waiting for in a test.
SETTINGS = "[back_off]\nfirst = 0.05\nmost = 0.2\n[limits]\nsend_rate = 1000\n"


@pytest.fixture(scope="package")
def lives() -> Iterator[Lives]:
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="hive-lives-") as folder:
        made = Lives(Path(folder))
        yield made
        made.close()


@pytest.fixture(scope="package")
def lab() -> Iterator[Lab]:
    with Lab() as host:
        yield host


@pytest.fixture(scope="package")
def made(lab: Lab) -> Iterator[HiveHost]:
    host = HiveHost(lab)
    host.settings(SETTINGS)
    host.setup()
    host.grow(lead={"role": "lead"})
    host.grow(ann="lead", ben="lead")
    yield host
    host.hush()


@pytest.fixture
def host(made: HiveHost) -> Iterator[HiveHost]:
    """The hive as it was before each test: `lead` with `ann` and `ben`, all running."""
    yield made
    made.prune(TREE)
