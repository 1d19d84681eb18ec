"""All agents as `watch_agents` shows them. Pure: pages are applied, rows are listed.

Rows keep what hived sent. Depth, order and sums are worked out here, once for each change of the
tree.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from hive_core.services.replies import rows_of
from hive_core.varlink import Message

Row = Mapping[str, object]
# What places a row; another value of one of them makes another tree.
_PLACE: Final = ("name", "parent", "role")
DEPTH_MOST: Final = 16  # that the pages indent
_DIGITS: Final = re.compile(r"([0-9]+)")
SORTS: Final = ("tree", "name", "state", "task", "tokens", "cost", "cpu", "memory", "inbox", "age")
_NUMBERS: Final = {
    "tokens": "tokens", "cost": "cost", "cpu": "cpu", "memory": "memory", "inbox": "inbox",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class TreeView:
    """What of the tree is shown, as it stands in the address of the page."""

    filter: str = ""
    state: str = ""
    sort: str = "tree"
    under: str = ""
    folded: frozenset[str] = frozenset()
    most: int = 1000

    @property
    def is_flat(self) -> bool:
        """Whether rows stand without the tree around them."""
        return bool(self.filter.split() or self.state or self.sort != "tree")


@dataclass(frozen=True, slots=True)
class TreeLine:
    """A row at its place. `sums` is set where it is folded: of it and all below it."""

    row: Row
    depth: int
    children: int
    sums: Mapping[str, float] | None = None


@dataclass(frozen=True, slots=True)
class TreePage:
    lines: Sequence[TreeLine]
    matching: int
    total: int


@dataclass(frozen=True, slots=True)
class RowChange:
    """A row that arrived: whether its values changed, and whether its place changed."""

    row: Row
    is_other: bool
    is_moved: bool


@dataclass(slots=True)
class AgentMirror:
    rows: dict[str, Row] = field(default_factory=dict)
    is_whole: bool = False
    shape: int = 0  # it grows when an agent comes, goes or moves
    _children: dict[str | None, list[Row]] | None = None
    _by_name: dict[str, Row] = field(default_factory=dict)
    _is_outdated: bool = False  # rows have values that the index does not have yet

    def apply(self, page: Message) -> tuple[list[Row], bool]:
        """The rows that changed, and whether the tree has another shape."""
        before = dict(self.rows) if page.get("reset") else {}
        if page.get("reset"):
            self.rows.clear()
        changes = [self._put(row) for row in rows_of(page, "rows")]
        gone = page.get("gone")
        lost = [self.rows.pop(str(uuid), None) for uuid in (gone if isinstance(gone, list) else ())]
        moved = any(row is not None for row in lost) or bool(before.keys() - self.rows.keys())
        moved = moved or any(change.is_moved for change in changes)
        if moved:
            self._children = None
            self.shape += 1
        self._is_outdated = self._is_outdated or bool(changes)
        self.is_whole = self.is_whole or bool(page.get("synced"))
        return [change.row for change in changes if change.is_other], moved

    def get(self, name: str) -> Row | None:
        self._index()
        return self._by_name.get(name)

    def path(self, name: str) -> list[str]:
        """The names of the ancestors, the root first."""
        names: list[str] = []
        row = self.get(name)
        while row is not None and row.get("parent") is not None and len(names) <= len(self.rows):
            names.append(str(row["parent"]))
            row = self.get(names[-1])
        return names[::-1]

    def below(self, name: str) -> list[str]:
        """The names of an agent and all below it."""
        return [str(line.row["name"]) for line in self._walk(name, frozenset(), 0)]

    def order(self) -> list[str]:
        """The names of all agents, in the order of the tree."""
        return [str(line.row["name"]) for line in self._walk(None, frozenset(), 0)]

    def counts(self) -> Counter[str]:
        return Counter(str(row.get("state")) for row in self.rows.values())

    def count_working(self) -> int:
        """The number of agents that work on something now."""
        return sum(row.get("activity") == "running" for row in self.rows.values())

    def page(self, view: TreeView) -> TreePage:
        """The lines of a view. A filter shows what matches, without the tree around it."""
        self._index()
        words = view.filter.lower().split()
        folded = frozenset[str]() if view.is_flat else view.folded
        lines = list(self._walk(view.under or None, folded, 0))
        if view.is_flat:
            lines = [line for line in lines if _matches(line.row, words, view.state)]
        if view.sort != "tree":
            lines.sort(key=lambda line: _sort_key(line.row, view.sort))
        return TreePage(lines[: view.most], len(lines), len(self.rows))

    def _put(self, row: Row) -> RowChange:
        uuid = str(row.get("uuid"))
        before = self.rows.get(uuid)
        self.rows[uuid] = row
        moved = before is None or any(before.get(key) != row.get(key) for key in _PLACE)
        return RowChange(row, is_other=before != row, is_moved=moved)

    def _index(self) -> dict[str | None, list[Row]]:
        if self._children is None:
            self._by_name = {str(row.get("name")): row for row in self.rows.values()}
            children: dict[str | None, list[Row]] = {}
            for row in self.rows.values():
                parent = row.get("parent")
                known = str(parent) if parent in self._by_name else None
                children.setdefault(known, []).append(row)
            for rows in children.values():
                rows.sort(key=lambda row: _natural(str(row.get("name"))))
            self._children = children
        elif self._is_outdated:
            self._refresh_rows(self._children)
        self._is_outdated = False
        return self._children

    def _refresh_rows(self, children: Mapping[str | None, list[Row]]) -> None:
        """The newest values of the rows, at the places that they have."""
        for rows in children.values():
            rows[:] = [self.rows.get(str(row.get("uuid")), row) for row in rows]
        self._by_name = {str(row.get("name")): row for row in self.rows.values()}

    def _walk(self, under: str | None, folded: frozenset[str], depth: int) -> Iterator[TreeLine]:
        """All rows, or those of an agent and all below it: none where it is not known."""
        children, known = self._index(), self._by_name
        start = (
            children.get(None, []) if under is None else [known[under]] if under in known else []
        )
        stack = [(row, depth) for row in reversed(start)]
        while stack:
            row, at = stack.pop()
            name = str(row.get("name"))
            own = children.get(name, [])
            if own and name in folded:
                yield TreeLine(row, min(at, DEPTH_MOST), len(own), self._sums(name))
                continue
            yield TreeLine(row, min(at, DEPTH_MOST), len(own))
            stack += [(child, at + 1) for child in reversed(own)]

    def _sums(self, name: str) -> dict[str, float]:
        children = self._children or {}
        sums: defaultdict[str, float] = defaultdict(float)
        stack = [self._by_name[name]]
        while stack:
            row = stack.pop()
            sums["agents"] += 1
            sums[f"is {row.get('state')}"] += 1
            for key in _NUMBERS:
                value = row.get(key)
                sums[key] += value if isinstance(value, int | float) else 0
            stack += children.get(str(row.get("name")), [])
        return dict(sums)


def _natural(name: str) -> list[tuple[int, str]]:
    """`w-9` before `w-10`."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in _DIGITS.split(name)]


def _matches(row: Row, words: Sequence[str], state: str) -> bool:
    if state and state not in (row.get("state"), row.get("activity")):
        return False
    text = " ".join(str(row.get(key) or "") for key in ("name", "title", "role", "doing")).lower()
    return all(word in text for word in words)


def _sort_key(row: Row, sort: str) -> tuple[float, list[tuple[int, str]]]:
    name = _natural(str(row.get("name")))
    value: object = 0
    if sort in _NUMBERS:
        value = row.get(_NUMBERS[sort])
    elif sort == "age":
        since = row.get("since")
        value = -since if isinstance(since, int | float) else 0
    elif sort in ("state", "task"):
        word = str(row.get("state" if sort == "state" else "doing") or "~")
        return 0.0, [(-1, word), *name]
    return (-float(value) if isinstance(value, int | float) else 0.0), name
