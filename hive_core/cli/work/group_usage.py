"""What the machines of a group use and may use, as this host says it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from hive_core.cli.core.output import Row
from hive_core.host.systemd.cpu_time import GROUPS, read

_SHOWN: Final = {
    "memory": ("MemoryCurrent", "MemoryMax"), "processes": ("TasksCurrent", "TasksMax"),
    "cpu": ("CPUUsageNSec", "CPUQuotaPerSecUSec"),
}  # fmt: skip
NOT_MEASURED: Final = "not measured"
_UNKNOWN: Final = str(2**64 - 1)  # what systemd says of what the kernel does not count
_MILLION: Final = 1_000_000


def seconds(amount: float) -> str:
    """Thousandths as `12.346 s`."""
    return f"{amount / 1000:.3f} s"


def shown(unit: str, *names: str) -> dict[str, str]:
    """Properties of a unit, as systemd tells them to anybody; empty where there is no systemd."""
    asked = ["systemctl", "show", *(f"--property={name}" for name in names), unit]
    try:
        done = subprocess.run(asked, capture_output=True, text=True, check=False, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return {}
    lines = (line.partition("=") for line in done.stdout.splitlines())
    return {name: value for name, _, value in lines}


def machines(group: str, told: Mapping[str, str]) -> Iterator[Row]:
    """What the machines in a slice use now, and may use, as systemd tells it."""
    for what, (used, most) in _SHOWN.items():
        bound = told.get(most, "")
        yield {
            "what": what, "used": _measured(what, told.get(used, "")), "group": group,
            "most": "-" if bound in ("", "infinity", _UNKNOWN) else bound,
        }  # fmt: skip


def group_of(unit: str) -> Iterator[Row]:
    """The slice that a unit is in."""
    group = shown(unit, "Slice").get("Slice", "")
    if group:
        names = (name for names in _SHOWN.values() for name in names)
        yield from machines(group, counted(shown(group, *names, "ControlGroup")))


def counted(told: Mapping[str, str], groups: Path = GROUPS) -> Mapping[str, str]:
    """With the kernel's own figure of processor time where systemd does not count it."""
    missing = _measured("cpu", told.get("CPUUsageNSec", "")) == NOT_MEASURED
    found = read(told.get("ControlGroup", ""), groups) if missing else None
    return told if found is None else {**told, "CPUUsageNSec": str(found.used * 1000)}


def _measured(what: str, now: str) -> str:
    """Never 0 where nobody counts."""
    if not now.isdecimal() or now == _UNKNOWN:
        return NOT_MEASURED
    return seconds(int(now) / _MILLION) if what == "cpu" else now
