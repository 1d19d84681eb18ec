"""What is on disk, mounted and shown; updated by observations and by actions that succeed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from hive_core.plan import actions as a
from hive_core.plan.agent_steps import is_job_id
from hive_core.plan.daemon_actions import (
    DaemonAction,
    Listen,
    ShowConfig,
    ShowIdentity,
    ShowView,
    StopListening,
)
from hive_core.plan.results import StorageFacts


@dataclass(slots=True)
class StorageState:
    """`parents`: the parent's short id of each node, by short id. The rest goes by UUID."""

    parents: dict[str, str | None] = field(default_factory=dict)
    archives: set[str] = field(default_factory=set)
    roots: set[str] = field(default_factory=set)
    mounts: set[str] = field(default_factory=set)
    socket_directories: set[str] = field(default_factory=set)
    listening: set[str] = field(default_factory=set)
    identities: dict[str, int] = field(default_factory=dict)
    views: dict[str, int] = field(default_factory=dict)
    configs: dict[str, str] = field(default_factory=dict)
    stores: dict[str, frozenset[str]] = field(default_factory=dict)

    def update(self, facts: StorageFacts) -> None:
        """Take over a fresh observation. What a removed socket directory showed is gone with it.

        The mounts of a job are of who runs it: taken for leftovers of an unknown agent, they would
        be unmounted by `hive gc` while the job runs.
        """
        self.parents.clear()
        for lineage in facts.nodes:
            self._put(lineage)
        self.archives, self.roots = set(facts.archives), set(facts.roots)
        self.mounts = {name for name in facts.mounts if not is_job_id(name)}
        self.socket_directories = set(facts.socket_directories)
        self.listening &= self.socket_directories
        self._shut(self.identities.keys() - self.socket_directories)

    def node(self, short: str) -> tuple[str, ...]:
        """The lineage of a node, root first; empty when it does not exist."""
        if short not in self.parents:
            return ()
        lineage, parent = [short], self.parents[short]
        while parent is not None and len(lineage) <= a.DEPTH_MAX:
            lineage.append(parent)
            parent = self.parents.get(parent)
        return tuple(reversed(lineage))

    def kids(self, short: str) -> Iterator[str]:
        return (child for child, parent in self.parents.items() if parent == short)

    @property
    def uuids(self) -> set[str]:
        """The UUIDs of everything on disk that is named by a full UUID."""
        return self.archives | self.roots | self.mounts | self.socket_directories

    def nodes_without(self, shorts: Iterable[str]) -> Iterator[tuple[str, ...]]:
        """Nodes that belong to none of these."""
        return (self.node(short) for short in self.parents.keys() - set(shorts))

    def record(self, action: a.Action | DaemonAction) -> None:
        """Record an action that succeeded."""
        match action:
            case a.MakeNode(lineage) | a.RestoreNode(_, lineage) | a.MoveNode(_, lineage):
                self._put(lineage)
                if isinstance(action, a.RestoreNode):
                    self.archives.discard(action.uuid)
            case a.ArchiveNode(lineage, uuid):
                self.parents.pop(lineage[-1], None)
                self.archives.add(uuid)
            case a.DropArchive(uuid):
                self.archives.discard(uuid)
            case _:
                self._record_root(action)

    def _record_root(self, action: a.Action | DaemonAction) -> None:
        match action:
            case a.AdoptRoot(source, uuid):
                self.roots.discard(source)
                self.roots.add(uuid)
            case a.DropRoot(uuid):
                self.roots.discard(uuid)
            case a.Mount(uuid):
                self.mounts.add(uuid)
            case a.Unmount(uuid):
                self.mounts.discard(uuid)
            case _:
                self._record_socket_directory(action)

    def _record_socket_directory(self, action: a.Action | DaemonAction) -> None:
        match action:
            case a.MakeSocketDirectory(uuid):
                self.socket_directories.add(uuid)
            case a.RemoveSocketDirectory(uuid):
                self.socket_directories.discard(uuid)
                self._shut({uuid})
            case a.StartUnit(uuid):
                self.stores.pop(uuid, None)
            case Listen(uuid):
                self.listening.add(uuid)
            case StopListening(uuid):
                self.listening.discard(uuid)
            case _:
                self._record_shown(action)

    def _record_shown(self, action: a.Action | DaemonAction) -> None:
        match action:
            case ShowIdentity(uuid, _, mark):
                self.identities[uuid] = mark
            case ShowView(uuid, _, mark):
                self.views[uuid] = mark
            case ShowConfig(uuid, commit):
                self.configs[uuid] = commit
            case a.ShowStore(uuid, store, _, shown):
                others = self.stores.get(uuid, frozenset()) - {store}
                self.stores[uuid] = others | ({store} if shown else frozenset())
            case _:
                pass

    def _put(self, lineage: tuple[str, ...]) -> None:
        self.parents[lineage[-1]] = lineage[-2] if len(lineage) > 1 else None

    def _shut(self, uuids: set[str]) -> None:
        for uuid in uuids:
            self.listening.discard(uuid)
            self.identities.pop(uuid, None)
            self.views.pop(uuid, None)
            self.configs.pop(uuid, None)
            self.stores.pop(uuid, None)
