"""What the work tree may hold after a power cut, of what nobody but us and git wrote.

Its files are not made durable one by one, because that would cost more than all the rest of a
change. Now and then all of them are, and the commit that they show then is written down
(`WorkTree.settle`). After a crash every version of a file since then may be what the disk has, or
nothing, or the beginning of one of them. What is none of that is somebody's work, and stays.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Final

from hive_core.errors import HiveError
from hive_core.host.git.store import Entry, Store

_MOST: Final = 500  # commits; what is older has long been written back by the kernel


def versions(
    store: Store, head: str, settled: str, others: Iterable[str] = ()
) -> Mapping[str, set[str]]:
    """Names of contents by path, "" for no file: of the commits since `settled`, and `others`."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    at, top = head, store.commit(head).tree
    for _ in range(_MOST):
        if at in ("", settled):
            break
        commit = store.commit(at)
        at = commit.parents[0] if commit.parents else ""
        _note(found, store, store.commit(at).tree if at else "", commit.tree)
    for each in others:
        with suppress(HiveError):  # the cut took it, or it is beyond all bounds
            for path, entry, _ in store.differences(store.commit(each).tree, top):
                found[path].add(store.sure(_name(entry), path) if entry else "")
    return found


def torn(store: Store, data: bytes, names: Iterable[str]) -> bool:
    """Whether it is what a crash leaves of one of these: its beginning, or nothing but zeros."""
    begun = data.rstrip(b"\0")
    return any(_content(store, name).startswith(begun) for name in names if name)


def _content(store: Store, name: str) -> bytes:
    with suppress(HiveError):  # one that was damaged since
        return store.blob(name, "a version")
    return b""


def _note(found: defaultdict[str, set[str]], store: Store, old: str, new: str) -> None:
    for path, before, after in store.differences(old, new):
        found[path] |= {_name(before), _name(after)}


def _name(entry: Entry | None) -> str:
    return entry.oid if entry else ""
