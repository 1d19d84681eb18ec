"""All uses of systemd: transient units of agents and jobs, slices, and their processes.

Also the facts of a process that only root may read.
"""

import os
import subprocess
from contextlib import suppress
from pathlib import Path

from hive_core.model.names import agent_unit, job_unit
from hive_core.plan import actions as a
from hive_core.plan import render
from hive_core.privd import mounts, tree

# What the programs of systemd say while systemd or the bus starts again; the caller tries again.
_BUS_RESTARTS = (
    "disconnected from message bus", "Connection reset by peer", "Connection refused",
    "Connection terminated", "Transport endpoint is not connected",
)  # fmt: skip
_ENV = {"PATH": os.environ.get("PATH", os.defpath)}
_RUNTIME = Path(os.environ.get("HIVE_RUNTIME", "/usr/local/lib/hive-runtime"))


def run(*argv: str) -> str:
    """Run a program of systemd, with only the path from the environment."""
    done = subprocess.run(argv, capture_output=True, timeout=30, env=_ENV, check=False)
    if done.returncode:
        said = os.fsdecode(done.stderr).strip()[-500:]
        kind = ConnectionError if any(words in said for words in _BUS_RESTARTS) else OSError
        raise kind(f"{argv[0]}: {said}")
    return os.fsdecode(done.stdout)


def act(*argv: str) -> bool:
    """Run a program of systemd that changes something."""
    run(*argv)
    return True


def host() -> render.HostFacts:
    """Return the facts about this machine that rendering needs."""
    own = () if Path("/usr") == mounts.USR else ("/nix/store",)
    parts = (f"/{part}" for part in render.SHARED[1:] if Path("/", part).exists())
    shared = (f"{mounts.USR}:/usr", *own, *parts)
    runtime = str(_RUNTIME) if (_RUNTIME / ".complete").exists() else ""
    place = Path(os.environ.get("HIVE_CLIS", "/usr/local/lib/hive-clis"))
    clis = tuple(str(mark.parent) for mark in place.glob("*/.complete"))
    package, path = str(Path(__file__).parents[1]), _ENV["PATH"]
    return render.HostFacts(package, shared, Path("/dev/net/tun").exists(), path, runtime, clis)


def label(name: str) -> str:
    """Return the description of a loaded unit, which systemd stores in a file.

    https://www.freedesktop.org/software/systemd/man/latest/systemd.unit.html lists the directory;
    asking systemd takes longer than the rest of a start.
    """
    file = Path("/run/systemd/transient", agent_unit(name))
    text = file.read_text(encoding="utf-8") if file.exists() else ""
    return text.rpartition("\nDescription=")[2].partition("\n")[0]


def ours(name: str, uuid: str) -> str:
    """Return the unit of this agent; FileNotFoundError if the name is another agent's."""
    if not label(name).startswith(f"hive agent {uuid} "):
        raise FileNotFoundError(f"{agent_unit(name)} does not run this agent")
    return agent_unit(name)


def stop(action: a.StopUnit) -> bool:
    """Begin to stop the unit of an agent; one that has just ended counts as stopped."""
    try:
        return act("systemctl", "stop", "--no-block", ours(action.name, action.uuid))
    except OSError:
        if label(action.name):
            raise
        return False


def kill(action: a.KillUnit) -> bool:
    """Have the kernel kill the unit of an agent or a job at once.

    systemd looks up the processes one by one, and an agent can hide them from it in a control group
    whose path exceeds the limit.
    """
    try:
        unit = ours(action.name, action.uuid) if action.name else job_unit(action.uuid)
        if group := run("systemctl", "show", "--value", "--property=ControlGroup", unit).strip():
            control(group, "kill").write_text("1")
        return bool(group)
    except FileNotFoundError:
        if action.name and label(action.name):
            raise
        return False  # it has just ended


def control(group: str, file: str) -> Path:
    """Return a file of a control group; version 2 is mounted beside version 1, or alone."""
    unified = Path("/sys/fs/cgroup/unified")
    return Path(f"{unified if unified.exists() else unified.parent}{group}/cgroup.{file}")


def start(action: a.StartUnit | a.RunJob) -> bool:
    """Check, write the unit's command line, and have systemd start it."""
    machine = host()
    if isinstance(action, a.RunJob):
        mounts.mount_job(action)
        place, argv = tree.MOUNTS / action.job, render.job_argv(machine, action)
    else:
        if label(action.name) or not mounts.has_mounts(action.uuid, action.base):
            raise FileExistsError("the unit is loaded, or its root and node are not mounted")
        if action.system:
            with tree.open_steps(*action.system.rsplit("/", 1)) as system:
                if os.fstat(system).st_uid != 0:
                    raise FileExistsError("the system is not owned by root")
        # A store that is attached before the start cannot be taken from the container later.
        tree.make_socket_directory(action.uuid)
        mounts.hide_stores(action.uuid)
        place, argv = tree.MOUNTS / action.uuid, render.agent_argv(machine, action)
        (place / "harness").write_text(render.harness(action.command), encoding="utf-8")
    (place / "argv").write_text("".join(f"{word}\0" for word in argv), encoding="utf-8")
    return act(*render.systemd_run(machine, action))


def observe(action: a.ObserveUnit) -> dict[str, object]:
    """Return what runs there; a process that ends meanwhile leaves the rest False."""
    facts = dict[str, object](ours=False, mapped=False, payload=False, tree=False, leader=0)
    with suppress(OSError):
        steps = _cgroup(action.pid).split("/")
        # The outermost counts: an agent may name a cgroup in its own subtree like this.
        unit = next((step for step in steps if step.startswith("hive-agent@")), None)
        if unit == agent_unit(action.name) and (children := _children(action.pid)):
            facts |= {"ours": True, "leader": children[0], **_container_facts(action, children[0])}
    return facts


def _container_facts(action: a.ObserveUnit, leader: int) -> dict[str, object]:
    # It is frozen until `hive-gate` has set its limits; the agent cannot change this file or its
    # group. It is read first: from then on the map is final.
    frozen = control(f"{_cgroup(action.pid).rpartition('/')[0]}/payload", "freeze").read_text()
    maps = [Path(f"/proc/{leader}/{kind}_map").read_text().split() for kind in ("uid", "gid")]
    own = tree.open_steps(*tree.node(action.lineage))
    with tree.open_steps(f"/proc/{leader}/root/", "tree") as seen, own as node:
        same = os.path.sameopenfile(seen, node)
    mapped = maps == [["0", str(action.base), str(a.RANGE)]] * 2
    return {"mapped": mapped, "payload": frozen == "0\n", "tree": same}


def _children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _cgroup(pid: int) -> str:
    """Return the path of the process in the hierarchy that systemd uses, of two possible ones."""
    # Any process may name a group, in bytes; only a line feed ends a line here.
    text = os.fsdecode(Path(f"/proc/{pid}/cgroup").read_bytes())
    lines = [line.split(":", 2) for line in text.rstrip("\n").split("\n")]
    return max((path for _, kind, path in lines if kind in ("name=systemd", "")), key=len)
