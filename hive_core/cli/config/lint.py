"""Faults of a configuration in a folder, committed or not."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from hive_core.cli.core.output import say
from hive_core.model.config.agent_config import AgentConfig
from hive_core.model.config.limits import IntakeSettings
from hive_core.model.config.validation import find_faults
from hive_core.model.wire.egress import network_fault
from hive_core.plan import toml
from hive_core.plan.paths import Names
from hive_core.plan.toml_lines import find_lines

Fault = tuple[str, str]

_CAPS: Final = IntakeSettings()
_OWN: Final = (
    ".git",
    ".before",
)  # folders at the top: that of git, and the old contents that `init_config` kept


def find_lint(folder: Path) -> list[Fault]:
    """The faults by their places. Git is not run, since the folder is not trusted."""
    return [*_toml(folder), *_files(folder)]


def _toml(folder: Path) -> Iterator[Fault]:
    """The faults of agent.toml; an absent file has no faults."""
    try:
        data = _read(folder / toml.FILE)
    except FileNotFoundError:
        say(f"{folder / toml.FILE} does not exist: every key has its default")
        return
    except OSError as error:
        yield toml.FILE, error.strerror or str(error)
        return
    try:
        table = toml.parse(data)
    except ValueError as error:
        yield toml.FILE, str(error)
        return
    faults = find_faults(AgentConfig, table)
    lines = find_lines(data, [fault.place for fault in faults])
    for fault in faults:
        yield f"{toml.FILE}{_at(lines[fault.place])}: {fault.key}", fault.reason
    if not faults:
        config = AgentConfig.model_validate(table)
        yield from _missing(folder, config)
        yield from _network(config, data)


def _at(line: int | None) -> str:
    return f":{line}" if line is not None else ""


def _network(config: AgentConfig, data: bytes) -> Iterator[Fault]:
    """The fault of a requested network profile that there is not."""
    profile = config.request.network
    if profile not in (None, "none") and (reason := network_fault(profile)):
        place = ("request", "network")
        line = _at(find_lines(data, [place])[place])
        yield (f"{toml.FILE}{line}: request.network", reason)


def _missing(folder: Path, config: AgentConfig) -> Iterator[Fault]:
    """Files that the configuration names and that do not exist."""
    for key in ("instructions", "prompts", "skills"):
        name = getattr(config.harness, key)
        if key in config.harness.model_fields_set and not os.path.lexists(folder / name):
            yield f"{toml.FILE}: harness.{key}", f"{name} does not exist"


def _read(path: Path) -> bytes:
    """Read a plain file: do not follow links or wait for pipes."""
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with open(handle, "rb") as file:  # noqa: PTH123 - a descriptor
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(0, "is not a plain file")
        return file.read(toml.BYTES_MOST + 1)


def _files(folder: Path) -> Iterator[Fault]:
    names, count, total = Names(), 0, 0
    for path, status in _walk(folder):
        count += 1
        total += status.st_size if stat.S_ISREG(status.st_mode) else 0
        if fault := names.fault(path) or _shape(path, status):
            yield path, fault
    if count > _CAPS.files:
        yield str(folder), f"{count} files and folders; at most {_CAPS.files} are allowed"
    if total > _CAPS.tree:
        yield str(folder), f"all files together are larger than {_CAPS.tree} bytes"


def _shape(path: str, status: os.stat_result) -> str:
    mode = status.st_mode
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        return "is a symbolic link" if stat.S_ISLNK(mode) else "is not a plain file"
    if stat.S_ISREG(mode) and status.st_size > _CAPS.blob:
        return f"is larger than {_CAPS.blob} bytes"
    return "is nested too deeply" if path.count("/") > _CAPS.depth else ""


def _walk(folder: Path) -> Iterator[tuple[str, os.stat_result]]:
    """All entries below the folder, by path, in order."""
    for place, folders, files in os.walk(folder):
        top = Path(place) == folder
        folders[:] = sorted(name for name in folders if not (top and name in _OWN))
        for name in sorted([*folders, *files]):
            path = Path(place, name)
            if not (top and name in _OWN):
                yield path.relative_to(folder).as_posix(), path.lstat()
