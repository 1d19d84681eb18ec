"""Which agents changed, and in what order: what `watch_agents` shows to those who look on.

In memory only. A change costs the time of this agent alone: it is added to the end of a list, and a
reader finds the number that it has seen by bisection, so that a page costs as much as its rows.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable
from itertools import islice
from operator import attrgetter
from typing import Final, NamedTuple
from uuid import uuid4

from hive_core.broker.agent_figures import AgentFigures
from hive_core.model.agents.hive import Hive

ROWS: Final = "rows"
"""The topic of those who wait for a change of any row."""
_TREE: Final = "tree"
FIGURES: Final = "figures"
"""The kind of a change of processor and memory, which no topic tells."""
# Topics of these kinds end in the UUID of the agent whose row they change.
_OF_AGENT: Final = frozenset({
    "state", "run", "activity", "inbox", "usage", "phase", "life", "tasks", "wait",
})  # fmt: skip
# Topics of these kinds end in the id of a thing that belongs to an agent.
OF_THING: Final = frozenset({"task", "question"})
_CHANGES_ROWS: Final = _OF_AGENT | OF_THING | {_TREE}
# Topics that are kept until somebody looks; beyond, all rows count as changed.
_TOPICS_MOST: Final = 20_000
_GONE_MOST: Final = 10_000
# Stale changes that are kept, besides as many as there are agents.
_STALE_MOST: Final = 1000

OwnerOf = Callable[[str, str], str | None]


class ChangedRow(NamedTuple):
    """An agent that changed, or that is gone, and the number of the change."""

    version: int
    uuid: str


class RowVersions:
    """The number of the last change of each row; numbers only grow while the daemon runs."""

    def __init__(self) -> None:
        self.epoch: Final = uuid4().hex[:12]
        self.figures: Final = AgentFigures()
        self.rows: Final[dict[str, tuple[int, object]]] = {}  # by UUID, as they were built last
        self.forgotten = 0  # below it, agents that are gone are no longer known
        self._last = 0
        self._versions: dict[str, int] = {}
        self._changes: list[ChangedRow] = []  # by number; of an agent all but the last are stale
        self._gone: dict[str, int] = {}
        self._topics: set[str] = set()
        self._kinds: dict[str, set[str]] = {}  # by UUID, since its row was built
        self._overflowed = False
        self._hive: Hive | None = None
        self._day = -1

    @property
    def last(self) -> int:
        """The number of the newest change."""
        return self._last

    def on_topics(self, topics: Iterable[str]) -> bool:
        """Take topics that were touched; whether one of them may change a row."""
        changing = [topic for topic in topics if topic.partition(":")[0] in _CHANGES_ROWS]
        self._topics.update(changing)
        if len(self._topics) > _TOPICS_MOST:
            self._topics.clear()
            self._overflowed = True
        return bool(changing)

    def refresh(self, hive: Hive, day: int, owner_of: OwnerOf) -> None:
        """Number what was touched since the last look. On a new day all usage begins at 0."""
        if self._hive is None or self._overflowed or day != self._day:
            self._number((hive.spec(name).id for name in hive.topology.order), _TREE)
            self._overflowed, self._day = False, day
        if self._hive is not hive:
            self._compare(hive)
        topics, self._topics = self._topics, set()
        for topic in sorted(topics):
            kind, _, rest = topic.partition(":")
            uuid = owner_of(kind, rest) if kind in OF_THING else rest.partition("/")[0]
            if uuid is not None and uuid in hive.names:
                self._number((uuid,), kind)
        changed = self.figures.take_changed()
        self._number((uuid for uuid in changed if uuid in hive.names), FIGURES)

    def version(self, uuid: str) -> int:
        """The number of the last change of this row."""
        return self._versions[uuid]

    def take_kinds(self, uuid: str) -> set[str]:
        """The kinds of topics that changed this row since the last call; its row is built now."""
        return self._kinds.pop(uuid, set())

    def changes_after(self, after: int, most: int) -> list[ChangedRow]:
        """Rows that changed after a number, the oldest change first, at most so many."""
        changes, versions = self._changes, self._versions
        start = bisect_right(changes, after, key=attrgetter("version"))
        newer = (changes[at] for at in range(start, len(changes)))
        return list(islice((row for row in newer if versions.get(row.uuid) == row.version), most))

    def gone_agents(self, after: int, until: int) -> list[ChangedRow]:
        """Agents that were destroyed after a number, up to another."""
        return [row for row in _newer(self._gone, after) if row.version <= until]

    def _number(self, uuids: Iterable[str], kind: str) -> None:
        for uuid in uuids:
            self._last += 1
            self._kinds.setdefault(uuid, set()).add(kind)
            self._versions[uuid] = self._last
            self._changes.append(ChangedRow(self._last, uuid))
        if len(self._changes) > _STALE_MOST + 2 * len(self._versions):
            current = self._versions
            self._changes = [row for row in self._changes if current.get(row.uuid) == row.version]

    def _compare(self, hive: Hive) -> None:
        """Number the agents whose spec or place differs between two snapshots of the tree."""
        before, self._hive = self._hive, hive
        if before is None:
            return
        specs, parents = before.specs, before.topology.parents
        places = hive.topology.parents
        changed = [
            spec.id for name, spec in hive.specs.items()
            if specs.get(name) is not spec or parents.get(name) != places.get(name)
        ]  # fmt: skip
        self._number(changed, _TREE)
        for uuid in before.names.keys() - hive.names.keys():
            self._forget(uuid)

    def _forget(self, uuid: str) -> None:
        self._versions.pop(uuid, None)
        self._kinds.pop(uuid, None)
        self.rows.pop(uuid, None)
        self.figures.forget(uuid)
        self._last += 1
        self._gone.pop(uuid, None)
        self._gone[uuid] = self._last
        if len(self._gone) > _GONE_MOST:
            self.forgotten = self._gone.pop(next(iter(self._gone)))


def _newer(versions: dict[str, int], after: int) -> list[ChangedRow]:
    newer = []
    for uuid in reversed(versions):
        version = versions[uuid]
        if version <= after:
            break
        newer.append(ChangedRow(version, uuid))
    newer.reverse()
    return newer
