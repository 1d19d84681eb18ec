"""How units ended, as `hive-stopped` wrote it down in `/run/hive/exits`."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from pathlib import Path

from hive_core.host.processor import name_of
from hive_core.model.machine import Cpu, Exit

log = logging.getLogger(__name__)


def read(folder: Path, uuid: str) -> Exit | None:
    """The last exit of an agent or a job; None while it has none."""
    try:
        found = json.loads((folder / uuid).read_bytes())
        return Exit(
            invocation=str(found["invocation"]), result=str(found["result"]),
            code=str(found["code"]), status=str(found["status"]), nonce=int(found["nonce"]),
            asked=bool(found.get("asked", False)), cpu=_cpu(found),
        )  # fmt: skip
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        log.warning("Cannot read how %s ended: %s", uuid, error)
        return None


def _cpu(found: Mapping[str, object]) -> Cpu | None:
    """None in records of older scripts, and where nobody counted."""
    group, used = found.get("group"), found.get("cpu")
    if isinstance(group, str) and group and isinstance(used, int) and used >= 0:
        return Cpu(name_of(group), used)
    return None
