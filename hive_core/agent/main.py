"""`hive-agent`: the client inside a container. It uses the standard library alone.

Every operation of the daemon is a command: its required parameters are positional, the others are
flags. The commands in OWN are more than one call. The daemon alone decides what is allowed.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from typing import Final

from hive_core import VERSION
from hive_core.agent import catalog, derived_commands, output
from hive_core.agent.reconnect import Link
from hive_core.errors import HiveError, Unreachable

SOCKET: Final = "/run/hive/broker.sock"
PARALLEL_MOST: Final = 64
SHORT: Final = {
    "agents": "list_agents", "logs": "get_logs", "jobs": "list_jobs", "tasks": "list_tasks",
    "inbox": "list_messages", "assign": "assign_task", "report": "finish_task", "rm": "destroy",
    "request": "request_apply_commit",
}  # fmt: skip
# Names that users know from other programs; the help does not list them.
HIDDEN: Final = {"ls": "list_agents", "ps": "list_agents", "tree": "list_agents", "log": "get_logs"}
OWN: Final = {
    "call": "Call a method with parameters in JSON.",
    "serve": "Run a command for each message and task; its output is the reply or the result.",
    "session": "Run a model as this agent: mail and tasks become turns, which survive a crash.",
    "mcp": "Serve the tools of this agent to a CLI, over MCP on standard input and output.",
    "forward": "Forward loopback TCP ports to Unix sockets, for programs that speak TCP only.",
    "gate": "Judge a use of a tool by a CLI: its hooks call this before and after each one.",
    "hold": "Keep the container running without doing anything; mail waits.",
    "config": "Clone the configuration of a descendant, to work on it.",
    "tool": "Use a tool: read, list, search or edit files of the workspace, or run a program.",
    "prompt": "Print the system prompt of this agent's session, and its SHA-256.",
    "exchange": "Send a message and wait for the answer to it.",
    "worker": "Run the built-in worker: execute the lines of each task, without a model.",
    "lead": "Run the built-in lead: split jobs, assign the parts, combine the results.",
    "queen": "Run the built-in queen: choose a strategy for each task, delegate it, report.",
    "maid": "Run the built-in maid: check agents and host at intervals, reap zombies, report.",
    "artifact": "Store a file as an artifact, or fetch one.",
    "attend": "Report the configuration and switch the system in place (a service of root).",
    "version": "Print the version of hive.",
}
COMMON: Final = (
    "serve", "whoami", "list_agents", "spawn", "assign_task", "finish_task", "send", "recv", "ask",
    "get_logs",
)  # fmt: skip


def _call(path: str, arguments: Sequence[str]) -> int:
    parser = derived_commands.parser_of("call", OWN["call"])
    parser.add_argument("method", help="GetLogs, get_logs, or a full method name")
    parser.add_argument("parameters", nargs="?", default="{}", help="JSON object; - reads it")
    parser.add_argument("--more", action="store_true", help="print each reply of a stream")
    options = parser.parse_args(arguments)
    text = sys.stdin.read() if options.parameters == "-" else options.parameters
    try:
        params = json.loads(text)
    except ValueError as error:
        parser.error(f"parameters are not JSON: {error}")
    if not isinstance(params, dict):
        parser.error("parameters are not a JSON object")
    method = catalog.full_method(options.method, catalog.load())
    with Link(path) as link:
        replies = link.stream(method, params) if options.more else [link.call(method, params)]
        for reply in replies:
            output.result(reply, "json")
    return 0


def _serve_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "hive-agent serve",
        usage="hive-agent serve [options] -- COMMAND...",
        description=OWN["serve"],
    )
    parser.add_argument(
        "--lease", type=int, default=60,
        help="seconds until the daemon redelivers an unacknowledged message (1-3600; default 60)",
    )  # fmt: skip
    parser.add_argument(
        "--timeout", type=float, help="seconds until a run is killed (default: no limit)"
    )
    parser.add_argument(
        "--parallel", type=int, default=1,
        help="number of tasks at once, unless the agent's spec sets it (1-64; default 1)",
    )  # fmt: skip
    parser.add_argument(
        "--kinds", default="message,task", metavar="KIND,...",
        help="kinds of mail that the command gets: message, task, notice (facts from the daemon),"
        " or the name of one kind of notice; other mail is only logged (default message,task)",
    )  # fmt: skip
    parser.add_argument(
        "--secret-env", action="append", default=[], metavar="[VARIABLE=]KEY",
        help="set the agent's secret KEY in the command's environment: as VARIABLE, or as API_KEY"
        " for the key api-key (repeatable)",
    )  # fmt: skip
    return parser


def _serve(path: str, arguments: Sequence[str]) -> int:
    # Imported here: the other commands start faster without subprocess and signal.
    from hive_core.agent import serve  # noqa: PLC0415
    from hive_core.agent.egress_port import open_egress  # noqa: PLC0415
    from hive_core.agent.secret_environment import parse_secrets  # noqa: PLC0415

    parser = _serve_parser()
    before, command = derived_commands.split_command(arguments)
    options = parser.parse_args(before)
    if not command:
        parser.error("no command; write hive-agent serve -- COMMAND...")
    if not 1 <= options.parallel <= PARALLEL_MOST:
        parser.error(f"--parallel must be 1 to {PARALLEL_MOST}")
    try:
        secrets = parse_secrets(options.secret_env)
    except ValueError as error:
        parser.error(f"--secret-env: {error}")
    kinds = frozenset(kind.strip() for kind in options.kinds.split(",") if kind.strip())
    if not kinds:
        parser.error("--kinds must name a kind: message, task, notice, or a kind of notice")
    open_egress(os.environ)
    work = serve.ServedCommand(
        command, options.lease, options.timeout, parallel=options.parallel,
        environment=dict(os.environ), kinds=kinds, secrets=secrets,
    )  # fmt: skip
    return serve.run_serve(path, work)


def _session(path: str, arguments: Sequence[str]) -> int:
    from hive_core.agent.egress_port import open_egress  # noqa: PLC0415
    from hive_core.agent.session import main as session_main  # noqa: PLC0415

    open_egress(os.environ)
    return session_main.run_session(path, arguments)


def _ask_child(path: str, arguments: Sequence[str]) -> int:
    from hive_core.agent.session.subagents import ask  # noqa: PLC0415

    return ask.run_child(path, arguments)


def _mcp(path: str, arguments: Sequence[str]) -> int:
    from hive_core.agent import mcp  # noqa: PLC0415

    argparse.ArgumentParser("hive-agent mcp", description=OWN["mcp"]).parse_args(arguments)
    mcp.run_mcp(path)


def _hold(_path: str, arguments: Sequence[str]) -> int:
    from hive_core.agent import serve  # noqa: PLC0415

    argparse.ArgumentParser("hive-agent hold", description=OWN["hold"]).parse_args(arguments)
    return serve.run_hold()


def _built_in_agent(name: str) -> Callable[[str, Sequence[str]], int]:
    """The command of a built-in agent."""

    def run(path: str, arguments: Sequence[str]) -> int:
        from hive_core.agent import agent_loop, lead, queen, worker  # noqa: PLC0415

        derived_commands.parser_of(name, OWN[name]).parse_args(arguments)
        minds = {"worker": worker.LineWorker, "lead": lead.Lead, "queen": queen.Queen}
        return agent_loop.run(path, minds[name])

    return run


def _maid(path: str, arguments: Sequence[str]) -> int:
    from hive_core.agent import maid  # noqa: PLC0415

    derived_commands.parser_of("maid", OWN["maid"]).parse_args(arguments)
    return maid.run_maid(path)


def _attend(path: str, arguments: Sequence[str]) -> int:
    from hive_core.agent import attend  # noqa: PLC0415

    derived_commands.parser_of("attend", OWN["attend"]).parse_args(arguments)
    attend.run_attend(path)


def _config(path: str, arguments: Sequence[str]) -> int:
    from hive_core.agent import config  # noqa: PLC0415

    return config.run_config(path, arguments)


def _tool(path: str, arguments: Sequence[str]) -> int:
    from hive_core.agent import tool  # noqa: PLC0415

    return tool.run_tool(path, arguments)


def _prompt(path: str, arguments: Sequence[str]) -> int:
    from hive_core.agent import prompt  # noqa: PLC0415

    return prompt.run_prompt(path, arguments)


def _exchange(path: str, arguments: Sequence[str]) -> int:
    from hive_core.agent import exchange  # noqa: PLC0415

    return exchange.run_exchange(path, arguments)


def _artifact(path: str, arguments: Sequence[str]) -> int:
    from hive_core.agent import artifacts  # noqa: PLC0415

    return artifacts.artifact(path, arguments)


def _gate(path: str, arguments: Sequence[str]) -> int:
    from hive_core.agent import gate  # noqa: PLC0415

    return gate.run_gate(path, arguments)


def _forward(path: str, arguments: Sequence[str]) -> int:
    from hive_core.agent import forward  # noqa: PLC0415

    forward.run_forward(path, arguments)


def _help(path: str, arguments: Sequence[str]) -> int:
    """`help` shows the common commands, `help --all` every one, `help COMMAND` that command."""
    from hive_core.agent.overview import common_commands, overview  # noqa: PLC0415

    if arguments and not arguments[0].startswith("-"):
        return run([arguments[0], "--help"], path)
    shorts = {long: short for short, long in SHORT.items()}
    if "--all" in arguments:
        lines = [*overview(catalog.load(), OWN, shorts), ""]
    else:
        lines = [*common_commands(catalog.load(), OWN, shorts, COMMON), ""]
        lines.append("`hive-agent help --all` lists every command.")
    lines.append("`hive-agent help COMMAND` describes a command.")
    output.line("\n".join(["usage: hive-agent COMMAND [arguments]", *lines]))
    return 0


def _version(_path: str, arguments: Sequence[str]) -> int:
    argparse.ArgumentParser("hive-agent version", description=OWN["version"]).parse_args(arguments)
    output.line(f"hive-agent {VERSION}")
    return 0


_COMMANDS: Final = {
    "serve": _serve, "session": _session, "mcp": _mcp, "hold": _hold, "attend": _attend,
    "forward": _forward, "gate": _gate, "worker": _built_in_agent("worker"),
    "lead": _built_in_agent("lead"), "queen": _built_in_agent("queen"), "maid": _maid,
    "call": _call, "config": _config, "tool": _tool, "prompt": _prompt, "exchange": _exchange,
    "artifact": _artifact, "version": _version, "--version": _version,
    "help": _help, "-h": _help, "--help": _help,
}  # fmt: skip
_THREADED: Final = frozenset({"serve", "session", "attend", "worker", "lead", "queen"})


def run(arguments: Sequence[str], path: str) -> int:
    """Run one command line; raise the error of a refusal."""
    name, *rest = arguments or ["help"]
    if name in _THREADED:
        from hive_core.agent import crash_report  # noqa: PLC0415 - only these have threads

        crash_report.report_threads("hive-agent")
    if name == "ask" and "--child" in rest:  # without it: the operation
        return _ask_child(path, rest)
    if name in _COMMANDS:
        return _COMMANDS[name](path, rest)
    operation = catalog.load().get({**HIDDEN, **SHORT}.get(name, name))
    if operation is None:
        output.complaint(f"no command {name!r}; `hive-agent help --all` lists all commands")
        return 2
    return derived_commands.run_operation(path, operation, rest)


def main() -> None:
    """Entry point: a failure is one line on standard error, and the exit code of its error."""
    try:
        status = run(sys.argv[1:], os.environ.get("HIVE_SOCKET", SOCKET))
    except Unreachable as error:
        output.complaint(f"{error.reason}: is hived running?")
        status = error.exit_code
    except HiveError as error:
        output.complaint(output.sentence(error))
        status = error.exit_code
    except BrokenPipeError:
        # The reader closed the pipe; Python would report that again when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 1
    except OSError as error:
        # For example a file that does not exist or cannot be written.
        place = "" if error.filename is None else f"{error.filename}: "
        output.complaint(f"{place}{error.strerror or error}")
        status = 1
    except KeyboardInterrupt:
        status = 130
    except Exception as error:  # noqa: BLE001 - a fault of the program becomes one line
        from hive_core.agent import crash_report  # noqa: PLC0415 - only a fault needs it

        output.complaint(crash_report.write_report("hive-agent", error))
        status = 1
    sys.exit(status)


if __name__ == "__main__":
    main()
