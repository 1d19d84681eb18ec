"""The door to systemd: transient units of agents and jobs, and slices."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from hive_core.model.names import agent_unit
from hive_core.plan import render
from hive_core.plan.actions import KillUnit, RunJob, StartUnit, StopUnit
from hive_core.privd import mounts


def run(*argv: str) -> str:
    """Run a program of systemd; nothing of our environment reaches it but the path."""
    path = {"PATH": os.environ.get("PATH", os.defpath)}
    done = subprocess.run(argv, capture_output=True, text=True, timeout=30, env=path, check=False)
    if done.returncode:
        raise OSError(f"{argv[0]}: {done.stderr.strip()[-500:]}")
    return done.stdout


def act(*argv: str) -> bool:
    """Run a program of systemd that changes something."""
    run(*argv)
    return True


def host() -> render.Host:
    """Look at what rendering has to know about this machine."""
    shared = tuple(part for part in render.SHARED if Path("/", part).exists())
    return render.Host(str(Path(__file__).parents[1]), shared, Path("/dev/net/tun").exists())


def label(name: str) -> str:
    """Give the description of the unit of this name while it is loaded; systemd keeps it in a file.

    https://www.freedesktop.org/software/systemd/man/latest/systemd.unit.html lists the directory;
    to ask systemd takes longer than all else that a start needs of us.
    """
    file = Path("/run/systemd/transient", agent_unit(name))
    text = file.read_text(encoding="utf-8") if file.exists() else ""
    return text.rpartition("\nDescription=")[2].partition("\n")[0]


def ours(name: str, uuid: str) -> str:
    """Give the unit of this agent; one of another agent with this name is not found."""
    if not label(name).startswith(f"hive agent {uuid} "):
        raise FileNotFoundError(f"{agent_unit(name)} does not run this agent")
    return agent_unit(name)


def show(unit: str, what: str) -> str:
    """Give one property of a unit that is loaded."""
    return run("systemctl", "show", "--value", f"--property={what}", unit).strip()


def stop(action: StopUnit) -> bool:
    """Begin to stop the unit of an agent."""
    return act("systemctl", "stop", "--no-block", ours(action.name, action.uuid))


def kill(action: KillUnit) -> bool:
    """Have the kernel kill the unit of an agent at once.

    systemd looks for the processes one by one, and an agent can hide them from it in a control
    group whose path is longer than a path may be.
    """
    if group := show(ours(action.name, action.uuid), "ControlGroup"):
        control(group, "kill").write_text("1")
    return bool(group)


def control(group: str, what: str) -> Path:
    """Give a file of a control group; version 2 lies beside version 1, or is alone."""
    unified = Path("/sys/fs/cgroup/unified")
    return Path(f"{unified if unified.exists() else unified.parent}{group}/cgroup.{what}")


def start(machine: render.Host, action: StartUnit | RunJob) -> bool:
    """Check, write down what the unit will execute, and have systemd start it."""
    if isinstance(action, RunJob):
        mounts.mount_job(action)
        place, argv = mounts.MOUNTS / action.job, render.job_argv(machine, action)
    else:
        if label(action.name) or not mounts.right(action.uuid, action.base):
            raise FileExistsError("the unit is loaded, or root and node are not mounted so")
        place, argv = mounts.MOUNTS / action.uuid, render.agent_argv(machine, action)
        (place / "harness").write_text(render.harness(action.command), encoding="utf-8")
    (place / "argv").write_text("".join(f"{word}\0" for word in argv), encoding="utf-8")
    return act(*render.systemd_run(machine, action))
