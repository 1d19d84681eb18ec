"""Reads the files of a commit by walking its trees; git attributes have no effect."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hive_core.jobs import objects
from hive_core.jobs.git import Git
from hive_core.jobs.outcome import JobRefused
from hive_core.plan.intake_limits import IntakeLimits
from hive_core.plan.paths import Names

Files = dict[str, tuple[bool, bytes]]
_TREE_MOST: Final = 4 << 20  # bytes of one tree object


def files(git: Git, tree: str, caps: IntakeLimits) -> Files:
    """Every file, and whether it is executable; refuses what no configuration may contain.

    A few objects can represent an unlimited number of files (https://kate.io/blog/git-bomb/), so
    entries are counted before their contents are read.
    """
    listed = dict(_list_files(git, tree, caps))
    contents: Files = {}
    total = 0
    oids = (oid for _, oid in listed.values())
    for (path, (executable, _)), (oid, kind, data) in zip(
        listed.items(), _read(git, oids, caps.blob, listed), strict=True
    ):
        total += len(data)
        if kind != "blob":
            raise JobRefused("tree", f"is listed as a file, but {oid} is a {kind}", path)
        if total > caps.tree:
            raise JobRefused("tree", f"all files together are larger than {caps.tree} bytes", path)
        contents[path] = executable, data
    return contents


def _list_files(git: Git, tree: str, caps: IntakeLimits) -> Iterator[tuple[str, tuple[bool, str]]]:
    """The paths with modes and object names, level by level."""
    names, count, level = Names(), 0, {"": tree}
    for depth in range(caps.depth + 2):
        if not level:
            return
        if depth > caps.depth:
            raise JobRefused("depth", f"lies deeper than {caps.depth} folders", min(level))
        below: dict[str, str] = {}
        for where, entry in _entries(git, level):
            count += 1
            path = where + entry.name
            if fault := names.fault(path):
                raise JobRefused("path", fault, path)
            if count > caps.files:
                raise JobRefused("files", f"more than {caps.files} files and folders", path)
            if entry.mode == objects.FOLDER:
                below[path + "/"] = entry.oid
            else:
                yield path, (objects.FILES[entry.mode], entry.oid)
        level = below


def _entries(git: Git, level: dict[str, str]) -> Iterator[tuple[str, objects.ParsedEntry]]:
    read = git.contents(level.values(), _TREE_MOST)
    for where, (oid, kind, data) in zip(level, read, strict=True):
        if kind != "tree":
            raise JobRefused("tree", f"is listed as a folder, but {oid} is a {kind}", where)
        if not data and where:
            raise JobRefused("tree", "is an empty folder", where)
        for entry in objects.entries(data, where):
            yield where, entry


def _read(
    git: Git, oids: Iterator[str], most: int, listed: dict[str, tuple[bool, str]]
) -> Iterator[tuple[str, str, bytes]]:
    """Read the contents; an error names the file."""
    paths = iter(listed)
    read = git.contents(oids, most)
    while True:
        path = next(paths, "")
        try:
            yield next(read)
        except StopIteration:
            return
        except JobRefused as error:
            raise JobRefused(error.rule, error.text, path) from error
