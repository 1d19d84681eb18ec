"""The configuration that a new agent starts with: the package's template as one commit.

The commit is the same on every host because it holds no data of the host. Its id is known before a
repository exists (`hive_core/model/config/seed.py`; a test compares the two).
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from hashlib import sha1
from pathlib import Path
from typing import Final

import pygit2
from pygit2.enums import ObjectType

from hive_core.host.git.file_writer import guard_repository
from hive_core.host.git.object_writer import commit_bytes, tree_bytes
from hive_core.host.git.store import FILES, FOLDER, TreeEntry
from hive_core.plan import nar

ROOM: Final = Path(__file__).parents[2] / "seed"
# Later layers override earlier ones.
LAYERS: Final = {"host": ("host",), "nix": ("host", "nix")}
_SPARE: Final = ".new"
SIGNED: Final = "hive <hive@localhost> 1700000000 +0000"
MESSAGE: Final = "The template\n"
_CONFIG: Final = """\
[core]
\trepositoryformatversion = 0
\tfilemode = true
\tbare = false
\tlogallrefupdates = true
[user]
\tname = agent
\temail = agent@hive.invalid
"""
_IGNORED: Final = "# What was here before the last `init_config`.\n/.before/\n"


@dataclass(frozen=True, slots=True)
class Seed:
    """A template as a commit. In `objects`, each object follows those that it names."""

    commit: str
    tree: str
    nar: str
    files: Mapping[str, tuple[bool, bytes]]
    objects: tuple[tuple[str, bytes], ...]


@cache
def seed(kind: str) -> Seed:
    """The template `nix` for agents of the image `nix`, and `host` for all other agents."""
    files = dict(sorted(_files(kind)))
    objects: list[tuple[str, bytes]] = []
    tree = _tree(files, objects)
    commit = _put(objects, "commit", commit_bytes(tree, (), SIGNED, MESSAGE))
    return Seed(commit, tree, nar.digest(nar.pack(files)), files, tuple(objects))


def write_seeds(place: Path) -> None:
    """Write a clone of each template into `place`, which containers can read."""
    with guard_repository(place):
        for kind in LAYERS:
            write_clone(kind, place / kind)


def write_clone(kind: str, folder: Path) -> None:
    """Create a clone in `folder` that is ready to be copied. A correct one is left as it is.

    The clone is written in place, because containers see the folder itself. It counts as complete
    once `.git` exists; `.git` is removed first and created last.
    """
    if _stands(folder, seed(kind).commit):
        return
    folder.mkdir(parents=True, exist_ok=True)
    for entry in (folder / ".git", *folder.iterdir()):
        _remove(entry)
    spare = folder / _SPARE
    spare.mkdir()
    for path, (_, data) in seed(kind).files.items():
        (spare / path).parent.mkdir(parents=True, exist_ok=True)
        (spare / path).write_bytes(data)
    _repository(kind, spare)
    for entry in (spare, *spare.rglob("*")):
        entry.chmod(0o755 if entry.is_dir() else 0o644)
    for entry in sorted(spare.iterdir(), key=lambda path: path.name == ".git"):
        entry.rename(folder / entry.name)
    spare.rmdir()


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _stands(folder: Path, commit: str) -> bool:
    try:
        return (folder / ".git/refs/heads/main").read_text().strip() == commit
    except OSError:
        return False


def _files(kind: str) -> Iterator[tuple[str, tuple[bool, bytes]]]:
    for layer in LAYERS[kind]:
        room = ROOM / layer
        for path in room.rglob("*"):
            if path.is_file():
                yield path.relative_to(room).as_posix(), (False, path.read_bytes())


def _tree(files: Mapping[str, tuple[bool, bytes]], objects: list[tuple[str, bytes]]) -> str:
    entries: dict[str, TreeEntry] = {}
    below: dict[str, dict[str, tuple[bool, bytes]]] = {}
    for path, file in files.items():
        top, slash, rest = path.partition("/")
        if slash:
            below.setdefault(top, {})[rest] = file
        else:
            entries[top] = TreeEntry(FILES[0], _put(objects, "blob", file[1]))
    for name, inside in below.items():
        entries[name] = TreeEntry(FOLDER, _tree(inside, objects))
    return _put(objects, "tree", tree_bytes(entries))


def _put(objects: list[tuple[str, bytes]], kind: str, data: bytes) -> str:
    objects.append((kind, data))
    raw = b"%s %d\0%s" % (kind.encode(), len(data), data)
    return sha1(raw, usedforsecurity=False).hexdigest()


def _repository(kind: str, folder: Path) -> None:
    """Create the `.git` of a clone: the objects, the branch main and an index without changes."""
    git = pygit2.init_repository(str(folder), initial_head="main")
    own = Path(git.path)
    shutil.rmtree(own / "hooks", ignore_errors=True)
    (own / "config").write_text(_CONFIG)
    (own / "info").mkdir(exist_ok=True)
    (own / "info/exclude").write_text(_IGNORED)
    for object_kind, data in seed(kind).objects:
        git.odb.write(ObjectType[object_kind.upper()], data)
    git.references.create("refs/heads/main", seed(kind).commit)
    git.index.read_tree(seed(kind).tree)
    git.index.write()
