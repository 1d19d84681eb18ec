"""`hive tree`: the topology with the state of every agent."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

import click

from hive_core.agent.layout import cut, pad
from hive_core.agent.output import as_json
from hive_core.cli.core.options import AGENT_STATES
from hive_core.cli.core.output import (  # fmt: skip
    FLAT,
    Row,
    colour,
    columns_of,
    echo,
    one,
    output_option,
    say,
    words,
)
from hive_core.cli.core.session import Session, complete_agent
from hive_core.cli.core.watch import redraw, watch_option

_DETAILS: Final = ("role", "state", "activity")
_FIELDS: Final = ("name", "uuid", "parent", "role", "title", "state", "activity", "quarantine")
_TITLE_MIN: Final = 12


@dataclass(frozen=True)
class Node:
    """An agent with its descendants."""

    row: Row
    children: list[Node] = field(default_factory=list)
    hidden: int = 0  # descendants that `--depth` leaves out

    @property
    def plain(self) -> dict[str, object]:
        """The node as JSON."""
        fields = {key: self.row.get(key) for key in _FIELDS}
        return {**fields, "children": [child.plain for child in self.children]}

    @property
    def size(self) -> int:
        """Number of its descendants."""
        return sum(1 + child.size for child in self.children)


def nest(rows: Iterable[Row]) -> list[Node]:
    """The flat listing as roots with children; an agent with an invisible parent is a root."""
    nodes = {str(row["name"]): Node(row) for row in rows}
    roots: list[Node] = []
    for node in nodes.values():
        above = nodes.get(str(node.row.get("parent")))
        (above.children if above else roots).append(node)
    return roots


def cut_depth(nodes: Iterable[Node], depth: int) -> list[Node]:
    """The nodes with at most this number of levels of descendants."""
    return [
        Node(node.row, cut_depth(node.children, depth - 1))
        if depth
        else Node(node.row, hidden=node.size)
        for node in nodes
    ]


def select_states(nodes: Iterable[Node], states: Container[object]) -> list[Node]:
    """The nodes in one of the states, and their ancestors."""
    selected = (Node(node.row, select_states(node.children, states)) for node in nodes)
    return [node for node in selected if node.children or node.row.get("state") in states]


def flatten(nodes: Iterable[Node]) -> Iterator[Row]:
    """The rows of the nodes, each agent before its descendants."""
    for node in nodes:
        yield node.row
        yield from flatten(node.children)


def _labels(nodes: list[Node], indent: str | None = None) -> Iterator[tuple[str, Row]]:
    """Branch and name of each agent, depth first; roots have no branch."""
    for node in nodes:
        last = node is nodes[-1]
        branch = "" if indent is None else indent + ("└── " if last else "├── ")
        more = f" (+{node.hidden})" if node.hidden else ""
        yield branch + words(node.row.get("name")) + more, node.row
        below = "" if indent is None else indent + ("    " if last else "│   ")
        yield from _labels(node.children, below)


def _fit(label: str, width: int) -> str:
    """Cut a label that is too long at its left end, since the name is on the right."""
    return label if len(label) <= width else "…" + label[len(label) - width + 1 :]


def _details(row: Row) -> list[str]:
    """Role, state and activity, or `quarantine`; no activity that is the same word as the state."""
    role, state, activity = (words(row.get(key)) for key in _DETAILS)
    if row.get("quarantine"):
        return [role, state, "quarantine"]
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
        shown[1] = colour(cells[1], shown[1])
        title, rest = str(row.get("title") or ""), room - longest - 2
        tail = [cut(words(title), rest)] if title and rest >= _TITLE_MIN else []
        drawn.append("  ".join([pad(_fit(label, longest), longest), *shown, *tail]).rstrip())
    return drawn


@click.command
@click.argument("name", required=False, shell_complete=complete_agent)
@click.option("--depth", type=click.IntRange(0), metavar="N",
              help="Maximum number of levels below the roots; 0 shows only the roots.")  # fmt: skip
@click.option("--state", "states", multiple=True, type=click.Choice(AGENT_STATES), metavar="STATE",
              help="Only agents in this state, and their ancestors (repeatable).")  # fmt: skip
@watch_option
@output_option
@click.pass_obj
def tree(  # noqa: PLR0913 - options
    session: Session, name: str | None, style: str, depth: int | None, states: tuple[str, ...], *,
    watch: bool,
) -> None:  # fmt: skip
    """Draw the tree of agents, or NAME and its descendants.

    The columns are the role, the state of the machine, the activity of the agent (or that a
    quarantine holds it), and the title. The number after a name is that of descendants that --depth
    hides.
    """

    def roots() -> list[Node]:
        nodes = nest(session.rows("list_agents", "agents", root=name))
        nodes = select_states(nodes, states) if states else nodes
        return nodes if depth is None else cut_depth(nodes, depth)

    if watch:
        redraw(lambda: draw(roots(), columns_of()))
        return
    nodes = roots()
    if style in FLAT:
        for row in flatten(nodes):
            one(row, style, "name", list)
    elif style == "json":
        echo(as_json([node.plain for node in nodes], 2))
    elif not nodes:
        say("no such agents" if states else "no agents; `hive agent create NAME` makes one")
    else:
        for line in draw(nodes, columns_of()):
            echo(line)
