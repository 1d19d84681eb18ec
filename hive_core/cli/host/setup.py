"""`hive setup` and `hive teardown`: make this machine a hive host, and undo it."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

import click

from hive_core.cli.agents.definitions import load_missing
from hive_core.cli.core.options import yes_option
from hive_core.cli.core.output import echo, say
from hive_core.cli.core.progress import working
from hive_core.cli.core.session import Session
from hive_core.cli.host.install import layout, steps
from hive_core.cli.host.install.login_services import install_login_services, renew_tokens
from hive_core.cli.host.install.machine import HostMachine, settings
from hive_core.errors import NotAllowed, TimedOut

_NAMED: Final = 10  # agents that a question names


def need_root(doing: str) -> None:
    """Refuse every user but root."""
    if os.geteuid() != 0:
        raise NotAllowed(f"cannot {doing} this machine: only root may; try sudo")


def root_agent(config: Path) -> tuple[str, bool]:
    """Name of the root agent in the settings, and whether the daemon starts it."""
    value = settings(config).get("root")
    root = value if isinstance(value, dict) else {}
    return str(root.get("name", "root")), bool(root.get("autostart", True))


def _await_root(session: Session) -> None:
    name, wanted = root_agent(Path(layout.CONFIG))
    if not wanted:
        return
    states = ["running", "degraded", "stopped", "sleeping"]
    reply = session.ask("wait_agents", agents=[name], states=states, wait=50)
    if not reply.get("done"):
        raise TimedOut(f"the agent {name} does not run; see `hive logs {name}`")


def _check_settings() -> None:
    """Refuse settings with which the daemons would not start, before any change."""
    # pydantic is slow to load
    from hive_core.host.config.settings import load  # noqa: PLC0415
    from hive_core.model.config.models import parse_models  # noqa: PLC0415

    load(Path(layout.CONFIG))
    models = Path(layout.MODELS)
    parse_models(models.read_text(encoding="utf-8") if models.exists() else "")


@click.command
@click.option(
    "--tokens", "only_tokens", is_flag=True,
    help="Only make the tokens of hive-notify and hive-otel, where hive.toml has a receiver and the"
    " token is missing or ends within 30 days, and end that of one without a receiver. The NixOS"
    " module runs this.",
)  # fmt: skip
@click.pass_obj
def setup(session: Session, *, only_tokens: bool) -> None:
    """Make this machine a hive host, with completion and manual pages; safe to repeat."""
    need_root("set up")
    if only_tokens:
        renew_tokens(HostMachine(echo), session)
        return
    done: list[str] = []

    def tell(text: str) -> None:
        done.append(text)
        echo(text)

    machine = HostMachine(tell)
    is_nixos = steps.by_configuration(machine)
    if not is_nixos:
        steps.check(lambda text: say(f"warning: {text}"))
        _check_settings()
        with working("setting up"):
            steps.install(machine)
    with working("starting the root agent"):
        _await_root(session)
    if is_nixos:
        renew_tokens(machine, session)
    else:
        install_login_services(machine, session)
    if names := load_missing(session):
        tell(f"loaded definitions: {', '.join(names)}")
    echo("this machine is a hive host" + ("" if done else "; there was nothing to do"))
    if steps.has_dashboard():
        say("the dashboard: `hive web login` prints a link that opens it")


@click.command
@click.option(
    "--purge", is_flag=True,
    help="Also remove the files of all agents, the settings and the accounts; this cannot be"
    " undone.",
)  # fmt: skip
@yes_option
def teardown(*, purge: bool, yes: bool) -> None:
    """Stop all agents and the daemons and remove their units.

    The command prints what it stops, and asks for confirmation. Files, settings and accounts stay,
    and `hive setup` brings every agent back; with --purge they are removed too.
    """
    need_root("tear down")
    steps.check_removable()
    machine = HostMachine(echo)
    if not yes:
        _confirm(machine, purge=purge)
    with working("stopping"):
        steps.remove(machine)
    if purge:
        with working("removing"):
            steps.purge(machine)


def _confirm(machine: HostMachine, *, purge: bool) -> None:
    """Print what will be stopped, and ask at the terminal."""
    if not sys.stdin.isatty():
        raise click.UsageError("standard input is not a terminal: teardown needs --yes")
    running = steps.running_agents(machine)
    agents = ", ".join(running[:_NAMED]) + (" and others" if running[_NAMED:] else "")
    *first, last = layout.programs()
    say(f"This stops {len(running)} running agents{f' ({agents})' if running else ''},"
        f" {', '.join(first)} and {last}, and removes their units.")  # fmt: skip
    if purge:
        say("It then removes every agent with all its files, the settings and the accounts; this"
            " cannot be undone.")  # fmt: skip
    else:
        say("Files, settings and accounts stay; `hive setup` brings every agent back.")
    click.confirm("Go on?", abort=True, err=True)
