"""The folder of a bare repository as git lays it out: made, read and tidied without git.

https://git-scm.com/docs/gitrepository-layout. Nobody runs git in it: people have clones of their
own, over `git-remote-hive`.
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

from hive_core.host.git.file_writer import make_folder, put
from hive_core.host.git.initial_pack import object_name
from hive_core.host.git.packs import Pack

_REF_MOST: Final = 4096  # bytes
_PACKED_MOST: Final = 16 << 20
_FOLDERS: Final = (
    "objects/pack", "objects/info", "refs/heads", "refs/tags", "refs/hive/proposals", "hive",
)  # fmt: skip
CONFIG: Final = b"""[core]
\trepositoryformatversion = 0
\tfilemode = true
\tbare = true
"""


def create_bare_repository(path: Path) -> Path:
    """An empty one; whatever was left of a try before is gone."""
    with suppress(FileNotFoundError):
        shutil.rmtree(path)
    make_folder(path)
    for each in _FOLDERS:
        at = path
        for part in each.split("/"):
            at = make_folder(at / part)
    put(path / "HEAD", b"ref: refs/heads/main\n", durable=False)
    put(path / "config", CONFIG, durable=False)
    return path


def write_loose_object(path: Path, kind: str, data: bytes) -> None:
    """An object of ours in a file of its own."""
    name = object_name(kind, data)
    raw = b"%s %d\0%s" % (kind.encode(), len(data), data)
    put(make_folder(path / "objects" / name[:2]) / name[2:], zlib.compress(raw))


def write_pack(place: Path, pack: bytes, table: bytes, *, durable: bool = True) -> str:
    """Put a pack and its table into `objects/pack`; its name there."""
    name = f"pack-{pack[-20:].hex()}"
    for suffix, data in ((".pack", pack), (".idx", table)):
        put((make_folder(place) / name).with_suffix(suffix), data, durable=durable)
    return name


def read_refs(path: Path) -> dict[str, str]:
    """All of them by their full names; what somebody packed counts where no file says otherwise."""
    found = dict(_packed_refs(path / "packed-refs"))
    for place, _, names in os.walk(path / "refs"):
        for name in names:
            if not name.endswith(".lock") and not name.startswith("."):
                file = Path(place) / name
                with suppress(OSError):
                    found[str(file.relative_to(path))] = _text(file, _REF_MOST).strip()
    return found


def _text(path: Path, most: int) -> str:
    """A plain file; nothing else is followed or waited for."""
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(handle, encoding="utf-8", errors="replace") as file:  # noqa: PTH123 - a descriptor
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode) or found.st_size > most:
            raise OSError(f"{path.name} is no file of refs")
        return file.read(most)


def _packed_refs(path: Path) -> Iterator[tuple[str, str]]:
    with suppress(OSError):
        for line in _text(path, _PACKED_MOST).splitlines():
            oid, _, name = line.partition(" ")
            if name and line[0] not in "#^":
                yield name, oid


def prune_proposals(path: Path, approvals: set[str], commits: set[str]) -> None:
    """Refs first, then what only they needed: a ref never leads nowhere."""
    notes = {each.stem: each for each in (path / "hive").glob("*.pack")}
    gone = notes.keys() - approvals
    brought = {each: note.read_text() for each, note in notes.items()}
    needed = _needed_packs(
        path, {brought[each] for each in notes.keys() & approvals}, brought, commits
    )
    _drop_refs(path, gone)
    for each in gone:
        if brought[each] and brought[each] not in needed:
            for suffix in (".idx", ".pack"):  # without its table a pack is nothing to git
                (path / "objects/pack" / f"{brought[each]}{suffix}").unlink(missing_ok=True)
        for suffix in ("json", "diff"):
            notes[each].with_suffix(f".{suffix}").unlink(missing_ok=True)
        notes[each].unlink()
    for archive in (path / "hive").glob("*.nar"):
        if archive.stem not in commits:
            archive.unlink()


def _needed_packs(
    path: Path, kept: set[str], brought: Mapping[str, str], commits: set[str]
) -> set[str]:
    """Names of packs: of what is kept, and one for each commit that is in none of those."""
    tables = sorted((path / "objects/pack").glob("*.idx"), key=lambda each: each.stat().st_size)
    packs = {each.stem: Pack(each) for each in tables}
    found = {name for name in packs if name in kept or name not in brought.values()}
    for commit in commits:
        name = bytes.fromhex(commit)
        holders = [each for each, pack in packs.items() if pack.place(name) is not None]
        if holders and found.isdisjoint(holders):
            found.add(holders[0])
    return found


def _drop_refs(path: Path, approvals: set[str]) -> None:
    found = read_refs(path)
    gone = {name: oid for name, oid in found.items() if name.rpartition("/")[2] in approvals}
    elsewhere = dict(_packed_refs(path / "packed-refs"))
    if gone.keys() & elsewhere.keys():
        lines = (f"{oid} {name}\n" for name, oid in elsewhere.items() if name not in gone)
        put(path / "packed-refs", "".join(lines).encode())
    for name, oid in gone.items():
        (path / name).unlink(missing_ok=True)
        if name.startswith("refs/tags/"):
            (path / "objects" / oid[:2] / oid[2:]).unlink(missing_ok=True)
