"""Attackers: the root of an agent, confined as the agent's own services are, and hived's user."""

import os

from e2e.privdhost import Agent, PrivdHost

from hive_core.plan.actions import STORAGE_BASE

PYTHON = "#!/usr/bin/python3 -I\nimport ctypes, os, socket, sys, time\nLIBC = ctypes.CDLL(None)\n"
# Both kinds of agents: who boots can mount, who does not is confined further.
KINDS = ("plain", "booted")


def both(host: PrivdHost) -> dict[str, Agent]:
    """Start an agent of each kind."""
    return {"plain": host.running(), "booted": host.running(boot=True, command=())}


def attack(host: PrivdHost, agent: Agent, script: str) -> str:
    """Run a Python script as root of the container, confined as its own services are."""
    state = host.lab.path(agent.node / "state")
    (state / "attack").write_text(PYTHON + script)
    os.chown(state / "attack", STORAGE_BASE, STORAGE_BASE)
    if not agent.boot:
        return host.say(agent, "python3 -I attack", check=False)
    run = ["systemd-run", "--quiet", "--wait", "--pipe", "--working-directory=/tree/state"]
    return host.enter(agent, *run, "sh", "-c", "python3 -I attack 2>&1")


def as_hive(host: PrivdHost, script: str) -> str:
    """Run a shell script with the rights of hived."""
    hive = ["setpriv", "--reuid=hive", "--regid=hive", "--clear-groups", "sh", "-c", script]
    done = host.lab.run(hive, check=False)
    return done.stdout + done.stderr
