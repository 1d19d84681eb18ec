"""What the machines of a group use and may use, measured on this host."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from hive_core.cli.core.output import Row
from hive_core.cli.core.units import format_size
from hive_core.host.systemd.cpu_time import GROUPS, read

_SHOWN: Final = {
    "memory": ("MemoryCurrent", "MemoryMax"), "processes": ("TasksCurrent", "TasksMax"),
    "cpu": ("CPUUsageNSec", "CPUQuotaPerSecUSec"),
}  # fmt: skip
NOT_MEASURED: Final = "not measured"
_UNKNOWN: Final = str(2**64 - 1)  # the value of systemd for what the kernel does not count
_MILLION: Final = 1_000_000


def seconds(amount: float) -> str:
    """Thousandths of a second as `12.346s`."""
    return f"{amount / 1000:.3f}s"


def unit_properties(unit: str, *names: str) -> dict[str, str]:
    """Properties of a unit by systemd; empty where there is no systemd."""
    asked = ["systemctl", "show", *(f"--property={name}" for name in names), unit]
    try:
        done = subprocess.run(asked, capture_output=True, text=True, check=False, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return {}
    lines = (line.partition("=") for line in done.stdout.splitlines())
    return {name: value for name, _, value in lines}


def machines(group: str, properties: Mapping[str, str]) -> Iterator[Row]:
    """What the machines in a slice use now, and may use, by systemd."""
    for resource, (used, most) in _SHOWN.items():
        bound = properties.get(most, "")
        unbounded = bound in ("", "infinity", _UNKNOWN)
        yield {
            "what": resource, "used": _usage(resource, properties.get(used, "")), "group": group,
            "most": "-" if unbounded else _figure(resource, bound),
        }  # fmt: skip


def group_of(unit: str) -> Iterator[Row]:
    """The slice that a unit is in."""
    group = unit_properties(unit, "Slice").get("Slice", "")
    if group:
        names = (name for names in _SHOWN.values() for name in names)
        yield from machines(group, with_cpu_time(unit_properties(group, *names, "ControlGroup")))


def with_cpu_time(
    properties: Mapping[str, str], groups: Path = GROUPS
) -> Mapping[str, str]:  # fmt: skip
    """The properties with the kernel's processor time where systemd does not count it."""
    missing = _usage("cpu", properties.get("CPUUsageNSec", "")) == NOT_MEASURED
    cpu = read(properties.get("ControlGroup", ""), groups) if missing else None
    return properties if cpu is None else {**properties, "CPUUsageNSec": str(cpu.used * 1000)}


def _usage(resource: str, value: str) -> str:
    """A measured figure; never 0 where it is not counted."""
    if not value.isdecimal() or value == _UNKNOWN:
        return NOT_MEASURED
    return seconds(int(value) / _MILLION) if resource == "cpu" else _figure(resource, value)


def _figure(resource: str, value: str) -> str:
    return format_size(int(value)) if resource == "memory" and value.isdecimal() else value
