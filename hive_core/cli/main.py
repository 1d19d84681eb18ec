"""`hive`: the operator's command. Data goes to standard output, talk to standard error."""

from __future__ import annotations

import os
import re
import sys
from typing import Final, Never

import click

from hive_core import VERSION
from hive_core.agent.output import sentence
from hive_core.cli.core.lazy import LazyGroup, meant
from hive_core.cli.core.output import block
from hive_core.cli.core.session import Session
from hive_core.errors import HiveError, NotFound, TimedOut, Unreachable
from hive_core.varlink import SILENCE

SOCKET: Final = "/run/hive/operator.sock"
INTERRUPTED: Final = 130
# How the daemon says that it knows no such agent; the name is what the operator typed.
_UNKNOWN: Final = re.compile(r"no such agent: (\S+)$")

# Command -> the module of this package that has it.
COMMANDS: Final = {
    "setup": "host.setup", "teardown": "host.setup", "migrate": "host.migrate",
    "status": "host.status", "tree": "agents.tree", "agent": "agents.tree_changes",
    "declare": "config.declare", "start": "agents.lifecycle", "stop": "agents.lifecycle",
    "restart": "agents.lifecycle", "kill": "agents.lifecycle", "sleep": "agents.lifecycle",
    "resume": "agents.lifecycle", "update": "agents.lifecycle", "destroy": "agents.tree_changes",
    "restore": "agents.tree_changes", "move": "agents.tree_changes", "send": "work.mail",
    "inbox": "work.mail", "queue": "work.queues", "publish": "work.queues", "chat": "work.chat",
    "logs": "host.records", "events": "host.records", "todo": "host.todo",
    "question": "work.questions", "escalations": "work.questions", "remind": "work.questions",
    "reminders": "work.questions", "trigger": "work.triggers", "artifact": "work.artifacts",
    "task": "work.tasks", "plan": "work.plans", "approvals": "config.approvals",
    "rollback": "config.history", "history": "config.history", "shell": "agents.shell",
    "call": "core.call", "cap": "agents.rights", "secret": "agents.secrets",
    "allow": "agents.rights", "disallow": "agents.rights", "why": "agents.rights",
    "converge": "host.converge", "gc": "host.converge", "survey": "agents.survey",
    "reap": "agents.survey", "wait": "work.wait", "doctor": "host.doctor", "config": "config.check",
    "meta": "config.meta", "role": "agents.roles", "tools": "agents.roles",
    "definition": "agents.definitions", "metrics": "host.metrics", "cost": "work.budgets",
    "budget": "work.budgets", "completion": "core.completion",
}  # fmt: skip


# As `hive --help` prints them.
SECTIONS: Final = {
    "What is going on": "status tree todo events logs survey cost doctor",
    "Agents": "agent declare start stop restart kill sleep resume update move destroy restore reap"
    " shell",
    "Talk": "chat send inbox question escalations remind reminders queue publish",
    "Work": "task plan trigger artifact budget wait",
    "What agents are, and may do": "approvals history rollback config definition role tools why cap"
    " allow disallow secret",
    "The host": "setup teardown migrate converge gc metrics meta call completion",
}


class Hive(LazyGroup):
    table = COMMANDS
    sections = SECTIONS


@click.group(
    "hive",
    cls=Hive,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option(
    "--socket", envvar="HIVE_OPERATOR_SOCKET", default=SOCKET, show_default=True,
    help="Where the daemon listens.",
)  # fmt: skip
@click.version_option(VERSION, prog_name="hive", message="%(prog)s %(version)s")
@click.pass_context
def hive(ctx: click.Context, socket: str) -> None:
    """Run a tree of agents, each in a container of its own, and decide what they may become."""
    ctx.obj = session = Session(socket)
    ctx.call_on_close(session.close)
    if os.environ.get("NO_COLOR"):
        ctx.color = False


def why(error: HiveError, session: Session) -> str:
    """One line that says why, and what to do where that is known."""
    if isinstance(error, Unreachable):
        if "Permission denied" in error.reason:
            return f"{error.reason}; operators are root and the members of group hive-operator"
        return f"{error.reason}; is hived running? (`systemctl status hived`, `hive setup`)"
    if isinstance(error, TimedOut) and error.reason == SILENCE:
        return f"{error.reason}; is hived running? (`hive doctor`)"
    unknown = _UNKNOWN.search(error.reason) if isinstance(error, NotFound) else None
    near = meant(unknown[1], session.names()) if unknown else ""
    return sentence(error) + near


def _invoke(context: click.Context) -> int:
    try:
        status = hive.invoke(context)
    except HiveError as error:
        complain(why(error, context.find_object(Session) or Session(SOCKET)))
        return error.exit_code
    return status if isinstance(status, int) else 0


def complain(text: str) -> None:
    click.echo(f"hive: {block(text)}", err=True)


def run(arguments: list[str]) -> int:
    """Carry out one command line and say why it failed, if it did."""
    try:
        with hive.make_context("hive", arguments) as context:
            status = _invoke(context)
    except click.exceptions.Exit as end:
        status = end.exit_code
    except click.ClickException as error:
        error.show()
        status = error.exit_code
    except BrokenPipeError:
        # The reader went away; Python would complain once more when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 1
    except OSError as error:
        complain(": ".join(str(each) for each in (error.filename, error.strerror or error) if each))
        status = 1
    except (click.Abort, KeyboardInterrupt):
        click.echo(err=True)
        status = INTERRUPTED
    except Exception as error:  # noqa: BLE001 - the edge: a fault of ours becomes a line
        complain(_report(error))
        status = 1
    return status


def _report(error: Exception) -> str:
    from hive_core.agent import crash_report  # noqa: PLC0415 - tempfile and platform are slow

    return crash_report.write("hive", error)


def _leave(status: int) -> Never:
    """End at once: Python would take itself apart first, for a tenth of what a command takes."""
    try:
        sys.stdout.flush()
    except OSError as error:
        if not status and not isinstance(error, BrokenPipeError):
            complain(f"standard output: {error.strerror}")
        status = status or 1
    os._exit(status)


def _all_open() -> None:
    """What was closed leads nowhere; else Python has none, and a socket would get its number."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: PTH123, SIM115 - pathlib is slow


def main() -> None:
    """Entry point; completion is click's own, asked for by an environment variable."""
    _all_open()
    if "_HIVE_COMPLETE" in os.environ:
        hive.main(prog_name="hive")
    _leave(run(sys.argv[1:]))
