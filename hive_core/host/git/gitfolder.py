"""Repositories in git's layout, created, read and pruned without running git.

The meta repository has a work tree; the repositories of agents are bare.
https://git-scm.com/docs/gitrepository-layout. Operators do not run git in this folder: they have
clones of their own, which use `git-remote-hive`.
"""

from __future__ import annotations

import os
import shutil
import stat
import zlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

import pygit2

from hive_core.host.git.branch import BRANCH
from hive_core.host.git.file_writer import FOLDER_MODE, make_folder, put
from hive_core.host.git.pack_format import object_name
from hive_core.host.git.packs import Pack
from hive_core.host.storage.disk import sync_folder

_REF_MOST: Final = 4096  # bytes
_PACKED_MOST: Final = 16 << 20
_FOLDERS: Final = (
    "objects/pack", "objects/info", "refs/heads", "refs/tags", "refs/hive/proposals", "hive",
)  # fmt: skip
_CONFIG: Final = b"""[core]
\trepositoryformatversion = 0
\tfilemode = true
\tbare = %s
"""
WORK_CONFIG: Final = _CONFIG % b"false"
BARE_CONFIG: Final = _CONFIG % b"true"


def create_repository(path: Path) -> None:
    """Create an empty repository that only the daemon can access (attack 59)."""
    spare = path / ".new"  # on the same file system, whatever `path` is
    shutil.rmtree(spare, ignore_errors=True)
    pygit2.init_repository(str(spare), initial_head=BRANCH.rpartition("/")[2])
    folder = spare / ".git"
    shutil.rmtree(folder / "hooks", ignore_errors=True)
    (folder / "config").write_bytes(WORK_CONFIG)
    for number in range(256):
        (folder / "objects" / f"{number:02x}").mkdir(exist_ok=True)
    _sync_all(folder)
    path.chmod(FOLDER_MODE)
    folder.rename(path / ".git")
    spare.rmdir()
    sync_folder(path)
    sync_folder(path.parent)


def _sync_all(folder: Path) -> None:
    """Set the modes, and sync every file and directory."""
    for path in (folder, *folder.rglob("*")):
        if path.is_dir():
            path.chmod(FOLDER_MODE)
            sync_folder(path)
        elif path.is_file():
            with path.open("rb") as file:
                os.fsync(file.fileno())


def create_bare_repository(path: Path) -> Path:
    """Create an empty bare repository. Replaces what an interrupted attempt left there."""
    with suppress(FileNotFoundError):
        shutil.rmtree(path)
    make_folder(path)
    for subfolder in _FOLDERS:
        at = path
        for part in subfolder.split("/"):
            at = make_folder(at / part)
    put(path / "HEAD", b"ref: refs/heads/main\n", durable=False)
    put(path / "config", BARE_CONFIG, durable=False)
    return path


def write_loose_object(path: Path, kind: str, data: bytes) -> None:
    """Write an object as a loose object."""
    name = object_name(kind, data)
    raw = b"%s %d\0%s" % (kind.encode(), len(data), data)
    put(make_folder(path / "objects" / name[:2]) / name[2:], zlib.compress(raw))


def write_pack(place: Path, pack: bytes, table: bytes, *, durable: bool = True) -> str:
    """Put a pack and its index into `objects/pack`; return their base name."""
    name = f"pack-{pack[-20:].hex()}"
    for suffix, data in ((".pack", pack), (".idx", table)):
        put((make_folder(place) / name).with_suffix(suffix), data, durable=durable)
    return name


def read_refs(path: Path) -> dict[str, str]:
    """All refs by their full names. A loose ref overrides the packed ref of the same name."""
    refs_by_name = dict(_packed_refs(path / "packed-refs"))
    for place, _, names in os.walk(path / "refs"):
        for name in names:
            if not name.endswith(".lock") and not name.startswith("."):
                file = Path(place) / name
                with suppress(OSError):
                    refs_by_name[str(file.relative_to(path))] = _text(file, _REF_MOST).strip()
    return refs_by_name


def _text(path: Path, most: int) -> str:
    """The text of a regular file. Symlinks are not followed, and a pipe does not block."""
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(handle, encoding="utf-8", errors="replace") as file:  # noqa: PTH123 - a descriptor
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode) or status.st_size > most:
            raise OSError(f"{path.name} is not a file of refs")
        return file.read(most)


def _packed_refs(path: Path) -> Iterator[tuple[str, str]]:
    with suppress(OSError):
        for line in _text(path, _PACKED_MOST).splitlines():
            oid, _, name = line.partition(" ")
            if name and line[0] not in "#^":
                yield name, oid


def prune_proposals(path: Path, approvals: set[str], commits: set[str]) -> None:
    """Delete the refs of dropped proposals first, then their objects, so that no ref dangles."""
    notes = {note.stem: note for note in (path / "hive").glob("*.pack")}
    gone = notes.keys() - approvals
    brought = {approval: note.read_text() for approval, note in notes.items()}
    needed = _needed_packs(
        path, {brought[approval] for approval in notes.keys() & approvals}, brought, commits
    )
    _drop_refs(path, gone)
    for approval in gone:
        if brought[approval] and brought[approval] not in needed:
            for suffix in (".idx", ".pack"):  # git ignores a pack without an index
                (path / "objects/pack" / f"{brought[approval]}{suffix}").unlink(missing_ok=True)
        for suffix in ("json", "diff"):
            notes[approval].with_suffix(f".{suffix}").unlink(missing_ok=True)
        notes[approval].unlink()
    for archive in (path / "hive").glob("*.nar"):
        if archive.stem not in commits:
            archive.unlink()


def _needed_packs(
    path: Path, wanted: set[str], brought: Mapping[str, str], commits: set[str]
) -> set[str]:
    """Names of packs to keep: those of kept proposals, and one for each other listed commit."""
    tables = sorted((path / "objects/pack").glob("*.idx"), key=lambda table: table.stat().st_size)
    packs = {table.stem: Pack(table) for table in tables}
    needed = {name for name in packs if name in wanted or name not in brought.values()}
    for commit in commits:
        name = bytes.fromhex(commit)
        holders = [stem for stem, pack in packs.items() if pack.place(name) is not None]
        if holders and needed.isdisjoint(holders):
            needed.add(holders[0])
    return needed


def _drop_refs(path: Path, approvals: set[str]) -> None:
    all_refs = read_refs(path)
    gone = {name: oid for name, oid in all_refs.items() if name.rpartition("/")[2] in approvals}
    elsewhere = dict(_packed_refs(path / "packed-refs"))
    if gone.keys() & elsewhere.keys():
        lines = (f"{oid} {name}\n" for name, oid in elsewhere.items() if name not in gone)
        put(path / "packed-refs", "".join(lines).encode())
    for name, oid in gone.items():
        (path / name).unlink(missing_ok=True)
        if name.startswith("refs/tags/"):
            (path / "objects" / oid[:2] / oid[2:]).unlink(missing_ok=True)
