"""The rows of `hive top`: a mirror of what `watch_agents` sends, in order, folded and with sums.

No data classes: to import them takes as long as the rest of `hive top`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from hive_core.cli.core.row_words import Row, entries

_SUMMED: Final = ("tokens", "cost", "cpu", "memory", "inbox")
_BAD: Final = frozenset({"failed", "parked", "degraded"})
TREE: Final = "n"


class TopLine(NamedTuple):
    """A line: an agent at its depth; with `folded` agents below it that are not shown.

    `parent`: where the tree around it is not shown.
    """

    row: Row
    depth: int
    folded: int = 0
    note: str = ""
    parent: str = ""


def number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


def _text(key: str) -> Callable[[Row], tuple[object, ...]]:
    return lambda row: (str(row.get(key)), str(row.get("name")))


def _most(key: str) -> Callable[[Row], tuple[object, ...]]:
    return lambda row: (-number(row.get(key)), str(row.get("name")))


def _oldest(row: Row) -> tuple[object, ...]:
    since = row.get("since")
    return (since is None, number(since), str(row.get("name")))


# What a key sorts by: words in their order, the oldest first, of other numbers the greatest.
# `n`: in the order of the tree.
ORDERS: Final[Mapping[str, tuple[str, Callable[[Row], tuple[object, ...]]]]] = {
    TREE: ("name", _text("name")), "s": ("state", _text("state")), "c": ("cpu", _most("cpu")),
    "m": ("memory", _most("memory")), "t": ("tokens", _most("tokens")),
    "$": ("cost", _most("cost")), "i": ("inbox", _most("inbox")), "a": ("age", _oldest),
}  # fmt: skip


class TopMirror:
    """All agents as they were sent last, by UUID."""

    def __init__(self) -> None:
        self.rows: dict[str, Row] = {}
        self.cursor: str | None = None
        self.synced = False

    def take(self, page: Row) -> None:
        """Apply a page of `watch_agents`."""
        if page.get("reset"):
            self.rows.clear()
        for row in entries(page, "rows"):
            self.rows[str(row.get("uuid"))] = row
        gone = page.get("gone")
        for uuid in gone if isinstance(gone, list) else ():
            self.rows.pop(str(uuid), None)
        self.cursor, self.synced = str(page.get("next")), bool(page.get("synced"))


class TopView:
    """What is shown of the rows: the order, a filter, and what is folded."""

    def __init__(self, order: str = TREE, pattern: str = "", folded: Iterable[str] = ()) -> None:
        self.order, self.pattern, self.folded = order, pattern, set(folded)

    def lines(self, rows: Iterable[Row]) -> list[TopLine]:
        """The lines in their order. Only the order of the tree has depths and folds."""
        shown = list(rows)
        if self.pattern:
            shown = [row for row in shown if self._matches(row)]
        if self.order != TREE or self.pattern:
            ordered = sorted(shown, key=ORDERS[self.order][1])
            return [TopLine(row, 0, parent=str(row.get("parent") or "")) for row in ordered]
        return list(_tree(shown, self.folded))

    def _matches(self, row: Row) -> bool:
        words = (row.get(key) for key in ("name", "role", "state", "activity", "doing", "waits_on"))
        return any(self.pattern.lower() in str(word).lower() for word in words)


def _tree(rows: Sequence[Row], folded: set[str]) -> Iterator[TopLine]:
    """The agents, each followed by those below it; without recursion, as a tree may be deep."""
    below: dict[str, list[Row]] = {}
    names = {str(row.get("name")) for row in rows}
    for row in rows:
        parent = str(row.get("parent"))
        below.setdefault(parent if parent in names else "", []).append(row)
    for children in below.values():
        children.sort(key=_text("name"), reverse=True)
    left = [(row, 0) for row in below.get("", [])]
    while left:
        row, depth = left.pop()
        name = str(row.get("name"))
        if name in folded and below.get(name):
            yield _folded_line(row, depth, below)
            continue
        yield TopLine(row, depth)
        left += [(child, depth + 1) for child in below.get(name, [])]


def _folded_line(row: Row, depth: int, below: Mapping[str, list[Row]]) -> TopLine:
    """The agent with the sums of all agents below it."""
    group, left = list[Row](), [row]
    while left:
        member = left.pop()
        group.append(member)
        left += below.get(str(member.get("name")), [])
    sums = {key: sum(number(member.get(key)) for member in group) for key in _SUMMED}
    running = sum(member.get("state") == "running" for member in group[1:])
    bad = sum(member.get("state") in _BAD for member in group[1:])
    note = f"{len(group) - 1} below, {running} running" + (f", {bad} failed" if bad else "")
    return TopLine({**row, **sums}, depth, len(group) - 1, note)


def summary(rows: Iterable[Row]) -> str:
    """The sums of all agents in one line."""
    listed = list(rows)
    working = sum(row.get("activity") == "running" for row in listed)
    waiting = sum(bool(row.get("waits_on")) for row in listed)
    bad = sum(row.get("state") in _BAD for row in listed)
    cpu = sum(number(row.get("cpu")) for row in listed)
    parts = [f"{len(listed):,} agents", f"{working:,} working", f"{waiting:,} waiting"]
    return ", ".join([*parts, f"{bad:,} failed", f"cpu {cpu * 100:.0f}%"])
