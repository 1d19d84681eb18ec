"""`hive`: the operator's command. Data goes to standard output, messages to standard error."""

from __future__ import annotations

import os
import re
import sys
from typing import TYPE_CHECKING, Final, Never

import click

from hive_core import VERSION
from hive_core.agent.output import sentence
from hive_core.cli.core.lazy import Group, suggestion
from hive_core.cli.core.output import block
from hive_core.cli.core.session import Session
from hive_core.cli.start import SOCKET
from hive_core.errors import HiveError, NotFound, TimedOut, Unreachable
from hive_core.varlink import SILENCE

if TYPE_CHECKING:
    from typing_extensions import override
else:  # importing typing_extensions would cost a tenth of the start

    def override(method: object) -> object:
        return method


INTERRUPTED: Final = 130
# The error of the daemon for an unknown agent; the name is the word that the operator typed.
_UNKNOWN: Final = re.compile(r"no such agent: (\S+)$")

# Command -> the module of this package that has it.
COMMANDS: Final = {
    "setup": "host.setup", "teardown": "host.setup", "migrate": "host.migrate",
    "status": "host.status", "tree": "agents.tree", "agent": "agents.agent",
    "declare": "config.declare", "start": "agents.lifecycle", "stop": "agents.lifecycle",
    "restart": "agents.lifecycle", "kill": "agents.lifecycle", "sleep": "agents.lifecycle",
    "resume": "agents.lifecycle", "update": "agents.lifecycle", "destroy": "agents.tree_changes",
    "restore": "agents.tree_changes", "move": "agents.tree_changes", "send": "work.send",
    "inbox": "work.inbox", "queue": "work.queues", "publish": "work.queues", "chat": "work.chat",
    "logs": "host.records", "events": "host.records", "todo": "host.todo",
    "question": "work.questions", "escalation": "work.escalations", "remind": "work.reminders",
    "reminder": "work.reminders", "trigger": "work.triggers", "artifact": "work.artifacts",
    "task": "work.tasks", "turn": "work.turns", "plan": "work.plans",
    "approval": "config.approvals",
    "rollback": "config.history", "history": "config.history", "shell": "agents.shell",
    "session": "agents.conversations:session_group",
    "cp": "agents.copy", "call": "core.call", "cap": "agents.rights", "secret": "agents.secrets",
    "allow": "agents.rights", "disallow": "agents.rights", "why": "agents.rights",
    "converge": "host.converge", "gc": "host.converge", "survey": "agents.survey",
    "top": "agents.top", "watch": "agents.watch_agent", "reap": "agents.survey",
    "wait": "work.wait", "doctor": "host.doctor",
    "config": "config.check", "meta": "config.meta", "role": "agents.roles", "tool": "agents.roles",
    "definition": "agents.definitions", "prompt": "config.prompts",
    "metrics": "host.metrics", "cost": "work.budgets", "budget": "work.budgets",
    "completion": "core.completion", "help": "core.help", "version": "core.help",
    "quarantine": "agents.quarantine", "model": "config.models", "phase": "agents.phases",
    "runtime": "host.runtime", "web": "host.web",
}  # fmt: skip
# Names that work but are not in the help: those of other programs, and of older releases.
UNLISTED: Final = {
    "approvals": "config.approvals:approval", "escalations": "work.escalations:list_escalations",
    "reminders": "work.reminders", "tools": "agents.roles:list_tools",
    "turns": "work.turns:list_turns",
    "create": "agents.create", "archive": "agents.tree_changes:restore",
    "ls": "agents.agent:list_agents", "ps": "agents.agent:list_agents",
    "rm": "agents.tree_changes:destroy", "exec": "agents.shell:shell",
}  # fmt: skip

# As `hive --help` prints them.
COMMON: Final = "status todo tree agent start stop logs chat task approval"
# As `hive help --all` prints them.
SECTIONS: Final = {
    "What is going on": "status todo tree top watch survey events logs cost doctor",
    "Agents": "agent declare start stop restart kill sleep resume update move destroy restore reap"
    " shell cp session phase",
    "Messages": "chat send inbox question escalation remind reminder queue publish",
    "Work": "task turn plan trigger artifact budget wait",
    "Configuration and rights": "approval history rollback config definition prompt role tool why"
    " cap allow disallow secret quarantine model",
    "The host": "setup teardown web migrate converge gc metrics meta call completion runtime help"
    " version",
}
_MORE: Final = """
`hive help --all` lists all commands, `hive help COMMAND` describes one. `hive setup` makes this
machine a hive host.
"""


