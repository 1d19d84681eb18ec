"""Crashes, power cuts, full disks, bad agents and bad days of a host.

One process serves all tests that live through the verbs, and one lab those of bad agents.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from chaos.sweep_process import SweepProcess
from e2e.hivehost import HiveHost
from e2e.labhost import Lab

TREE: dict[str, str | None] = {"root": None, "lead": "root", "ann": "lead", "ben": "lead"}
# Bad agents make much of everything at once; no pause is worth waiting for in a test.
SETTINGS = """
[back_off]
first = 0.05
most = 0.2
[limits]
send_rate = 1000
children = 100
"""


@pytest.fixture(scope="package")
def sweep_process() -> Iterator[SweepProcess]:
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="hive-sweep-") as folder:
        process = SweepProcess(Path(folder))
        yield process
        process.close()


@pytest.fixture(scope="package")
def lab() -> Iterator[Lab]:
    with Lab() as host:
        yield host


@pytest.fixture(scope="package")
def grown_host(lab: Lab) -> Iterator[HiveHost]:
    host = HiveHost(lab)
    host.settings(SETTINGS)
    host.setup()
    host.grow(lead={"role": "lead"})
    host.grow(ann="lead", ben="lead")
    yield host
    host.close_connections()


@pytest.fixture
def host(grown_host: HiveHost) -> Iterator[HiveHost]:
    """The hive as it was before each test: `lead` with `ann` and `ben`, all running."""
    yield grown_host
    grown_host.prune(TREE)
