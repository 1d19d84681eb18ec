"""The rules for names: agent names, agent UUIDs, short ids, unit and slice names.

Standard library only: the root helper imports this file.
"""

import re
from typing import Final

# The daemon signs its messages as `daemon`, and the operator's as `operator`.
RESERVED: Final = frozenset({"operator", "daemon", "hive", "self", "host", "system"})
NAME_MAX: Final = 32
SHORT: Final = 8  # hex digits of a UUID that name a node directory and a slice part

_NAME: Final = re.compile(r"[a-z]([a-z0-9-]{0,30}[a-z0-9])?", re.ASCII)
_UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII)
_SHORT: Final = re.compile(r"[0-9a-f]{8}", re.ASCII)


def name_fault(name: str) -> str | None:
    """Why `name` cannot be an agent's name, or None when it can."""
    if not _NAME.fullmatch(name):
        return "must be 1 to 32 of a-z, 0-9 and '-', start with a letter and not end with '-'"
    if "--" in name:
        return "must not contain '--'"
    if name in RESERVED:
        return "is reserved"
    return None


def is_uuid(text: str) -> bool:
    """Whether `text` is a UUID in its canonical lower-case form."""
    return _UUID.fullmatch(text) is not None


def is_short(text: str) -> bool:
    """Whether `text` can be a short id."""
    return _SHORT.fullmatch(text) is not None


def short(uuid: str) -> str:
    """The short id of a UUID: its first eight hex digits."""
    return uuid[:SHORT]


def agent_unit(name: str) -> str:
    """The name of an agent's service."""
    return f"hive-agent@{name}.service"


def job_unit(job: str) -> str:
    """The name of a job's service."""
    return f"hive-job@{job}.service"


def slice_unit(path: tuple[str, ...]) -> str:
    """The name of the slice of a path of short ids; systemd nests slices by dashes.

    https://www.freedesktop.org/software/systemd/man/latest/systemd.slice.html
    """
    return "-".join(("hive", *path)) + ".slice"
