"""Usage and limits of the machines of a group, measured on this host."""

from __future__ import annotations

import re
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
_UNITS: Final = {"memory": "bytes", "processes": "processes", "cpu": "seconds"}
_UNKNOWN: Final = str(2**64 - 1)  # the value of systemd for figures that the kernel does not count
_THOUSAND: Final = 1000
_BILLION: Final = 1_000_000_000
_SPAN: Final = re.compile(r"(\d+(?:\.\d+)?)(us|ms|s|min|h)\b", re.ASCII)  # as `1min 30s`
_SPAN_SECONDS: Final = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0}


def seconds(amount: float) -> str:
    """Thousandths of a second as `12.346s`."""
    return f"{amount / _THOUSAND:.3f}s"


def unit_properties(unit: str, *names: str) -> dict[str, str]:
    """Properties of a unit from systemd; empty without systemd."""
    asked = ["systemctl", "show", *(f"--property={name}" for name in names), unit]
    try:
        done = subprocess.run(asked, capture_output=True, text=True, check=False, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return {}
    lines = (line.partition("=") for line in done.stdout.splitlines())
    return {name: value for name, _, value in lines}


def machines(group: str, properties: Mapping[str, str]) -> Iterator[Row]:
    """What the machines in a slice use now, and may use, by systemd: bytes, processes, seconds.

    None stands for what is not measured, and for no bound. The bound of CPU is the seconds of CPU
    that the group may use in each second.
    """
    for resource, (used, most) in _SHOWN.items():
        yield {
            "what": resource, "kind": resource, "used": _figure(resource, properties.get(used, "")),
            "most": _figure(resource, properties.get(most, "")), "unit": _UNITS[resource],
            "group": group,
        }  # fmt: skip


def machine_cells(row: Row) -> Row:
    """A row of `machines` for people."""
    used, most = (_text(str(row["what"]), row[field]) for field in ("used", "most"))
    rate = " a second" if row["what"] == "cpu" else ""
    return {
        **row,
        "used": NOT_MEASURED if used is None else used,
        "most": "-" if most is None else f"{most}{rate}",
    }


def group_of(unit: str) -> Iterator[Row]:
    """The slice that a unit is in."""
    group = unit_properties(unit, "Slice").get("Slice", "")
    if group:
        names = (name for names in _SHOWN.values() for name in names)
        yield from machines(group, with_cpu_time(unit_properties(group, *names, "ControlGroup")))


def with_cpu_time(
    properties: Mapping[str, str], groups: Path = GROUPS
) -> Mapping[str, str]:  # fmt: skip
    """The properties, with the kernel's processor time if systemd does not count it."""
    missing = _figure("cpu", properties.get("CPUUsageNSec", "")) is None
    cpu = read(properties.get("ControlGroup", ""), groups) if missing else None
    return properties if cpu is None else {**properties, "CPUUsageNSec": str(cpu.used * 1000)}


def _figure(resource: str, value: str) -> float | None:
    """A figure of systemd; never 0 where the kernel does not count it."""
    if value == _UNKNOWN:
        return None
    if value.isdecimal():
        return int(value) / _BILLION if resource == "cpu" else int(value)
    parts = _SPAN.findall(value)  # empty for `infinity` and `[not set]`
    return sum(float(number) * _SPAN_SECONDS[unit] for number, unit in parts) if parts else None


def _text(resource: str, figure: object) -> str | None:
    match figure:
        case int() | float() if resource == "cpu":
            return seconds(figure * _THOUSAND)
        case int() if resource == "memory":
            return format_size(figure)
        case int():
            return str(figure)
        case _:
            return None
