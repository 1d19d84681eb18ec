"""`hive setup` and `hive teardown`: make this machine a hive host, and undo it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from hive_core.cli.install import layout, steps
from hive_core.cli.install.machine import Machine, settings
from hive_core.cli.output import echo, say
from hive_core.cli.progress import working
from hive_core.cli.session import Session
from hive_core.errors import NotAllowed, TimedOut


def need_root(doing: str) -> None:
    """Refuse anybody else."""
    if os.geteuid() != 0:
        raise NotAllowed(f"cannot {doing} this machine: only root may; try it with sudo")


def root_agent(config: Path) -> tuple[str, bool]:
    """Name of the root agent by the settings, and whether it is started by itself."""
    found = settings(config).get("root")
    root = found if isinstance(found, dict) else {}
    return str(root.get("name", "root")), bool(root.get("autostart", True))


def _await_root(session: Session) -> None:
    name, wanted = root_agent(Path(layout.CONFIG))
    if not wanted:
        return
    states = ["running", "degraded", "stopped", "sleeping"]
    found = session.ask("wait_agents", agents=[name], states=states, wait=50)
    if not found.get("done"):
        raise TimedOut(f"the agent {name} does not run; `hive logs {name}` may tell why")


@click.command
@click.pass_obj
def setup(session: Session) -> None:
    """Make this machine a hive host; safe to repeat."""
    need_root("set up")
    done: list[str] = []

    def tell(text: str) -> None:
        done.append(text)
        echo(text)

    machine = Machine(tell)
    if not steps.by_configuration(machine):
        steps.check(lambda text: say(f"warning: {text}"))
        with working("setting up"):
            steps.install(machine)
    with working("starting the root agent"):
        _await_root(session)
    echo("this machine is a hive host" + ("" if done else "; there was nothing to do"))


@click.command
@click.option("--purge", is_flag=True, help="Also remove all agents' files, the settings and the "
              "accounts; this cannot be undone.")  # fmt: skip
@click.option("--yes", is_flag=True, help="Do not ask.")
def teardown(*, purge: bool, yes: bool) -> None:
    """Stop all agents and the daemons and remove their units."""
    need_root("tear down")
    if purge and not yes and sys.stdin.isatty():
        click.confirm("Remove every agent with all its files?", abort=True, err=True)
    machine = Machine(echo)
    with working("stopping"):
        steps.remove(machine)
    if purge:
        steps.purge(machine)
