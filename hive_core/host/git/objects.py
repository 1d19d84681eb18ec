"""Reads commits as hives, and writes hives as commits. All data read is checked."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from itertools import chain
from pathlib import Path
from typing import Final

from hive_core.errors import InvalidArgument
from hive_core.host.git import files
from hive_core.host.git.faults import guard_writes
from hive_core.host.git.flakes import Flakes
from hive_core.host.git.object_writer import CommitDraft
from hive_core.host.git.store import FILES, FOLDER, FileChange, ObjectStore, TreeEntry
from hive_core.model.agents.agent import AgentSpec
from hive_core.model.agents.hive import Hive
from hive_core.model.agents.topology import DEPTH_LIMIT, Topology
from hive_core.model.config.settings import NixSettings

_CACHED_AT_MOST: Final = 65536
_RECENT_MOST: Final = 4  # commits: those of one batch
_AUTHOR: Final = "hive <hive@localhost>"
_NOTHING: Final[Mapping[str, TreeEntry]] = {}


class Objects:
    """Converts between commits and hives."""

    def __init__(
        self,
        folder: Path,
        depth_limit: int = DEPTH_LIMIT,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.store = ObjectStore(folder)
        self.flakes = Flakes(NixSettings())
        self._depth_limit = depth_limit
        self._clock = clock
        self._specs: dict[str, AgentSpec] = {}
        self._recent: dict[str, CommitDraft] = {}

    def read(self, oid: str) -> Hive:
        """The valid hive at a commit.

        Raises DamagedRepo, or InvalidArgument that names the fault.
        """
        return self.read_as_written(oid).validate()

    def read_as_written(self, oid: str) -> Hive:
        """The hive at a commit. Each file is checked; whether the files agree is not."""
        top = self.store.tree(self.store.commit(oid).tree, "the top")
        parents = files.read_topology(self._file(top, files.TOPOLOGY, files.TOPOLOGY))
        lock = self.flakes.read_lock(top, self._file)
        return Hive(oid, Topology(parents), self._agents(top), self._depth_limit, lock)

    def write(self, hive: Hive, before: Hive, message: str, trailers: Mapping[str, str]) -> str:
        """Write a commit on top of `before`.

        Only changed files are written; unknown files are kept.
        """
        if hive.topology.parents.keys() != hive.specs.keys():
            raise InvalidArgument(
                "each agent needs both a place in the topology and a spec", field="topology"
            )
        draft = CommitDraft(self.store, before.commit)
        old = before if before.commit else Hive()
        with guard_writes():
            if not before.commit or hive.topology.parents != before.topology.parents:
                draft.set_file(files.TOPOLOGY, files.topology_bytes(hive.topology.parents))
            self.flakes.write(draft, hive, old, self._write_agents(draft, hive, old))
            author = f"{_AUTHOR} {int(self._clock())} +0000"
            oid = draft.write(author, message_text(message, trailers))
        self._remember_draft(oid, draft)
        return oid

    def _remember_draft(self, oid: str, draft: CommitDraft) -> None:
        while len(self._recent) >= _RECENT_MOST:
            del self._recent[next(iter(self._recent))]
        if draft.is_complete:
            self._recent[oid] = draft

    def recent_changes(self, old: str, new: str) -> list[FileChange] | None:
        """The changes between two commits, if all commits in between were just written."""
        drafts: list[CommitDraft] = []
        while new != old:
            if new not in self._recent:
                return None
            drafts.append(self._recent[new])
            new = drafts[-1].parent
        changes: dict[str, FileChange] = {}
        for path, before, after in chain.from_iterable(draft.changes for draft in reversed(drafts)):
            first = changes[path].old if path in changes else before
            changes[path] = FileChange(path, first, after)
        return list(changes.values())

    def forget_recent(self) -> None:
        """Drop the recent changes, because the work tree shows them."""
        self._recent.clear()

    def content(self, oid: str, path: str) -> bytes:
        """The bytes of a file, from memory if it was just written."""
        for draft in self._recent.values():
            if oid in draft.contents:
                return draft.contents[oid]
        return self.store.blob(oid, path)

    def check(self, oid: str) -> set[str]:
        """Read and check every object of a commit; return their names."""
        tree = self.store.commit(oid).tree
        seen = {oid, tree}
        for path, entry in self.store.walk(tree):
            if entry.mode in FILES:
                self.store.check_object(entry.oid, path)
            seen.add(entry.oid)
        return seen

    def _agents(self, top: Mapping[str, TreeEntry]) -> dict[str, AgentSpec]:
        folder = _folder(top)
        entries = self.store.tree(folder, files.AGENTS) if folder else _NOTHING
        specs, cache = {}, {}
        for file, entry in entries.items():
            name, path = files.agent_name(file), f"{files.AGENTS}/{file}"
            spec = self._specs.get(entry.oid) if entry.mode in FILES else None
            if spec is None:
                spec = files.read_spec(self._file(entries, file, path), path)
            specs[name] = cache[entry.oid] = spec
        self._specs = cache
        return specs

    def _file(self, tree: Mapping[str, TreeEntry], name: str, path: str) -> bytes:
        entry = tree.get(name)
        if entry is None:
            raise InvalidArgument(f"{path} is missing", field=path)
        if entry.mode not in FILES:
            raise InvalidArgument(f"{path} is not a regular file", field=path)
        return self.store.blob(entry.oid, path)

    def _write_agents(self, draft: CommitDraft, hive: Hive, before: Hive) -> set[str]:
        """Write the specs; return the names whose spec was added, changed or removed."""
        old, new, known = before.specs, hive.specs, _folder(draft.top)
        changed = [name for name, spec in new.items() if old.get(name) is not spec]
        gone = old.keys() - new.keys()
        if not changed and not gone:
            return set()
        agents = self.store.tree(known, files.AGENTS) if known else {}
        for name in gone:
            draft.remove_file(files.spec_path(name), agents)
        for name in changed:
            oid = draft.set_file(files.spec_path(name), files.spec_bytes(new[name]), agents)
            self._remember(oid, new[name])
        if agents:
            draft.top[files.AGENTS] = TreeEntry(FOLDER, draft.write_tree(agents))
        else:
            draft.top.pop(files.AGENTS, None)
        return {*changed, *gone}

    def _remember(self, oid: str, spec: AgentSpec) -> None:
        if len(self._specs) >= _CACHED_AT_MOST:
            self._specs.clear()
        self._specs[oid] = spec


def message_text(message: str, trailers: Mapping[str, str]) -> str:
    """Subject and trailers, one line each, so that text of a caller cannot pass for a trailer."""
    lines = [_line(message) or "change", ""]
    lines += [f"{key}: {_line(value)}" for key, value in trailers.items()]
    return "\n".join(lines) + "\n"


def _line(text: str) -> str:
    if not text.isprintable():
        text = "".join([char if char.isprintable() else " " for char in text])
    return " ".join(text.split())


def _folder(top: Mapping[str, TreeEntry]) -> str:
    """The object name of the tree agents/; empty if there is none."""
    entry = top.get(files.AGENTS)
    if entry is not None and entry.mode != FOLDER:
        raise InvalidArgument(f"{files.AGENTS} is not a directory", field=files.AGENTS)
    return entry.oid if entry is not None else ""
