"""Processes of containers: what only root may read of them, and the end of those that hold on."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from hive_core.model.names import agent_unit
from hive_core.plan.actions import RANGE, EndHolders, ObserveUnit
from hive_core.privd import mounts, tree, units

_PASSES: Final = 100


def observe(action: ObserveUnit) -> dict[str, object]:
    """Say what runs there; what ends meanwhile, or is not there, leaves the rest False."""
    facts: dict[str, object] = dict.fromkeys(("ours", "mapped", "payload", "tree", "mounted"), False)
    facts["leader"] = 0
    with suppress(OSError):
        with tree.opened(*tree.node(action.lineage)) as node:
            seen = os.stat(f"{mounts.MOUNTS}/{action.uuid}/tree")
            same = os.path.samestat(seen, os.fstat(node))
        facts["mounted"] = same and mounts.right(action.uuid, action.base)
    with suppress(OSError):
        steps = _cgroup(action.pid).split("/")
        # The outermost counts: an agent may give such a name to a cgroup in its own subtree.
        unit = next((step for step in steps if step.startswith("hive-agent@")), None)
        if unit == agent_unit(action.name) and (found := _children(action.pid)):
            facts |= {"ours": True, "leader": found[0]}
            facts |= _contained(action, found[0])
    return facts


def _contained(action: ObserveUnit, leader: int) -> dict[str, object]:
    maps = [Path(f"/proc/{leader}/{kind}_map").read_text().split() for kind in ("uid", "gid")]
    nspawn = os.stat(f"/proc/{action.pid}/exe")
    # The init of systemd-nspawn runs the same program as systemd-nspawn; the payload is below it.
    started = any(not os.path.samestat(os.stat(f"/proc/{pid}/exe"), nspawn)
                  for pid in (leader, *_children(leader)))  # fmt: skip
    with tree.opened(f"/proc/{leader}/root/", "tree") as seen:
        with tree.opened(*tree.node(action.lineage)) as node:
            same = os.path.sameopenfile(seen, node)
    mapped = maps == [["0", str(action.base), str(RANGE)]] * 2
    return {"mapped": mapped, "payload": started, "tree": same}


def end_holders(action: EndHolders) -> dict[str, object]:
    """End processes that hold what their container no longer shows.

    What was renamed out of a mount has no path there any more: its link in /proc reads "/" but
    is not the container's root. https://man7.org/linux/man-pages/man5/proc_pid_fd.5.html
    """
    unit = units.ours(action.name, action.uuid)
    main = int(unit["MainPID"])
    root = os.stat(f"/proc/{_children(main)[0]}/root")
    ended: list[dict[str, object]] = []
    clean = passes = 0
    while clean < 2:
        passes += 1
        if passes > _PASSES:
            raise FileExistsError("processes take hold faster than they are ended")
        found = list(filter(None, (_end(pid, unit["ControlGroup"], root) for pid in _pids() if pid != main)))
        ended += found
        clean = 0 if found else clean + 1
        time.sleep(0.01 if found else 0)
    return {"holders": ended, "passes": passes}


def _end(pid: int, group: str, root: os.stat_result) -> dict[str, object] | None:
    with suppress(OSError):
        handle = os.pidfd_open(pid)  # the number may be used again, the descriptor never is
        try:
            if not f"{_cgroup(pid)}/".startswith(f"{group}/"):
                return None
            if link := next((link for link in _links(pid) if _escaped(link, root)), None):
                command = Path(f"/proc/{pid}/comm").read_text().strip()
                signal.pidfd_send_signal(handle, signal.SIGKILL)
                return {"pid": pid, "command": command, "link": link}
        finally:
            os.close(handle)
    return None


def _links(pid: int) -> Iterator[str]:
    """List what a process holds; threads may have descriptors and directories of their own."""
    yield f"/proc/{pid}/exe"
    yield from (f"/proc/{pid}/map_files/{name}" for name in os.listdir(f"/proc/{pid}/map_files"))
    for thread in os.listdir(f"/proc/{pid}/task"):
        own = f"/proc/{pid}/task/{thread}"
        yield from (f"{own}/cwd", f"{own}/root")
        yield from (f"{own}/fd/{name}" for name in os.listdir(f"{own}/fd"))


def _escaped(link: str, root: os.stat_result) -> bool:
    with suppress(OSError):
        shown = os.readlink(link).removesuffix(" (deleted)")
        return shown == "/" and not os.path.samestat(os.stat(link), root)
    return False


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdecimal()]


def _children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _cgroup(pid: int) -> str:
    """Give the path of the process in systemd's own hierarchy."""
    lines = [line.split(":", 2) for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines()]
    return next((path for _, kind, path in lines if kind in ("name=systemd", "")), "")
