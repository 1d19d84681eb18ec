"""When processor and memory of machines are read, and of which."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

from hive_core.broker.agent_figures import AgentFigures
from hive_core.host.systemd.cpu_time import group_of
from hive_core.host.systemd.unit_figures import CgroupFigures
from hive_core.model.agents.machine import Cpu, Machine, Reading
from hive_core.reconcile.timers.figure_meter import FigureMeter
from hive_core.testing import ManualClock, MemoryFigures

UUID = "0f8b6f6e-7d8a-4b6f-8a51-6a1d50b5b5aa"


def test_readings_are_each_ten_seconds_and_each_two_while_somebody_watches() -> None:
    clock, reader, figures = ManualClock(), MemoryFigures(), AgentFigures()
    taken: list[Mapping[str, Reading]] = []
    runs = Machine(UUID, unit="u", slice="s.slice", active="active")
    machines = {UUID: runs, "down": Machine("down", slice="s.slice")}
    reader.readings = dict.fromkeys(machines, Reading(Cpu("g", 1)))
    meter = FigureMeter(machines, clock, reader, figures, taken.append)
    asyncio.run(meter.read_if_due())
    clock.advance(2)
    asyncio.run(meter.read_if_due())
    assert reader.asked == 1
    figures.note_watcher(clock.now())
    asyncio.run(meter.read_if_due())
    assert reader.asked == 2
    clock.advance(60)
    asyncio.run(meter.read_if_due())
    clock.advance(2)
    asyncio.run(meter.read_if_due())
    assert reader.asked == len(taken) == 3
    assert [*taken[-1]] == [UUID]


def test_groups_are_read_and_those_that_are_gone_are_left_out(tmp_path: Path) -> None:
    unit, slice_ = "hive-agent-a.service", "hive-a.slice"
    folder = Path(f"{tmp_path}{group_of(slice_, unit)}")
    folder.mkdir(parents=True)
    (folder / "cpu.stat").write_text("usage_usec 12\nuser_usec 3\n")
    machines = [Machine(UUID, unit=unit, slice=slice_), Machine("gone", unit="x", slice=slice_)]
    reader = CgroupFigures(tmp_path)
    (reading,) = asyncio.run(reader.read(machines)).values()
    assert (reading.cpu.used, reading.memory) == (12, None)
    (folder / "memory.current").write_text("4096\n")
    assert asyncio.run(reader.read(machines))[UUID].memory == 4096


def test_a_machine_that_started_again_counts_from_its_own_beginning() -> None:
    figures = AgentFigures()
    figures.add({UUID: Reading(Cpu("one", 10_000_000), 1)}, 100.0, 1.0)
    figures.add({UUID: Reading(Cpu("two", 5), 1)}, 102.0, 3.0)
    assert figures.newest(UUID).cpu is None
    figures.add({UUID: Reading(Cpu("two", 1_000_005), 1)}, 104.0, 5.0)
    assert figures.newest(UUID).cpu == 0.5


def test_the_ring_keeps_an_hour() -> None:
    figures = AgentFigures()
    for step in range(400):
        figures.add({UUID: Reading(Cpu("g", step * 1_000_000), 4096)}, step * 10.0, step * 10.0)
    points = figures.points(UUID, 0.0, 3995.0)
    assert len(points) == 360
    assert (points[-1].time, points[-1].memory) == (3990.0, 4096)
    figures.forget(UUID)
    assert figures.points(UUID, 0.0, 3995.0) == []
