"""Reads and checks an older installation on the disk, without changing it.

The root folder (/var/lib/hyperhive) holds `meta/topology.json`, `agents/NAME/{state,config}`,
`applied/NAME` and, of the one special agent, `manager/state`. That agent, `manager` in the
container `hm1nd`, is the root agent here. No link that agents could write is followed.
"""

from __future__ import annotations

import json
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hive_core.model.names import name_fault

MANAGER: Final = "manager"
CONTAINER: Final = "hm1nd"
MARKER: Final = ".migrated-to-hive"
JOURNAL: Final = ".migrating-to-hive"
RUNNING: Final = Path("/run/systemd/machines")
_MOST: Final = 1 << 20  # bytes of topology.json

_INTO: Final = re.compile(r"[a-z][a-z0-9.-]{0,62}", re.ASCII)

# Targets of its files: a new folder of the state, or the state itself.
STATE, CONFIG, APPLIED = "", "old-config", "old-applied.git"


@dataclass(frozen=True, slots=True)
class OldAgent:
    """`was`: its old name. `folders`: its folders, by their places in the state."""

    name: str
    was: str
    parent: str | None
    folders: Mapping[str, Path]


class Old:
    """`agents` has parents before children; `left` are the paths that are not copied.

    `faults` are the reasons why it cannot be imported, one line each.
    """

    def __init__(self, folder: Path, root: str, running: Path = RUNNING) -> None:
        self.folder = folder.resolve()
        self._root = root
        self.faults: list[str] = []
        self.left: dict[Path, None] = {}
        if not folder.is_dir():
            self.faults.append(f"{folder}: no such folder")
        parents = self._renamed_parents(self._parents())
        self._check(parents, running)
        self.agents = [] if self.faults else list(self._in_order(parents))

    @property
    def marker(self) -> Path:
        return self.folder / MARKER

    @property
    def journal(self) -> Path:
        return self.folder / JOURNAL

    def _parents(self) -> dict[str, str | None]:
        """Old name -> old name of the parent, for recorded agents and for agents with files."""
        parents: dict[str, str | None] = {MANAGER: None, **self._topology()}
        for name in self._entries("agents"):
            parents.setdefault(name, MANAGER)
        return parents

    def _topology(self) -> dict[str, str | None]:
        file = self.folder / "meta/topology.json"
        if not file.exists():
            return {}
        try:
            tree = _object(file)
        except (OSError, ValueError) as error:
            self.faults.append(f"{file}: {error}")
            return {}
        odd = [name for name, parent in tree.items() if not isinstance(parent, str | None)]
        self.faults += [f"{file}: the parent of {name!r} is not a name" for name in odd]
        return {name: parent for name, parent in tree.items() if isinstance(parent, str | None)}

    def _entries(self, room: str) -> Iterator[str]:
        place = self.folder / room
        if _is_folder(place):
            yield from sorted(path.name for path in place.iterdir() if _is_folder(path))

    def _renamed_parents(self, parents: dict[str, str | None]) -> dict[str, str | None]:
        """The same, with `manager` under its new name."""
        if self._root != MANAGER and self._root in parents:
            text = f"{self._root!r}: this name belongs to the root agent, which {MANAGER!r} becomes"
            self.faults.append(text)
        return {self._new(name): parent and self._new(parent) for name, parent in parents.items()}

    def _new(self, name: str) -> str:
        return self._root if name == MANAGER else name

    def _was(self, name: str) -> str:
        return MANAGER if name == self._root else name

    def _check(self, parents: Mapping[str, str | None], running: Path) -> None:
        for name, parent in parents.items():
            if reason := name_fault(name):
                self.faults.append(f"{name!r}: a name {reason}")
            if parent is not None and parent not in parents:
                self.faults.append(f"{name!r}: its parent {parent!r} does not exist")
        if parents.get(self._root) is not None:
            self.faults.append(f"{MANAGER!r}: it has a parent, {parents[self._root]!r}")
        self.faults += [f"{name!r}: is its own ancestor" for name in _circular(parents)]
        for name in parents:
            container = CONTAINER if name == self._root else name
            if (running / container).exists():
                self.faults.append(f"{name!r}: its container {container} runs; stop it first")
            self._folders(self._was(name))

    def _folders(self, was: str) -> dict[str, Path]:
        """The folders of an agent; symlinks in place of folders are faults."""
        own = self.folder / "agents" / was
        folders = {STATE: own / "state", CONFIG: own / "config"}
        folders[APPLIED] = self.folder / "applied" / was
        folders |= dict(self._others(own))
        first = self.folder / MANAGER / "state"
        if was == MANAGER and self._holds(first):
            if self._holds(folders[STATE]):
                self.faults.append(
                    f"{first} and {folders[STATE]}: both have files; empty one of them"
                )
            folders[STATE] = first
        return {into: path for into, path in folders.items() if self._holds(path)}

    def _others(self, own: Path) -> Iterator[tuple[str, Path]]:
        """Its other folders; other files are reported and not copied."""
        for path in sorted(own.iterdir()) if _is_folder(own) else ():
            into = f"old-{path.name.lower().lstrip('.').replace('_', '-')}"
            if path.name in ("state", "config"):
                continue
            if _is_folder(path) and _INTO.fullmatch(into) and into != APPLIED:
                yield into, path
            else:
                self.left[path] = None

    def _holds(self, path: Path) -> bool:
        """Whether there is a non-empty folder, reached without links."""
        at = self.folder
        for part in path.relative_to(self.folder).parts:
            at /= part
            try:
                facts = at.lstat()
            except FileNotFoundError:
                return False
            if not stat.S_ISDIR(facts.st_mode):
                text = f"{at}: is not a folder, and links are not followed"
                if text not in self.faults:
                    self.faults.append(text)
                return False
        return any(path.iterdir())

    def _in_order(self, parents: Mapping[str, str | None]) -> Iterator[OldAgent]:
        """The root agent first, then parents before children."""
        level = [self._root, *sorted(n for n, p in parents.items() if not p and n != self._root)]
        while level:
            for name in level:
                was = self._was(name)
                yield OldAgent(name, was, parents[name], self._folders(was))
            level = sorted(name for name, parent in parents.items() if parent in level)


def _object(file: Path) -> dict[str, object]:
    if file.stat().st_size > _MOST:
        raise ValueError(f"larger than {_MOST} bytes")
    value = json.loads(file.read_text(encoding="utf-8"))
    if not isinstance(value, dict):
        raise ValueError("no object")  # noqa: TRY004 - reported like any other wrong text
    return value


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _circular(parents: Mapping[str, str | None]) -> Iterator[str]:
    """Names that are among their own ancestors."""
    for name in parents:
        seen, at = set[str](), parents[name]
        while at is not None and at != name and at not in seen:
            seen.add(at)
            at = parents.get(at)
        if at == name:
            yield name
