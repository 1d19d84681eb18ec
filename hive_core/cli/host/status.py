"""`hive status`: what is in force, how the agents are, and what needs an operator."""

from __future__ import annotations

from collections.abc import Iterator

import click

from hive_core.cli.core.output import Row, coloured, moment, one, output_option, words
from hive_core.cli.core.session import Session, entries


def _counts(row: Row) -> str:
    found = row.get("agents")
    counts = found if isinstance(found, dict) else {}
    parts = [
        f"{number} {coloured(words(state))}" for state, number in sorted(counts.items()) if number
    ]
    return ", ".join(parts) or "none"


def lines(row: Row) -> Iterator[str]:
    """The status for people."""
    found = row.get("hived")
    hived = found if isinstance(found, dict) else {}
    yield f"hived    {words(hived.get('version'))}, since {moment(hived.get('since'))}"
    yield f"commit   {words(row.get('commit'))}"
    yield f"agents   {_counts(row)}"
    if row.get("waiting"):
        yield f"waiting  {words(row.get('waiting'))} for you (`hive todo`)"
    for each in entries(dict(row), "refused"):
        text = f"{words(each.get('commit'))}: {words(each.get('reason'))}"
        yield f"{click.style('refused', fg='red')}  {text}"
    alarms = row.get("alarms")
    for alarm in alarms if isinstance(alarms, list) else []:
        yield f"{click.style('alarm', fg='red')}    {words(alarm)}"


@click.command
@output_option
@click.pass_obj
def status(session: Session, style: str) -> None:
    """Show the commit in force, agents by state, and alarms."""
    row = session.ask("status")
    one(row, style, "commit", lambda: lines(row))
