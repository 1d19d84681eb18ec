"""Objects of the repository: commits with their trees, written durably and read with suspicion."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import pygit2
from pygit2.enums import FileMode, ObjectType, Option

from hive_core.errors import InvalidArgument
from hive_core.host.git import files
from hive_core.host.git.faults import reading, writing
from hive_core.model.agent import AgentSpec
from hive_core.model.hive import Hive
from hive_core.model.topology import DEPTH_LIMIT, Topology

_FILE_KINDS: Final = (FileMode.BLOB, FileMode.BLOB_EXECUTABLE)
_CACHED_AT_MOST: Final = 65536
_AUTHOR: Final = ("hive", "hive@localhost")

# For the whole process: objects and refs are on disk when a call returns. Hashes are compared on
# every read, so a flipped bit does not pass for content.
for _option in (Option.ENABLE_FSYNC_GITDIR, Option.ENABLE_STRICT_HASH_VERIFICATION):
    pygit2.option(_option, 1)


class Objects:
    """What a commit holds, as a hive, and back."""

    def __init__(
        self,
        git: pygit2.Repository,
        depth_limit: int = DEPTH_LIMIT,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.git = git
        self._depth_limit = depth_limit
        self._clock = clock
        self._specs: dict[pygit2.Oid, AgentSpec] = {}

    def read(self, oid: str) -> Hive:
        """The hive at a commit. DamagedRepo, or InvalidArgument that says what is not valid."""
        tree = self.tree(oid)
        parents = self._topology(tree)
        hive = Hive(oid, Topology(parents), self._agents(tree), self._depth_limit)
        return hive.validated()

    def write(self, hive: Hive, before: Hive, message: str, trailers: Mapping[str, str]) -> str:
        """A commit on top of `before`: only what differs is written, other files are kept."""
        if hive.topology.parents.keys() != hive.specs.keys():
            raise InvalidArgument("every agent has a place and a spec", field="topology")
        with writing():
            base = self.tree(before.commit) if before.commit else None
            root = self.git.TreeBuilder(base) if base else self.git.TreeBuilder()
            if base is None or hive.topology.parents != before.topology.parents:
                data = files.topology_bytes(hive.topology.parents)
                root.insert(files.TOPOLOGY, self._blob(data), FileMode.BLOB)
            self._write_agents(root, base, hive, before)
            parents = [pygit2.Oid(hex=before.commit)] if before.commit else []
            return self._commit(self._tree(root), parents, message_text(message, trailers))

    def tree(self, oid: str) -> pygit2.Tree:
        """The tree of a commit."""
        with reading(f"commit {oid}", "objects"):
            return self.git[oid].peel(pygit2.Commit).tree

    def loose(self, oid: str) -> Path:
        """Where an object lies that is in no pack."""
        return Path(self.git.path, "objects", oid[:2], oid[2:])

    def check(self, oid: str) -> set[str]:
        """Read everything that a commit holds, known to us or not; what it all is."""
        seen = {oid}
        stack = [(self.tree(oid), "")]
        while stack:
            tree, at = stack.pop()
            for entry in _entries(tree, at or "tree"):
                path = f"{at}{entry.name}"
                with reading(f"object {entry.id} of {path}", "objects"):
                    found = self.git[entry.id]
                seen.add(str(entry.id))
                if isinstance(found, pygit2.Tree):
                    stack.append((found, f"{path}/"))
        return seen

    def _topology(self, tree: pygit2.Tree) -> dict[str, str | None]:
        found = {entry.name: entry for entry in _entries(tree, "tree")}
        if files.TOPOLOGY not in found:
            raise InvalidArgument(f"{files.TOPOLOGY} is missing", field=files.TOPOLOGY)
        _plain(found[files.TOPOLOGY], files.TOPOLOGY)
        return files.read_topology(self._data(found[files.TOPOLOGY].id, files.TOPOLOGY))

    def _agents(self, tree: pygit2.Tree) -> dict[str, AgentSpec]:
        folder = _folder(tree)
        specs, cache = {}, {}
        for entry in _entries(folder, files.AGENTS) if folder is not None else ():
            name, file = files.agent_name(entry.name or ""), f"{files.AGENTS}/{entry.name}"
            _plain(entry, file)
            spec = self._specs.get(entry.id)
            if spec is None:
                spec = files.read_spec(self._data(entry.id, file), file)
            specs[name] = cache[entry.id] = spec
        self._specs = cache
        return specs

    def _data(self, oid: pygit2.Oid, file: str) -> bytes:
        with reading(f"object {oid} of {file}", "objects"):
            kind, size = self.git.odb.read_header(oid)
        if kind != ObjectType.BLOB:
            raise InvalidArgument(f"{file} is no plain file", field=file)
        if size > files.LIMIT:
            raise InvalidArgument(f"{file}: larger than {files.LIMIT} bytes", field=file)
        with reading(f"object {oid} of {file}", "objects"):
            return self.git.odb.read(oid)[1]

    def _write_agents(
        self, root: pygit2.TreeBuilder, base: pygit2.Tree | None, hive: Hive, before: Hive
    ) -> None:
        old, new = before.specs if base else {}, hive.specs
        changed = [name for name, spec in new.items() if old.get(name) is not spec]
        gone = old.keys() - new.keys()
        if not changed and not gone:
            return
        folder = _folder(base) if base else None
        agents = self.git.TreeBuilder(folder) if folder is not None else self.git.TreeBuilder()
        for name in gone:
            agents.remove(name + files.SUFFIX)
        for name in changed:
            oid = self._blob(files.spec_bytes(new[name]))
            self._remember(oid, new[name])
            agents.insert(name + files.SUFFIX, oid, FileMode.BLOB)
        if len(agents):
            root.insert(files.AGENTS, self._tree(agents), FileMode.TREE)
        elif folder is not None:
            root.remove(files.AGENTS)

    def _remember(self, oid: pygit2.Oid, spec: AgentSpec) -> None:
        if len(self._specs) >= _CACHED_AT_MOST:
            self._specs.clear()
        self._specs[oid] = spec

    def _blob(self, data: bytes) -> pygit2.Oid:
        return self._sound(lambda: self.git.create_blob(data))

    def _tree(self, builder: pygit2.TreeBuilder) -> pygit2.Oid:
        return self._sound(builder.write)

    def _commit(self, tree: pygit2.Oid, parents: list[pygit2.Oid], message: str) -> str:
        author = pygit2.Signature(*_AUTHOR, int(self._clock()), 0)
        return str(
            self._sound(
                lambda: self.git.create_commit(None, author, author, message, tree, parents)
            )
        )

    def _sound(self, write: Callable[[], pygit2.Oid]) -> pygit2.Oid:
        """libgit2 does not write what it believes to have: a torn copy has to go first."""
        oid = write()
        try:
            self.git.odb.read(oid)
        except pygit2.GitError:
            self.loose(str(oid)).unlink(missing_ok=True)
            oid = write()
            self.git.odb.read(oid)
        return oid


def message_text(message: str, trailers: Mapping[str, str]) -> str:
    """Subject and trailers. One line each: nothing that a caller wrote can pass for a trailer."""
    lines = [_line(message) or "change", ""]
    lines += [f"{key}: {_line(value)}" for key, value in trailers.items()]
    return "\n".join(lines) + "\n"


def _line(text: str) -> str:
    printable = (char if char.isprintable() else " " for char in text)
    return " ".join("".join(printable).split())


def _entries(tree: pygit2.Tree, what: str) -> list[pygit2.Object]:
    with reading(what, "objects"):
        return list(tree)


def _folder(tree: pygit2.Tree) -> pygit2.Tree | None:
    """The tree of agents/."""
    if files.AGENTS not in tree:
        return None
    with reading(files.AGENTS, "objects"):
        found = tree[files.AGENTS]
    if not isinstance(found, pygit2.Tree):
        raise InvalidArgument(f"{files.AGENTS} is no directory", field=files.AGENTS)
    return found


def _plain(entry: pygit2.Object, file: str) -> None:
    if entry.filemode not in _FILE_KINDS:
        raise InvalidArgument(f"{file} is no plain file", field=file)
