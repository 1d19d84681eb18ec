"""The configuration that a new agent starts with: the template of the package as one commit.

The commit is the same on every host, since nothing of the host stands in it: its id is known before
there is any repository (`hive_core/model/config/seed.py`, which a test compares with this).
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
# The later ones lie over the earlier ones.
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
    """`objects`: blobs, trees and the commit, each with its kind, what it names before it."""

    commit: str
    tree: str
    nar: str
    files: Mapping[str, tuple[bool, bytes]]
    objects: tuple[tuple[str, bytes], ...]


@cache
def seed(kind: str) -> Seed:
    """The template for agents of the image `nix`, or of any other: `host`."""
    files = dict(sorted(_files(kind)))
    objects: list[tuple[str, bytes]] = []
    tree = _tree(files, objects)
    commit = _put(objects, "commit", commit_bytes(tree, (), SIGNED, MESSAGE))
    return Seed(commit, tree, nar.digest(nar.pack(files)), files, tuple(objects))


def write_seeds(place: Path) -> None:
    """A clone for each kind of image, where containers see it."""
    with guard_repository(place):
        for kind in LAYERS:
            write_clone(kind, place / kind)


def write_clone(kind: str, folder: Path) -> None:
    """Make a clone there that is ready to be copied; one that is right stays.

    In place, since containers see the folder itself: it counts as there once it has its `.git`,
    which goes first and comes last.
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
    """The `.git` of a clone: our own objects, the branch main and an index that shows no change."""
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
