"""Commands about who may: cap, allow, disallow, why."""

from __future__ import annotations

from collections.abc import Iterator

import click

from hive_core.cli.core.lazy import Group
from hive_core.cli.core.output import Row, coloured, one, output_option, say, words
from hive_core.cli.core.session import Session, complete_agent
from hive_core.errors import NotAllowed


@click.group(cls=Group)
def cap() -> None:
    """Grant and revoke capabilities."""


def _capability(word: str, text: str, *more: click.Parameter) -> click.Command:
    @click.pass_obj
    def act(session: Session, name: str, capability: str, *, recursive: bool = False) -> None:
        wanted = {"recursive": True} if recursive else {}
        reply = session.change(f"{word}_capability", agent=name, capability=capability, **wanted)
        say(f"{name} holds: {words(reply.get('capabilities'))}")

    params: list[click.Parameter] = [
        click.Argument(["name"], shell_complete=complete_agent),
        click.Argument(["capability"]),
        *more,
    ]
    return click.Command(word, callback=act, params=params, help=text)


_BELOW = click.Option(["--recursive"], is_flag=True, help="From all its descendants too.")
_REVOKE = """Take a capability from NAME.

An agent that loses `meta.read` or `applied.read` is restarted: what it opened there is gone.
"""
cap.add_command(_capability("grant", "Give NAME a capability."))
cap.add_command(_capability("revoke", _REVOKE, _BELOW))


def _routing(word: str, text: str) -> click.Command:
    @click.pass_obj
    def act(session: Session, name: str, other: str) -> None:
        session.change(word, agent=name, other=other)

    arguments: list[click.Parameter] = [
        click.Argument(["name"], shell_complete=complete_agent),
        click.Argument(["other"], shell_complete=complete_agent),
    ]
    return click.Command(word, callback=act, params=arguments, help=text)


allow = _routing("allow", "Let NAME send to OTHER, wherever they stand in the tree.")
disallow = _routing("disallow", "Take back what `allow` gave.")


def _lines(row: Row) -> Iterator[str]:
    yield coloured("allowed" if row.get("allowed") else "refused")
    yield f"action  {words(row.get('action'))}"
    yield f"rule    {words(row.get('rule'))}"
    if row.get("reason"):
        yield f"reason  {words(row.get('reason'))}"
    chain = row.get("chain")
    yield f"chain   {' -> '.join(map(words, chain)) if isinstance(chain, list) and chain else '-'}"
    yield f"commit  {words(row.get('commit'))}"


@click.command
@click.argument("caller", shell_complete=complete_agent)
@click.argument("operation")
@click.argument("target", required=False, shell_complete=complete_agent)
@click.argument("second", required=False, shell_complete=complete_agent)
@output_option
@click.pass_obj
def why(session: Session, /, style: str, **question: str | None) -> int:
    """Would CALLER be allowed OPERATION on TARGET, and why?

    Nothing is performed. CALLER is an agent or `operator`. SECOND is the new parent in a
    move. Exit status 0 or 5.
    """
    given = {key: value for key, value in question.items() if value is not None}
    given["operation"] = str(given["operation"]).replace("-", "_")
    row = session.ask("why", **given)
    verdict = "allowed" if row.get("allowed") else "refused"
    one(
        {**row, "verdict": verdict} if style == "name" else row,
        style,
        "verdict",
        lambda: _lines(row),
    )
    return 0 if row.get("allowed") else NotAllowed.exit_code
