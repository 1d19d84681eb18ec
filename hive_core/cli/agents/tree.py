"""`hive tree`: the topology with the state of every agent."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

import click

from hive_core.agent.layout import cut, pad
from hive_core.agent.output import as_json
from hive_core.cli.core.output import (  # fmt: skip
    FORMATS,
    Row,
    coloured,
    columns_of,
    echo,
    one,
    output_option,
    say,
    words,
)
from hive_core.cli.core.session import Session, complete_agent

_DETAILS: Final = ("role", "state", "activity")
_FIELDS: Final = ("name", "uuid", "parent", "role", "title", "state", "activity")
_TITLE_MIN: Final = 12


@dataclass(frozen=True)
class Node:
    """An agent with what is below it."""

    row: Row
    children: list[Node] = field(default_factory=list)

    @property
    def plain(self) -> dict[str, object]:
        """As JSON has it."""
        kept = {key: self.row.get(key) for key in _FIELDS}
        return {**kept, "children": [each.plain for each in self.children]}


def nest(rows: Iterable[Row]) -> list[Node]:
    """The flat listing as roots with children; a parent out of sight makes a root."""
    nodes = {str(row["name"]): Node(row) for row in rows}
    roots: list[Node] = []
    for node in nodes.values():
        above = nodes.get(str(node.row.get("parent")))
        (above.children if above else roots).append(node)
    return roots


def _labels(nodes: list[Node], indent: str | None = None) -> Iterator[tuple[str, Row]]:
    """Branch and name of each agent, depth first; roots (no indent) hang on nothing."""
    for node in nodes:
        last = node is nodes[-1]
        branch = "" if indent is None else indent + ("└── " if last else "├── ")
        yield branch + words(node.row.get("name")), node.row
        below = "" if indent is None else indent + ("    " if last else "│   ")
        yield from _labels(node.children, below)


def _fit(label: str, width: int) -> str:
    """A label that is too long loses its left end: the name stands on the right."""
    return label if len(label) <= width else "…" + label[len(label) - width + 1 :]


def _details(row: Row) -> list[str]:
    """Where a machine runs and its agent works, one word says both."""
    role, state, activity = (words(row.get(each)) for each in _DETAILS)
    return [role, state, "" if activity == state else activity]


def draw(roots: list[Node], width: int) -> list[str]:
    """The tree in lines of at most `width` columns."""
    lines = list(_labels(roots))
    details = [_details(row) for _, row in lines]
    rooms = [max(map(len, column)) for column in zip(*details, strict=True)]
    room = max(width - sum(rooms) - 2 * len(rooms), 8)
    longest = min(max((len(label) for label, _ in lines), default=0), room)
    drawn = []
    for (label, row), cells in zip(lines, details, strict=True):
        shown = [pad(text, space) for text, space in zip(cells, rooms, strict=True)]
        shown[1] = coloured(cells[1], shown[1])
        title, rest = str(row.get("title") or ""), room - longest - 2
        tail = [cut(words(title), rest)] if title and rest >= _TITLE_MIN else []
        drawn.append("  ".join([pad(_fit(label, longest), longest), *shown, *tail]).rstrip())
    return drawn


@click.command
@click.argument("name", required=False, shell_complete=complete_agent)
@output_option
@click.pass_obj
def tree(session: Session, name: str | None, style: str) -> None:
    """Draw the tree of agents, or NAME and what is below it.

    The columns are role, state of the machine, activity of the agent, and title.
    """
    rows = list(session.rows("list_agents", "agents", root=name))
    if style in FORMATS[2:]:
        for row in rows:
            one(row, style, "name", list)
        return
    roots = nest(rows)
    if style == "json":
        echo(as_json([each.plain for each in roots], 2))
    elif not roots:
        say("no agents; `hive agent create NAME` makes one")
    for line in draw(roots, columns_of()) if style == "table" else []:
        echo(line)
