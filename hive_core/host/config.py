"""`/etc/hive/hive.toml`, read once."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self, TypeVar

from pydantic import ValidationError

from hive_core.errors import InvalidArgument
from hive_core.model.agent import Value
from hive_core.model.settings import Settings

V = TypeVar("V", bound=Value)

FILE: Final = Path("/etc/hive/hive.toml")
TASKS: Final = (Path("/proc/sys/kernel/pid_max"), Path("/proc/sys/kernel/threads-max"))
_MIB: Final = 1 << 20


def load(path: Path = FILE) -> Settings:
    """The settings; all defaults when there is no file. InvalidArgument names the wrong key."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return Settings()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidArgument(f"cannot read {path}: {error}", field=str(path)) from error
    try:
        return Settings.model_validate(tomllib.loads(text))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = ".".join(str(part) for part in first["loc"])
        raise InvalidArgument(f"cannot use {path}: {key}: {first['msg']}", field=key) from error
    except (ValueError, RecursionError) as error:  # tomllib: endless numbers, endless brackets
        raise InvalidArgument(f"cannot read {path}: {error}", field=str(path)) from error


@dataclass(frozen=True, slots=True)
class Size:
    """What a machine has: bytes of memory, processes, and bytes and files on the disk of agents."""

    memory: int
    tasks: int
    disk: int
    inodes: int

    @classmethod
    def here(cls, folder: Path) -> Self:
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        disk = os.statvfs(folder)
        tasks = min(int(each.read_text()) for each in TASKS)
        return cls(memory, tasks, disk.f_blocks * disk.f_frsize, disk.f_files)


def fitted(settings: Settings, size: Size) -> Settings:
    """With the bounds that nobody set worked out from what the machine has.

    Together agents get four fifths of its memory and its processes (attack 8), each of them a fifth
    of the disk (attack 9): the rest is for the machine and for hive. A file system that makes its
    inodes as it needs them says that there are none.
    """
    everybody = {"memory_max": _mib(size.memory * 4 // 5), "tasks_max": size.tasks * 4 // 5}
    each = {"disk": _mib(size.disk // 5), "inodes": size.inodes // 5 or None}
    return settings.model_copy(
        update={
            "all_limits": _over(settings.all_limits, everybody),
            "agent_limits": _over(settings.agent_limits, each),
        }
    )


def _mib(count: int) -> int:
    return max(1, count // _MIB) * _MIB


def _over(limits: V, defaults: Mapping[str, int | None]) -> V:
    """The limits that are set, and for the others these."""
    missing = {key: value for key, value in defaults.items() if getattr(limits, key) is None}
    return limits.model_copy(update=missing)
