"""`hive-agent`: the client inside a container. Standard library only; decides nothing.

Every operation of the daemon is a command; its required parameters are positional, the others
flags. `call`, `serve` and `hold` are the ones that are more than one call.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from typing import Final

from hive_core.agent import catalog, derived_commands, output
from hive_core.agent.reconnect import Link
from hive_core.errors import HiveError, Unreachable

SOCKET: Final = "/run/hive/broker.sock"
PARALLEL_MOST: Final = 64
SHORT: Final = {
    "agents": "list_agents", "logs": "get_logs", "jobs": "list_jobs",
    "request": "request_apply_commit",
}  # fmt: skip
OWN: Final = {
    "call": "Call a method with parameters in JSON.",
    "serve": "Run a command for every message; what it prints is the reply.",
    "hold": "Do nothing; mail waits.",
    "config": "Clone the configuration of an agent below you, to work on it.",
    "tool": "Use a tool: read or edit a file of the workspace, or run a program.",
    "exchange": "Send a message and wait for the answer to it.",
    "worker": "Be the built-in worker: do the lines of each task (no model behind it).",
    "lead": "Be the built-in lead: split jobs, have workers do them, put results together.",
    "queen": "Be the built-in queen: choose how each task is done, have it done, report.",
    "maid": "Look around now and then, clear away what ended, report: the built-in maid.",
    "artifact": "Store a file as an artifact, or fetch one.",
    "attend": "Say hello and switch the system in place, for ever (a service of root).",
}


def _call(path: str, arguments: Sequence[str]) -> int:
    parser = derived_commands.parser_of("call", OWN["call"])
    parser.add_argument("method", help="GetLogs, get_logs, or a full method name")
    parser.add_argument("parameters", nargs="?", default="{}", help="JSON object; - reads it")
    parser.add_argument("--more", action="store_true", help="print each reply of a stream")
    options = parser.parse_args(arguments)
    text = sys.stdin.read() if options.parameters == "-" else options.parameters
    try:
        given = json.loads(text)
    except ValueError as error:
        parser.error(f"parameters are not JSON: {error}")
    if not isinstance(given, dict):
        parser.error("parameters are not a JSON object")
    method = catalog.full_method(options.method, catalog.load())
    with Link(path) as link:
        replies = link.stream(method, given) if options.more else [link.call(method, given)]
        for reply in replies:
            output.result(reply, "json")
    return 0


def _serve(path: str, arguments: Sequence[str]) -> int:
    # Imported here by name: subprocess and signal cost what the other commands do not need.
    from hive_core.agent import serve  # noqa: PLC0415

    parser = argparse.ArgumentParser(
        "hive-agent serve",
        usage="hive-agent serve [options] -- COMMAND...",
        description=OWN["serve"],
    )
    parser.add_argument("--lease", type=int, default=60, help="seconds until a message that was "
                        "not acknowledged comes again (1-3600)")  # fmt: skip
    parser.add_argument("--timeout", type=float, help="seconds that one run may take")
    parser.add_argument("--parallel", type=int, default=1, help="tasks at once where the spec of "
                        "the agent says nothing (1-64; 1)")  # fmt: skip
    parser.add_argument("--kinds", default="message,task", metavar="KIND,...", help="what the "
                        "command is given: message, task, notice (what the daemon tells by itself),"
                        " or kinds of notices by name; the rest is logged (message,task)",
                        )  # fmt: skip
    before, command = derived_commands.split_command(arguments)
    options = parser.parse_args(before)
    if not command:
        parser.error("the command is missing: hive-agent serve -- COMMAND...")
    if not 1 <= options.parallel <= PARALLEL_MOST:
        parser.error(f"--parallel has to be 1 to {PARALLEL_MOST}")
    kinds = frozenset(each.strip() for each in options.kinds.split(",") if each.strip())
    if not kinds:
        parser.error("--kinds has to name a kind: message, task, notice, or that of a notice")
    work = serve.ServedCommand(
        command, options.lease, options.timeout, parallel=options.parallel,
        environment=dict(os.environ), kinds=kinds,
    )  # fmt: skip
    return serve.run_serve(path, work)


def _hold(_path: str, _arguments: Sequence[str]) -> int:
    from hive_core.agent import serve  # noqa: PLC0415

    return serve.run_hold()


def _built_in_agent(name: str) -> Callable[[str, Sequence[str]], int]:
    """One of the agents that come with hive."""

    def run(path: str, arguments: Sequence[str]) -> int:
        from hive_core.agent import agent_loop, lead, queen, worker  # noqa: PLC0415

        derived_commands.parser_of(name, OWN[name]).parse_args(arguments)
        minds = {"worker": worker.Worker, "lead": lead.Lead, "queen": queen.Queen}
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


def _exchange(path: str, arguments: Sequence[str]) -> int:
    from hive_core.agent import exchange  # noqa: PLC0415

    return exchange.run_exchange(path, arguments)


def _artifact(path: str, arguments: Sequence[str]) -> int:
    from hive_core.agent import artifacts  # noqa: PLC0415

    return artifacts.artifact(path, arguments)


def _help(_path: str, _arguments: Sequence[str]) -> int:
    from hive_core.agent.overview import overview  # noqa: PLC0415

    shorts = {long: short for short, long in SHORT.items()}
    lines = overview(catalog.load(), OWN, shorts)
    end = ("", "hive-agent COMMAND --help tells more.")
    output.line("\n".join(["usage: hive-agent COMMAND [arguments]", *lines, *end]))
    return 0


_COMMANDS: Final = {
    "serve": _serve, "hold": _hold, "attend": _attend, "worker": _built_in_agent("worker"),
    "lead": _built_in_agent("lead"), "queen": _built_in_agent("queen"), "maid": _maid,
    "call": _call, "config": _config, "tool": _tool, "exchange": _exchange,
    "artifact": _artifact,
    "help": _help, "-h": _help, "--help": _help,
}  # fmt: skip
_THREADED: Final = frozenset({"serve", "attend", "worker", "lead", "queen"})


def run(arguments: Sequence[str], path: str) -> int:
    """Carry out one command line; raises what the daemon refuses."""
    name, *rest = arguments or ["help"]
    if name in _THREADED:
        from hive_core.agent import crash_report  # noqa: PLC0415 - they run for long

        crash_report.report_threads("hive-agent")
    if name in _COMMANDS:
        return _COMMANDS[name](path, rest)
    wanted = catalog.load().get(SHORT.get(name, name))
    if wanted is None:
        output.complaint(f"no command {name!r}; hive-agent --help lists them")
        return 2
    return derived_commands.run_operation(path, wanted, rest)


def main() -> None:
    """Entry point: exit codes are those of CONTRACT, one line says why."""
    try:
        status = run(sys.argv[1:], os.environ.get("HIVE_SOCKET", SOCKET))
    except Unreachable as error:
        output.complaint(f"{error.reason}: is hived running?")
        status = error.exit_code
    except HiveError as error:
        output.complaint(output.sentence(error))
        status = error.exit_code
    except BrokenPipeError:
        # The reader went away; Python would complain once more when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 1
    except OSError as error:
        # A file that is not there, or that it may not write.
        place = "" if error.filename is None else f"{error.filename}: "
        output.complaint(f"{place}{error.strerror or error}")
        status = 1
    except KeyboardInterrupt:
        status = 130
    except Exception as error:  # noqa: BLE001 - the edge: a fault of ours becomes a line
        from hive_core.agent import crash_report  # noqa: PLC0415 - nobody else needs it

        output.complaint(crash_report.write_report("hive-agent", error))
        status = 1
    sys.exit(status)


if __name__ == "__main__":
    main()
