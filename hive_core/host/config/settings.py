"""`/etc/hive/hive.toml`: read it, and validate it the same way for all callers."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self, TypeVar

from hive_core.errors import InvalidArgument
from hive_core.model.agents.agent import Value
from hive_core.model.config.settings import Settings
from hive_core.model.config.validation import find_faults
from hive_core.plan.toml_lines import find_lines

V = TypeVar("V", bound=Value)

FILE: Final = Path("/etc/hive/hive.toml")
TASKS: Final = (Path("/proc/sys/kernel/pid_max"), Path("/proc/sys/kernel/threads-max"))
_MIB: Final = 1 << 20
_PLACE: Final = re.compile(r" \(at line (\d+), column \d+\)")


@dataclass(frozen=True, slots=True)
class SettingsFault:
    """One fault in the file and its position; `line` counts from 1."""

    file: Path
    line: int | None
    key: str
    reason: str

    @property
    def text(self) -> str:
        """In the format of compilers: `FILE:LINE: KEY: REASON`."""
        place = str(self.file) if self.line is None else f"{self.file}:{self.line}"
        return ": ".join(part for part in (place, self.key, self.reason) if part)


def check(path: Path = FILE) -> list[SettingsFault]:
    """All faults in the file; none if the file does not exist."""
    return _judge(path)[1]


def load(path: Path = FILE) -> Settings:
    """The settings; the defaults if there is no file. InvalidArgument names the first fault."""
    tables, findings = _judge(path)
    if findings:
        first, more = findings[0], len(findings) - 1
        others = f" (and {more} more: `hive config check {path}`)" if more else ""
        raise InvalidArgument(f"{first.text}{others}", field=first.key or str(path))
    return Settings.model_validate(tables)


def _judge(path: Path) -> tuple[dict[str, object], list[SettingsFault]]:
    """The content of the file, and all faults in it."""
    try:
        data = _read(path)
        tables = tomllib.loads(data.decode())
    except OSError as error:
        return {}, [SettingsFault(path, None, "", f"cannot read the file: {error.strerror}")]
    # tomllib fails on very long numbers and very deep nesting
    except (ValueError, RecursionError) as error:
        return {}, [_unreadable(path, error)]
    faults = find_faults(Settings, tables)
    lines = find_lines(data, [fault.place for fault in faults])
    return tables, [
        SettingsFault(path, lines[fault.place], fault.key, fault.reason) for fault in faults
    ]


def _read(path: Path) -> bytes:
    """The content of the file; empty if it does not exist."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""


def _unreadable(path: Path, error: Exception) -> SettingsFault:
    """The fault of a file that is not TOML, with the line that tomllib reports."""
    if isinstance(error, UnicodeDecodeError):
        return SettingsFault(path, None, "", f"not UTF-8 at byte {error.start}")
    text = "nested too deep" if isinstance(error, RecursionError) else " ".join(str(error).split())
    place = _PLACE.search(text)
    line = int(place[1]) if place else None
    return SettingsFault(path, line, "", f"not valid TOML: {_PLACE.sub('', text)[:200]}")


@dataclass(frozen=True, slots=True)
class MachineSize:
    """What the machine has: bytes of memory, processes, and bytes and files on the agents' disk."""

    memory: int
    tasks: int
    disk: int
    inodes: int

    @classmethod
    def here(cls, folder: Path) -> Self:
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        disk = os.statvfs(folder)
        tasks = min(int(file.read_text()) for file in TASKS)
        return cls(memory, tasks, disk.f_blocks * disk.f_frsize, disk.f_files)


def with_machine_size(settings: Settings, size: MachineSize) -> Settings:
    """Fill the limits that are not set with values computed from the size of the machine.

    All agents together get four fifths of the memory and of the processes (attack 8), and each
    agent a fifth of the disk (attack 9). The rest is for the machine and for hive. A file system
    that creates inodes on demand reports 0 inodes.
    """
    everybody = {"memory_max": _mib(size.memory * 4 // 5), "tasks_max": size.tasks * 4 // 5}
    for_agent = {"disk": _mib(size.disk // 5), "inodes": size.inodes // 5 or None}
    return settings.model_copy(
        update={
            "all_limits": _with_defaults(settings.all_limits, everybody),
            "agent_limits": _with_defaults(settings.agent_limits, for_agent),
        }
    )


def _mib(count: int) -> int:
    return max(1, count // _MIB) * _MIB


def _with_defaults(limits: V, defaults: Mapping[str, int | None]) -> V:
    """The limits that are set, with `defaults` for the others."""
    missing = {key: value for key, value in defaults.items() if getattr(limits, key) is None}
    return limits.model_copy(update=missing)
