"""`hive call`: calls any method of the daemon, as the operator or as an agent in its container."""

from __future__ import annotations

import json
import sys

import click

from hive_core.agent import catalog
from hive_core.agent.output import as_json
from hive_core.cli.agents import enter
from hive_core.cli.core.lazy import suggestion
from hive_core.cli.core.output import echo
from hive_core.cli.core.session import Session, complete_agent
from hive_core.errors import MethodNotFound
from hive_core.varlink import Message


def _parameters(text: str) -> Message:
    source = sys.stdin.read() if text == "-" else text
    try:
        params = json.loads(source)
    except ValueError as error:
        raise click.UsageError(f"parameters are not JSON: {error}") from error
    if not isinstance(params, dict):
        raise click.UsageError("parameters are not a JSON object")
    return params


def _full_name(name: str) -> str:
    if "." in name:
        return name
    operations = catalog.load()
    try:
        return catalog.full_method(name, operations)
    except MethodNotFound as error:
        near = suggestion(name.replace("-", "_"), operations.names)
        raise MethodNotFound(f"{name}{near}") from error


def _complete(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    return [name for name in catalog.load().names if name.startswith(incomplete)]


@click.command
@click.argument("method", shell_complete=_complete)
@click.argument("parameters", metavar="[JSON]", default="{}")
@click.option(
    "--as",
    "name",
    metavar="NAME",
    shell_complete=complete_agent,
    help="Call from inside the container of NAME, with its rights; only root may.",
)
@click.option("--more", is_flag=True, help="Print each reply of a stream.")
@click.pass_obj
def call(session: Session, method: str, parameters: str, name: str | None, *, more: bool) -> int:
    """Call METHOD with parameters in JSON.

    METHOD is a name such as get_logs or GetLogs, or a full Varlink name. - reads the parameters
    from standard input.
    """
    full_name, params = _full_name(method), _parameters(parameters)
    if name is not None:
        streamed = ["--more"] if more else []
        command = ["hive-agent", "call", full_name, as_json(params), *streamed]
        return enter.run_without_input(enter.locate(session, name, "call as"), command)
    replies = (
        session.link.stream(full_name, params) if more else [session.link.call(full_name, params)]
    )
    for reply in replies:
        echo(as_json(reply))
    return 0
