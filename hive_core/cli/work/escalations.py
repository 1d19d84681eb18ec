"""`hive escalation`.

List, show, answer and cancel problems that agents escalated to the operator.
"""

from __future__ import annotations

from typing import Final

import click

from hive_core.cli.core.lazy import ListGroup
from hive_core.cli.core.output import Column, Listing, output_option
from hive_core.cli.core.session import Session
from hive_core.cli.work.questions import (
    QUESTION_COLUMNS,
    answer,
    cancel,
    ended_option,
    everyone_option,
    question_rows,
    show,
)

ESCALATIONS: Final = Listing(
    "id",
    (*QUESTION_COLUMNS[:1], Column("severity"), *QUESTION_COLUMNS[1:], Column("prompt")),
    "no escalations",
)


@click.group(cls=ListGroup, aliases={"rm": "cancel"})
def escalation() -> None:
    """List, show, answer and cancel escalations."""


@escalation.command("list")
@everyone_option
@ended_option
@output_option
@click.pass_obj
def list_escalations(session: Session, style: str, *, everyone: bool, ended: bool) -> None:
    """List the escalations that wait for you, the newest first."""
    rows = question_rows(session, everyone=everyone, ended=ended)
    ESCALATIONS.show((row for row in rows if row.get("kind") == "escalation"), style)


for _command in (show, answer, cancel):
    escalation.add_command(_command)