class HiveGroup(Group):
    """The command `hive` itself."""

    lazy = COMMANDS
    unlisted = UNLISTED

    @override
    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        self.section("Common commands", COMMON.split(), ctx, formatter)

    @override
    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        del ctx
        formatter.write_paragraph()
        formatter.write_text(" ".join(_MORE.split()))

    @override
    def format_all_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write every command under its heading."""
        for heading, names in SECTIONS.items():
            self.section(heading, names.split(), ctx, formatter)


@click.group(
    "hive",
    cls=HiveGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option(
    "--socket", envvar="HIVE_OPERATOR_SOCKET", default=SOCKET, show_default=True,
    help="Socket of the daemon.",
)  # fmt: skip
@click.version_option(VERSION, prog_name="hive", message="%(prog)s %(version)s")
@click.pass_context
def hive(ctx: click.Context, socket: str) -> None:
    """Run a tree of agents, each in a container of its own, and approve their configurations."""
    ctx.obj = session = Session(socket)
    ctx.call_on_close(session.close)
    if os.environ.get("NO_COLOR"):
        ctx.color = False


def explanation(error: HiveError, session: Session) -> str:
    """One line with the reason, and with advice where there is some.

    `service` of an error: what is not reached in place of hived; empty: none of this host's.
    """
    service = error.fields.get("service", "hived")
    if isinstance(error, Unreachable) and service:
        if "Permission denied" in error.reason:
            return f"{error.reason}; operators are root and the members of group hive-operator"
        return f"{error.reason}; is {service} running? (`systemctl status {service}`, `hive setup`)"
    if isinstance(error, TimedOut) and error.reason == SILENCE:
        return f"{error.reason}; is hived running? (`hive doctor`)"
    unknown = _UNKNOWN.search(error.reason) if isinstance(error, NotFound) else None
    near = suggestion(unknown[1], session.names()) if unknown else ""
    return sentence(error) + near


def _invoke(context: click.Context) -> int:
    try:
        status = hive.invoke(context)
    except HiveError as error:
        complain(explanation(error, context.find_object(Session) or Session(SOCKET)))
        return error.exit_code
    return status if isinstance(status, int) else 0


def complain(text: str) -> None:
    click.echo(f"hive: {block(text)}", err=True)


def run(arguments: list[str]) -> int:
    """Run one command line, report its failure, and return its exit status."""
    try:
        with hive.make_context("hive", arguments) as context:
            status = _invoke(context)
    except click.exceptions.Exit as end:
        status = end.exit_code
    except click.ClickException as error:
        error.show()
        status = error.exit_code
    except BrokenPipeError:
        # The reader has closed the pipe; Python would report that again when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 1
    except OSError as error:
        complain(": ".join(str(part) for part in (error.filename, error.strerror or error) if part))
        status = 1
    except click.Abort:  # of a question, and each comes before anything is done
        complain("nothing was changed")
        status = INTERRUPTED
    except KeyboardInterrupt:
        click.echo(err=True)
        status = INTERRUPTED
    except Exception as error:  # noqa: BLE001 - the top: a fault of ours becomes a line
        report_fault(error)
        status = 1
    return status


def report_fault(error: Exception) -> None:
    """Say where the report of a fault of `hive` is."""
    from hive_core.agent import crash_report  # noqa: PLC0415 - tempfile and platform are slow

    complain(crash_report.write_report("hive", error))


def _leave(status: int) -> Never:
    """Exit at once: the shutdown of the interpreter takes a tenth of the time of a command."""
    try:
        sys.stdout.flush()
    except OSError as error:
        if not status and not isinstance(error, BrokenPipeError):
            complain(f"standard output: {error.strerror}")
        status = status or 1
    os._exit(status)


def _open_standard_streams() -> None:
    """Open /dev/null for each closed standard stream, so that no socket gets its number."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: PTH123, SIM115 - pathlib is slow


def main() -> None:
    """Entry point; an environment variable makes click print completions."""
    _open_standard_streams()
    if "_HIVE_COMPLETE" in os.environ:
        hive.main(prog_name="hive")
    _leave(run(sys.argv[1:]))
