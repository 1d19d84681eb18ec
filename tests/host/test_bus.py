"""systemd over D-Bus, as far as it can be seen without systemd; the rest is end to end."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from each import for_each
from hypothesis import given
from hypothesis import strategies as st

from hive_core.errors import Unreachable
from hive_core.host.systemd.bus import Bus, Unit, escape, unescape
from hive_core.host.systemd.machines import Label, _active, _fault, _limits
from hive_core.plan.results import UnitFacts

UUID = "0a0b0c0d-0000-4000-8000-000000000001"


def unit(**facts: str) -> Unit:
    usual = {"name": "hive-agent@bob.service", "description": f"hive agent {UUID} 3 ab"}
    usual |= {"load": "loaded", "active": "active", "sub": "running", "path": "/", "job": ""}
    return Unit(**{**usual, **facts})


@given(st.text(st.characters(codec="ascii")))
def test_names_go_into_paths_and_back(name: str) -> None:
    assert unescape(escape(name)) == name
    assert all(c.isalnum() or c == "_" for c in escape(name))


def test_a_name_is_escaped_as_systemd_does() -> None:
    assert escape("hive-agent@bob.service") == "hive_2dagent_40bob_2eservice"


@for_each(
    "active, job, means",
    [
        ("active", "", "active"),
        ("inactive", "start", "activating"),
        ("failed", "restart", "activating"),
        ("active", "stop", "deactivating"),
        ("inactive", "", "inactive"),
    ],
)
def test_a_job_that_has_not_begun_counts_already(active: str, job: str, means: str) -> None:
    """Else a machine would be started twice."""
    assert _active(unit(active=active, job=job)) == means


@for_each(
    "text",
    ["", "hive agent", f"hive agent {UUID} x ab", f"hive job {UUID} 1 ab", "hive agent a 1 b"],
)
def test_a_unit_without_our_label_is_nobodys(text: str) -> None:
    assert Label.of(unit(description=text)) is None
    assert Label.of(unit()) == Label(UUID, 3, "ab")


def test_a_fault_is_only_told_of_a_payload_that_runs() -> None:
    """Attack 1."""
    facts = {"ours": True, "mapped": True, "payload": True, "tree": True}
    assert _fault(UnitFacts(**facts, leader=7)) == ""
    assert "user namespace" in _fault(UnitFacts(**{**facts, "mapped": False}, leader=7))
    assert "not its own" in _fault(UnitFacts(**{**facts, "tree": False}, leader=7))
    early = {**facts, "mapped": False, "payload": False}
    assert _fault(UnitFacts(**early, leader=0)) == ""


def test_limits_are_read_in_our_own_measures() -> None:
    infinite = 2**64 - 1
    limits = _limits([1 << 20, infinite, 1024, 500_000, 50, infinite])
    assert limits == {"memory_max": 1 << 20, "tasks_max": 1024, "cpu_quota": 50, "cpu_weight": 50}


@pytest.fixture
def deaf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    path = str(tmp_path / "bus")
    monkeypatch.setenv("DBUS_SYSTEM_BUS_ADDRESS", f"unix:path={path}")
    return path


def test_a_bus_that_never_answers_delays_no_caller(deaf: str) -> None:
    """Rows R6 and R21."""

    async def story() -> None:
        hung = asyncio.Event()

        async def accept(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await hung.wait()
            writer.close()

        server = await asyncio.start_unix_server(accept, deaf)
        bus = Bus(0.2, lambda _: None, ("hive-agent@",))
        running = asyncio.create_task(bus.run())
        with pytest.raises(Unreachable, match="no connection"):
            await bus.ready()
        with pytest.raises(Unreachable):
            await bus.list_units(["*"])
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        hung.set()
        server.close()

    asyncio.run(story())
