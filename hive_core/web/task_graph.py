"""Drawings of task dependencies and of the number of open tasks over time, with tables."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup

from hive_core.plan.printable import escape
from hive_core.web.mirror import Row

_BOX_WIDTH, _BOX_HEIGHT = 168, 40
_GAP_X, _GAP_Y = 48, 12
_MARGIN: Final = 8
_BEND: Final = 34  # by which a line leaves the row of boxes
_WORDS_MOST: Final = 22  # that fit into a box
_CHART_WIDTH, _CHART_HEIGHT = 640, 120
_STEPS: Final = 12  # rows of the table beside the chart
_CLASSES: Final[Mapping[str, str]] = {
    "done": "ended", "cancelled": "ended", "in_progress": "working", "stopping": "working",
    "awaiting_plan_approval": "waits", "awaiting_more_information": "waits",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class TaskNode:
    """A task at its place. `waits_for` and `part_of` name only tasks that are drawn."""

    row: Row
    column: int
    line: int
    waits_for: tuple[str, ...]
    part_of: str

    @property
    def left(self) -> int:
        return _MARGIN + self.column * (_BOX_WIDTH + _GAP_X)

    @property
    def top(self) -> int:
        return _MARGIN + self.line * (_BOX_HEIGHT + _GAP_Y)


@dataclass(frozen=True, slots=True)
class OpenCount:
    """How many tasks were open at a time."""

    at: float
    open: int


def place_tasks(rows: Sequence[Row]) -> list[TaskNode]:
    """The tasks that wait for others or are parts of others, each to the right of those.

    A task without such a relation is left out.
    """
    tasks = {str(row["id"]): row for row in sorted(rows, key=_age_key)}
    waits = {key: _names_among(row.get("waits_for"), tasks) for key, row in tasks.items()}
    parts = {key: _names_among([row.get("part_of")], tasks) for key, row in tasks.items()}
    before = {key: (*waits[key], *parts[key]) for key in tasks}
    related = {key for key in tasks if before[key]}.union(*before.values())
    columns = _columns({key: before[key] for key in tasks if key in related})
    lines = dict.fromkeys(columns.values(), -1)
    nodes = []
    for key, column in columns.items():
        lines[column] += 1
        nodes.append(
            TaskNode(tasks[key], column, lines[column], waits[key], "".join(parts[key][:1]))
        )
    return sorted(nodes, key=lambda node: (node.column, node.line))


def draw_tasks(nodes: Sequence[TaskNode]) -> Markup:
    """Boxes with lines: a line to what waits, a dotted one to a part."""
    by_id = {str(node.row["id"]): node for node in nodes}
    width = max((node.left for node in nodes), default=0) + _BOX_WIDTH + _MARGIN
    height = max((node.top for node in nodes), default=0) + _BOX_HEIGHT + _MARGIN
    lines = [
        _edge(by_id[other], node, kind)
        for node in nodes
        for kind, others in (("waits", node.waits_for), ("part", (node.part_of,)))
        for other in others if other
    ]  # fmt: skip
    inside = Markup("").join([*lines, *map(_box, nodes)])
    return Markup(
        '<svg class="graph" viewBox="0 0 {0} {1}" width="{0}" height="{1}" role="img">'
        "<title>{2} tasks and what they wait for, as in the table below</title>{3}</svg>"
    ).format(width, height, len(nodes), inside)


def count_open(rows: Sequence[Row], now: float) -> list[OpenCount]:
    """How many of these tasks were open after each change; empty where there is none."""
    changes = sorted(_changes(rows))
    counts: list[OpenCount] = []
    for at, change in changes:
        before = counts.pop() if counts and counts[-1].at == at else None
        base = before.open if before else counts[-1].open if counts else 0
        counts.append(OpenCount(at, base + change))
    if counts and counts[-1].at < now:
        counts.append(OpenCount(now, counts[-1].open))
    return counts


def sample(counts: Sequence[OpenCount]) -> list[OpenCount]:
    """At most twelve of the counts for a table, including the first and the last."""
    if len(counts) <= _STEPS:
        return list(counts)
    return [counts[round(at * (len(counts) - 1) / (_STEPS - 1))] for at in range(_STEPS)]


def draw_open(counts: Sequence[OpenCount]) -> Markup:
    """The counts as steps, the newest at the right."""
    first, last = counts[0].at, counts[-1].at
    span, top = max(last - first, 1.0), max(1, *(count.open for count in counts))

    def place(at: float, value: int) -> str:
        y = _CHART_HEIGHT - 1 - value / top * (_CHART_HEIGHT - 2)
        return f"{(at - first) / span * _CHART_WIDTH:.1f},{y:.1f}"

    points = [place(first, 0)]
    value = 0
    for count in counts:
        points += [place(count.at, value), place(count.at, count.open)]
        value = count.open
    return Markup(
        '<svg class="spark burn" viewBox="0 0 {0} {1}" width="{0}" height="{1}" role="img"'
        ' preserveAspectRatio="none"><title>{2} tasks are open now, {3} were at most</title>'
        '<polyline points="{4}"></polyline></svg>'
    ).format(_CHART_WIDTH, _CHART_HEIGHT, value, top, " ".join(points))


def _columns(before: Mapping[str, Sequence[str]]) -> dict[str, int]:
    """The column of each task: the longest chain before it. Bounded, so a cycle ends it too."""
    columns = dict.fromkeys(before, 0)
    for _ in before:
        longer = {
            key: max((columns[other] + 1 for other in others), default=0)
            for key, others in before.items()
        }
        if longer == columns:
            break
        columns = longer
    return columns


def _changes(rows: Sequence[Row]) -> Iterator[tuple[float, int]]:
    for row in rows:
        created, ended = row.get("created"), row.get("ended")
        if isinstance(created, int | float):
            yield float(created), 1
            if isinstance(ended, int | float):
                yield max(float(created), float(ended)), -1


def _box(node: TaskNode) -> Markup:
    kind = _CLASSES.get(str(node.row.get("state")), "queued")
    title = str(node.row.get("title") or node.row["id"])
    words = (title, f"{node.row.get('agent')}: {node.row.get('state')}".replace("_", " "))
    lines = Markup("").join(
        Markup('<text x="{}" y="{}">{}</text>').format(node.left + 8, node.top + y, _cut(word))
        for y, word in zip((16, 33), words, strict=True)
    )
    return Markup(
        '<g class="task {}"><rect x="{}" y="{}" width="{}" height="{}" rx="4"></rect>{}</g>'
    ).format(kind, node.left, node.top, _BOX_WIDTH, _BOX_HEIGHT, lines)


def _edge(start: TaskNode, end: TaskNode, kind: str) -> Markup:
    x1, y1 = start.left + _BOX_WIDTH, start.top + _BOX_HEIGHT // 2
    x2, y2 = end.left, end.top + _BOX_HEIGHT // 2
    # A straight line would hide behind the boxes between.
    bend = _BEND if start.line == end.line and end.column - start.column > 1 else 0
    return Markup('<path class="edge {}" d="M{} {} C{} {} {} {} {} {}"></path>').format(
        kind, x1, y1, x1 + _GAP_X // 2, y1 + bend, x2 - _GAP_X // 2, y2 + bend, x2, y2
    )


def _cut(text: str) -> str:
    return escape(text[:_WORDS_MOST] + ("…" if len(text) > _WORDS_MOST else ""))


def _names_among(names: object, tasks: Collection[str]) -> tuple[str, ...]:
    listed = names if isinstance(names, list) else []
    return tuple(str(name) for name in listed if str(name) in tasks)


def _age_key(row: Row) -> tuple[float, str]:
    created = row.get("created")
    return (float(created) if isinstance(created, int | float) else 0.0), str(row["id"])
