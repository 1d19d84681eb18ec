"""Commands about rights: cap, allow, disallow, why."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Final

import click

from hive_core.cli.core.lazy import NameListGroup
from hive_core.cli.core.output import (
    Column,
    Listing,
    Row,
    colour,
    one,
    output_option,
    say,
    words,
)
from hive_core.cli.core.session import (
    Completer,
    Session,
    complete_agent,
    complete_words,
    session_of,
)
from hive_core.errors import HiveError, NotAllowed
from hive_core.model.agents.capability import PLAIN

STORES_READ: Final = ("meta.read", "applied.read")
CAPABILITIES: Final = Listing(
    "capability", (Column("agent"), Column("capability")), "no capabilities"
)


@click.group(cls=NameListGroup, aliases={"rm": "revoke"})
def cap() -> None:
    """List, grant and revoke capabilities."""


@cap.command("list")
@click.argument("name", required=False, shell_complete=complete_agent)
@output_option
@click.pass_obj
def list_capabilities(session: Session, name: str | None, style: str) -> None:
    """List the capabilities of NAME, or of all agents."""
    CAPABILITIES.show(_capabilities(session, name), style)


def _capabilities(session: Session, name: str | None) -> Iterator[Row]:
    agents = session.rows("list_agents", "agents")
    names = [name] if name else [str(row["name"]) for row in agents]
    for agent in names:
        held = session.ask("get_agent", agent=agent).get("capabilities")
        for capability in held if isinstance(held, list) else []:
            yield {"agent": agent, "capability": capability}


def _complete_held(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Complete with the capabilities that the agent holds."""
    with contextlib.closing(session_of(ctx)) as session, contextlib.suppress(HiveError):
        rows = _capabilities(session, str(ctx.params.get("name")))
        held = (str(row["capability"]) for row in rows)
        return [capability for capability in held if capability.startswith(incomplete)]
    return []


def _capability_command(
    word: str, text: str, completer: Completer, *more: click.Parameter
) -> click.Command:
    @click.pass_obj
    def act(session: Session, name: str, capability: str, *, recursive: bool = False) -> None:
        scope = {"recursive": True} if recursive else {}
        reply = session.change(f"{word}_capability", agent=name, capability=capability, **scope)
        say(f"{name} holds: {words(reply.get('capabilities'))}")
        if word == "revoke" and capability in STORES_READ:
            say(
                "each running agent that loses it is restarted now; `hive agent show` shows its"
                " state"
            )

    params: list[click.Parameter] = [
        click.Argument(["name"], shell_complete=complete_agent),
        click.Argument(["capability"], shell_complete=completer),
        *more,
    ]
    return click.Command(word, callback=act, params=params, help=text)


_BELOW = click.Option(["--recursive"], is_flag=True, help="Revoke it from all its descendants too.")
_REVOKE = """Revoke a capability from NAME.

A running agent that loses `meta.read` or `applied.read` is restarted, which closes its open files
there. The command does not wait for that restart.
"""
cap.add_command(_capability_command("grant", "Grant NAME a capability.", complete_words(*PLAIN)))
cap.add_command(_capability_command("revoke", _REVOKE, _complete_held, _BELOW))


def _routing_command(word: str, text: str) -> click.Command:
    @click.pass_obj
    def act(session: Session, name: str, other: str) -> None:
        session.change(word, agent=name, other=other)

    arguments: list[click.Parameter] = [
        click.Argument(["name"], shell_complete=complete_agent),
        click.Argument(["other"], shell_complete=complete_agent),
    ]
    return click.Command(word, callback=act, params=arguments, help=text)


allow = _routing_command("allow", "Allow NAME to send to OTHER, wherever both are in the tree.")
disallow = _routing_command("disallow", "Withdraw the permission that `hive allow` gave.")


def _lines(row: Row) -> Iterator[str]:
    yield colour("allowed" if row.get("allowed") else "refused")
    yield f"action  {words(row.get('action'))}"
    yield f"rule    {words(row.get('rule'))}"
    if row.get("reason"):
        yield f"reason  {words(row.get('reason'))}"
    chain = row.get("chain")
    yield f"chain   {' -> '.join(map(words, chain)) if isinstance(chain, list) and chain else '-'}"
    yield f"commit  {words(row.get('commit'))}"


def _complete_operation(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    from hive_core.agent import catalog  # noqa: PLC0415 - reads a large file

    return [name for name in catalog.load().names if name.startswith(incomplete)]


@click.command
@click.argument("caller", shell_complete=complete_agent)
@click.argument("operation", shell_complete=_complete_operation)
@click.argument("target", required=False, shell_complete=complete_agent)
@click.argument("second", required=False, shell_complete=complete_agent)
@output_option
@click.pass_obj
def why(session: Session, /, style: str, **options: str | None) -> int:
    """Explain whether CALLER may do OPERATION on TARGET, and by which rule.

    The operation is not performed. CALLER is an agent or `operator`. SECOND is the new parent in a
    move. The exit status is 0 when the operation is allowed and 5 when it is refused.
    """
    params = {key: value for key, value in options.items() if value is not None}
    params["operation"] = str(params["operation"]).replace("-", "_")
    row = session.ask("why", **params)
    verdict = "allowed" if row.get("allowed") else "refused"
    one(
        {**row, "verdict": verdict} if style == "name" else row,
        style,
        "verdict",
        lambda: _lines(row),
    )
    return 0 if row.get("allowed") else NotAllowed.exit_code
