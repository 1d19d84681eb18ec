"""Row R8: one piece of damage to a meta repo, chosen by a seed, and a repo to do it to.

Where the suite runs as root it gives up what root may do to any file, for as long as this takes:
root would read what nobody may read.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random

from host.meta import TRAILERS, family, git, spec

from hive_core.host.git import MetaRepo
from hive_core.host.git.branch import BRANCH
from hive_core.host.storage.stores import Stores
from hive_core.model.agents.hive import Hive
from hive_core.model.config.settings import Paths, Settings

STRANGER = 65533
PRIVILEGED = os.geteuid() == 0
# capabilities(7): chown, dac_override, dac_read_search, fowner
ANY_FILE = 0b1111
LONG_AGO = 90.0

# What is broken, by its place in the git directory.
PLACES = {
    "object": ("objects/[0-9a-f][0-9a-f]/*",) * 5,  # most of what is there
    "pack": ("objects/pack/*.pack", "objects/pack/*.idx", "objects/pack/*"),
    "ref": (BRANCH,) * 2 + ("refs/hive/refused/*", "packed-refs", "HEAD"),
    "settings": ("config", "index", "hive-shown", "hive-settled", "hive-lock", "objects/info/*"),
    "folder": ("objects", "objects/pack", "objects/[0-9a-f][0-9a-f]", "refs", "refs/heads", ".",
               "hive-refused", "refs/hive/refused"),
}  # fmt: skip
LOCKS = (f"{BRANCH}.lock", "index.lock", "hive-index.lock", "packed-refs.lock", "HEAD.lock")
OWNERS = ("", f"{STRANGER} 1 gone\n", "0" * 40 + "\n", "hived 4194304 1 no-such-boot\n")


class Capabilities(ctypes.Structure):
    """Those of this thread, the first 32 of them: capset(2)."""

    _fields_ = [(name, ctypes.c_uint32) for name in ("effective", "permitted", "inheritable")]


@contextmanager
def _effective(change: Callable[[int], int]) -> Iterator[None]:
    """Other capabilities in effect; what is permitted stays, so that they come back."""
    libc = ctypes.CDLL(None, use_errno=True)
    head, effective = (ctypes.c_uint32 * 2)(0x20080522, 0), (Capabilities * 2)()

    def call(function: Callable[..., int]) -> None:
        if function(head, effective):
            raise OSError(ctypes.get_errno(), "capabilities")

    call(libc.capget)
    before = effective[0].effective
    effective[0].effective = change(before)
    call(libc.capset)
    try:
        yield
    finally:
        effective[0].effective = before
        call(libc.capset)


def without_privileges() -> AbstractContextManager[None]:
    """As somebody who reads only what modes let its owner read."""
    return _effective(lambda before: before & ~ANY_FILE)


def open_stores(state: Path) -> Stores:
    """What hived does first."""
    return Stores.open(Settings(paths=Paths(state=state)))


def change(stores: Stores, hive: Hive, before: Hive) -> Hive:
    """The five steps, as the broker goes through them."""
    oid = stores.repo.write(hive, before, "change", TRAILERS)
    with stores.repo.hold(before.commit) as move:
        with stores.ledger.transaction():
            stores.ledger.head = oid
        move(oid)
    return hive.at_commit(oid)


def some_changes(stores: Stores, hive: Hive, first: int, count: int) -> Hive:
    for number in range(first, first + count):
        changed = hive.with_agent(f"agent-{number}", "root", spec(number))
        hive = change(stores, changed.with_spec("root", spec(1, title=f"{number}")), hive)
    return hive


def create_history(state: Path, shape: str) -> None:
    """Some history, one refused commit; `shape` says what is packed. Its bytes are always same."""
    state.mkdir()
    repo = MetaRepo.open(state / "meta", clock=lambda: 1.7e9)
    stores = open_stores(state)
    stores.repo = repo
    hive = some_changes(stores, change(stores, family("anna", "bob"), Hive()), 10, 4)
    forged = Hive(hive.commit, hive.topology, {**hive.specs, "bob": spec(77)})
    (repo.folder / BRANCH).write_text(f"{repo.write(forged, hive, 'forged', TRAILERS)}\n")
    repo.recover(hive.commit)
    if shape in ("packed", "both"):
        repo.pack(0)
    if shape == "both":
        some_changes(stores, hive, 20, 3)
    stores.ledger.close()
    if shape == "git's":
        git(state / "meta", "pack-refs", "--all")
        git(state / "meta", "-c", "pack.threads=1", "repack", "-adfq", "--write-midx")
        git(state / "meta", "commit-graph", "write", "--reachable", "--no-progress")
        git(state / "meta", "prune-packed")


SHAPES = ("loose", "packed", "both", "git's")


@dataclass
class Damaged:
    """What was done, and how the modes come back, so that the copy can be removed."""

    text: str
    path: Path
    undo: Callable[[], object] = lambda: None


def damage(chance: Random, folder: Path) -> Damaged:
    """Break one thing in a git directory."""
    kind = chance.choice(
        ("object",) * 4 + ("pack",) * 4 + ("ref",) * 4 + ("settings", "folder", "lock")
    )
    if kind == "lock":
        return _lock(chance, folder)
    paths = sorted(
        file
        for pattern in [chance.choice(PLACES[kind])]
        for file in ([folder] if pattern == "." else folder.glob(pattern))
        if file.is_dir() == (kind == "folder")
    )
    if not paths:
        return damage(chance, folder)
    file = chance.choice(paths)
    return _folder(chance, file) if kind == "folder" else _file(chance, file)


def _lock(chance: Random, folder: Path) -> Damaged:
    path, owner = folder / chance.choice(LOCKS), chance.choice(OWNERS)
    old = chance.random() < 0.5
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(owner)
    if old:
        then = time.time() - LONG_AGO
        os.utime(path, (then, then))
    return Damaged(f"{path.name} of {owner!r} was left{' long ago' * old}", path)


def _file(chance: Random, path: Path) -> Damaged:
    path.chmod(0o644)
    data = path.read_bytes()
    at = chance.randrange(max(1, len(data)))
    bit = 1 << chance.randrange(8)
    ways: dict[str, Callable[[], object]] = {
        "emptied": lambda: rewrite(path, b""),
        f"cut to {at} bytes": lambda: rewrite(path, data[:at]),
        f"zeros from byte {at}": lambda: rewrite(path, data[:at] + b"\0" * (len(data) - at)),
        f"bit {bit} of byte {at} flipped": lambda: rewrite(path, flip_bit(data, at, bit)),
        "one more byte": lambda: rewrite(path, data + b"x"),
        "deleted": path.unlink,
        "a folder in its place": lambda: replace_by_folder(path),
        "unreadable": lambda: path.chmod(0),
        "of another owner": lambda: give_away(path),
    }
    # The flipped bit is what no length and no mode gives away.
    how = chance.choice([*ways, *[way for way in ways if "flipped" in way] * 4])
    ways[how]()
    return Damaged(f"{path}: {how}", path)


def _folder(chance: Random, path: Path) -> Damaged:
    mode = path.stat().st_mode
    ways: dict[str, Callable[[], object]] = {
        "deleted": lambda: shutil.rmtree(path),
        "unreadable": lambda: path.chmod(0),
        "not to be written": lambda: path.chmod(0o555),
        "of another owner": lambda: give_away(path),
    }
    # hived's notes are no part of git: an operator may throw them away.
    how = chance.choice([way for way in ways if (way, path.name) != ("deleted", "hive-refused")])
    ways[how]()
    return Damaged(f"{path}: {how}", path, lambda: _take_back(path, mode))


def rewrite(path: Path, data: bytes) -> None:
    """A file of its own: libgit2 does not survive that an index changes that it has mapped."""
    path.unlink()
    path.write_bytes(data)


def replace_by_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def flip_bit(data: bytes, at: int, bit: int) -> bytes:
    return data[:at] + bytes(byte ^ bit for byte in data[at : at + 1]) + data[at + 1 :]


def give_away(path: Path) -> None:
    """To somebody else, who lets nobody read or write it."""
    path.chmod(0o700 if PRIVILEGED else 0)
    _own(path, STRANGER)


def _take_back(path: Path, mode: int) -> None:
    if path.exists():
        _own(path, 0)
        path.chmod(mode)


def _own(path: Path, owner: int) -> None:
    if PRIVILEGED:
        with _effective(lambda before: before | ANY_FILE):
            os.chown(path, owner, owner)
