"""Child process that reads a repository of the daemon for an operator's clone: packs and diffs.

`python -I pack_exporter.py pack|diff|packs FOLDER OUT`, with the parameters as JSON on standard
input. libgit2 can crash or loop on damaged data; a child process keeps that away from hived. Errors
are printed as one line on standard error.
"""

from __future__ import annotations

import json
import re
import resource
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final

if __name__ == "__main__":  # run as a file with -I, so no import path is set
    sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

import pygit2
from pygit2.enums import ObjectType
from pygit2.packbuilder import PackBuilder

from hive_core.errors import HiveError
from hive_core.host.git.packing import loose_objects
from hive_core.host.git.packs import Pack
from hive_core.host.git.store import FILES, ObjectStore
from hive_core.jobs.diff import FileDiff
from hive_core.jobs.outcome import JobRefused

# Below the memory limit of hived's unit, so that this process fails before systemd kills hived.
_MEMORY: Final = 640 << 20
_KILL_FIRST: Final = "1000"
_ENTRY: Final = re.compile(rb"([0-7]{5,6}) [^\0]+\0(.{20})", re.DOTALL)
_MODULE: Final = b"160000"
DIFF_MOST: Final = 4 << 20  # bytes to be read


def reachable_objects(
    git: pygit2.Repository, wants: Iterable[str], haves: Iterable[str]
) -> Iterator[str]:
    """The objects that belong to `wants`, each once, without those that belong to `haves`."""
    walk, seen = git.walk(None), set[str]()
    for have in haves:
        if (commit := _commit(git, have)) is not None:
            walk.hide(commit.id)
            seen.update(_tree_objects(git, str(commit.tree_id), seen))
    for want in wants:
        target: pygit2.Object = git[want]
        while isinstance(target, pygit2.Tag):
            yield str(target.id)
            target = git[target.target]
        walk.push(target.id)
    for commit in walk:
        yield str(commit.id)
        yield from _tree_objects(git, str(commit.tree_id), seen)


def _commit(git: pygit2.Repository, oid: str) -> pygit2.Commit | None:
    """The commit that a clone names as its own; None if the repository does not have it."""
    try:
        return git[oid].peel(ObjectType.COMMIT)
    except (KeyError, ValueError, pygit2.GitError):
        return None


def _tree_objects(git: pygit2.Repository, tree: str, seen: set[str]) -> Iterator[str]:
    """A tree and all objects below it that are not in `seen`."""
    row = [tree]
    while row:
        oid = row.pop()
        if oid in seen:
            continue
        seen.add(oid)
        yield oid
        _, data = git.read(oid)
        for mode, name in _ENTRY.findall(data):
            child = name.hex()
            if mode.lstrip(b"0") == b"40000":
                row.append(child)
            elif mode != _MODULE and child not in seen:
                seen.add(child)
                yield child


def _open_verified_repository(folder: Path) -> pygit2.Repository:
    store = ObjectStore(folder)
    for oid in loose_objects(folder / "objects"):
        store.check_object(oid, "the requested pack")  # libgit2 loops on a truncated object
    return pygit2.Repository(str(folder))


def write_packs_in_use(folder: Path, out: Path, asked: dict[str, list[str]]) -> None:
    """Write to `out` the names of the packs that hold an object reachable from `wants`."""
    tables = {name: Pack(folder / f"objects/pack/{name}.idx") for name in asked["packs"]
              if (folder / f"objects/pack/{name}.idx").exists()}  # fmt: skip
    used: set[str] = set()
    for oid in reachable_objects(_open_verified_repository(folder), asked["wants"], []):
        name = bytes.fromhex(oid)
        used |= {pack for pack, table in tables.items() if table.place(name) is not None}
    out.write_text("\n".join(sorted(used)))


def write_pack(folder: Path, out: Path, asked: dict[str, list[str]]) -> None:
    """Write the pack to `out`."""
    git = _open_verified_repository(folder)
    builder = PackBuilder(git)
    builder.set_threads(1)
    for oid in reachable_objects(git, asked["wants"], asked["haves"]):
        builder.add(pygit2.Oid(hex=oid))
    room = out.with_name(f"{out.name}.d")
    room.mkdir()
    builder.write(str(room))
    (made,) = room.glob("pack-*.pack")
    made.rename(out)
    for path in room.iterdir():
        path.unlink()
    room.rmdir()


def write_diff(folder: Path, out: Path, asked: dict[str, str]) -> None:
    """Write the rows of the diff to `out`, one JSON value a line."""
    store = ObjectStore(folder)
    old, new = (store.commit(asked[key]).tree if asked[key] else "" for key in ("old", "new"))
    before, after = dict[str, tuple[bool, bytes]](), dict[str, tuple[bool, bytes]]()
    for path, was, now in store.differences(old, new):
        for files, entry in ((before, was), (after, now)):
            if entry is not None:
                files[path] = entry.mode == FILES[1], store.blob(entry.oid, path)
    with out.open("wb") as file:
        for row in FileDiff(before, after, DIFF_MOST).rows():
            file.write(json.dumps(row, ensure_ascii=False).encode() + b"\n")


KINDS: Final[dict[str, Callable[[Path, Path, Any], None]]] = {
    "pack": write_pack,
    "diff": write_diff,
    "packs": write_packs_in_use,
}


def main() -> int:
    kind, folder, out = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    Path("/proc/self/oom_score_adj").write_text(_KILL_FIRST)
    try:
        asked = json.load(sys.stdin)
        KINDS[kind](folder, out, asked)
    except HiveError as error:
        print(error.reason, file=sys.stderr)  # noqa: T201 - what its daemon reads
        return 1
    except (pygit2.GitError, KeyError, ValueError, OSError, MemoryError, JobRefused) as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)  # noqa: T201
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
