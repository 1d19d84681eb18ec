"""How units ended, as recorded by `hive-stopped` in `/run/hive/exits`."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from pathlib import Path

from hive_core.host.systemd.cpu_time import name_of
from hive_core.model.agents.machine import Cpu, Exit
from hive_core.plan.agent_steps import is_job_id

log = logging.getLogger(__name__)


def read(folder: Path, uuid: str) -> Exit | None:
    """The last exit of an agent or a job; None if it has none."""
    try:
        record = json.loads((folder / uuid).read_bytes())
        return Exit(
            invocation=str(record["invocation"]), result=str(record["result"]),
            code=str(record["code"]), status=str(record["status"]), nonce=int(record["nonce"]),
            asked=bool(record.get("asked", False)), cpu=_cpu(record),
        )  # fmt: skip
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        log.warning("Cannot read the exit record of %s: %s", uuid, error)
        return None


def list_jobs(folder: Path) -> list[str]:
    """The jobs with a recorded exit. Their ids have another UUID version than those of agents."""
    try:
        names = sorted(path.name for path in folder.iterdir())
    except OSError as error:
        log.warning("Cannot list exit records: %s", error)
        return []
    return [name for name in names if is_job_id(name)]


def _cpu(record: Mapping[str, object]) -> Cpu | None:
    """CPU time; None in records of older scripts, and where it was not counted."""
    group, used = record.get("group"), record.get("cpu")
    if isinstance(group, str) and group and isinstance(used, int) and used >= 0:
        return Cpu(name_of(group), used)
    return None
