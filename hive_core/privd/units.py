"""The door to systemd: transient units of agents and jobs, and slices."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from hive_core.model.names import agent_unit
from hive_core.plan import render
from hive_core.plan.actions import KillUnit, RunJob, SetSlice, StartUnit, StopUnit
from hive_core.privd import mounts


def run(*argv: str) -> str:
    """Run a program of systemd; nothing of our environment reaches it but the path."""
    environment = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"}
    done = subprocess.run(argv, capture_output=True, text=True, timeout=30, env=environment)
    if done.returncode:
        raise OSError(f"{argv[0]}: {done.stderr.strip()[-500:]}")
    return done.stdout


def host() -> render.Host:
    """Look at what rendering has to know about this machine."""
    version = run("systemctl", "--version").split()[1]
    shared = tuple(part for part in render.SHARED if os.path.exists(f"/{part}"))
    # Since 257 systemd-nspawn opens it for every container with a user namespace.
    tun = int(version[:3]) >= 257 and os.path.exists("/dev/net/tun")
    return render.Host(str(Path(__file__).parents[1]), shared, tun)


def show(name: str) -> dict[str, str]:
    """Give what identifies the unit of this name, whether or not it is loaded."""
    wanted = "Description,ActiveState,MainPID,ControlGroup"
    lines = run("systemctl", "show", "-p", wanted, agent_unit(name)).splitlines()
    return dict(line.split("=", 1) for line in lines)


def ours(name: str, uuid: str) -> dict[str, str]:
    """Give the unit of this agent; one of another agent with this name is not found."""
    properties = show(name)
    if not properties["Description"].startswith(f"hive agent {uuid} "):
        raise FileNotFoundError(f"{agent_unit(name)} does not run this agent")
    return properties


def signal(action: StopUnit | KillUnit, *verb: str) -> bool:
    """Stop or kill the unit of an agent."""
    ours(action.name, action.uuid)
    run("systemctl", *verb, agent_unit(action.name))
    return True


def set_slice(action: SetSlice) -> bool:
    """Set the limits of a slice, loaded or not."""
    run(*render.set_slice(action))
    return True


def start(machine: render.Host, action: StartUnit | RunJob) -> bool:
    """Check, write down what the unit will execute, and have systemd start it."""
    if isinstance(action, RunJob):
        mounts.mount_job(action)
        files = {"argv": "\0".join(render.job_argv(machine, action)), "uuid": action.job}
    else:
        _check(action)
        files = {"argv": "\0".join(render.agent_argv(machine, action)), "uuid": action.uuid}
        files["harness"] = render.harness(action.command)
    place = Path(render.RUN, "units", files.pop("uuid"))
    place.mkdir(exist_ok=True)
    for name, text in files.items():
        place.joinpath(name).write_text(text, encoding="utf-8")
    run(*render.systemd_run(machine, action))
    return True


def _check(action: StartUnit) -> None:
    if not mounts.right(action.uuid, action.base):
        raise FileExistsError("root and node are not mounted with this range")
    if (state := show(action.name)["ActiveState"]) != "inactive":
        raise FileExistsError(f"{agent_unit(action.name)} is {state}")
