"""Earlier versions of edited files, so that an edit can be undone.

Each edit keeps what the file was before in the folder `.hive-undo` of the workspace: the newest
200 versions, 8 MiB of them, none larger than 1 MiB. An edit is undone only while the file is as
the edit left it, so that no other change is lost.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hive_core.agent import workspace
from hive_core.errors import Conflict, HiveError, LimitReached, NotFound

VERSIONS_MOST: Final = 200
BYTES_MOST: Final = 8 << 20
VERSION_MOST: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class FileVersion:
    """What a file was before an edit (None: absent), and the digest of what the edit made of it."""

    path: str
    before: bytes | None
    after: str
    is_kept: bool = True  # False: it was too large

    def as_record(self) -> bytes:
        head = {
            "path": self.path, "after": self.after, "existed": self.before is not None,
            "kept": self.is_kept,
        }  # fmt: skip
        return json.dumps(head).encode() + b"\n" + (self.before or b"")

    @classmethod
    def of_record(cls, data: bytes) -> FileVersion:
        head, _, content = data.partition(b"\n")
        fields = json.loads(head)
        before = content if fields["existed"] else None
        return cls(fields["path"], before, fields["after"], fields["kept"])


def write(root: Path, path: str, content: bytes) -> None:
    """Write a file of at most 50 KiB, and keep what it was."""
    if len(content) > workspace.MOST:
        raise LimitReached(
            f"cannot write {path}: {len(content)} bytes are more than {workspace.MOST}"
        )
    _keep(root, path, content)
    workspace.write(root, path, content)


def edit(root: Path, path: str, old: str, new: str) -> None:
    """Replace the only occurrence of the old text, and keep what the file was."""
    write(root, path, workspace.text_after_edit(root, path, old, new))


def undo(root: Path, path: str) -> str:
    """Undo the last edit of a file; a sentence that says what was done."""
    current = _content(root, path)
    for number, version in _versions(root, path):
        if version.before == current and version.is_kept:
            _drop(root, number)  # that edit was never made
            continue
        if _digest(current) != version.after:
            raise Conflict(f"cannot undo the last edit of {path}: the file has changed since")
        if not version.is_kept:
            raise LimitReached(
                f"cannot undo the last edit of {path}: the version before is larger than"
                f" {VERSION_MOST} bytes and was not kept"
            )
        _restore(root, version)
        _drop(root, number)
        return f"{path} is " + ("deleted" if version.before is None else "as before its last edit")
    raise NotFound(f"no edit of {path} to undo")


def _keep(root: Path, path: str, content: bytes) -> None:
    """Keep the version that the new content replaces."""
    try:
        version = FileVersion(path, _content(root, path), _digest(content))
    except LimitReached:
        version = FileVersion(path, b"", _digest(content), is_kept=False)
    numbers = [number for number, _ in _records(root)]
    workspace.replace(root, _place(max(numbers, default=0) + 1), version.as_record())
    _drop_oldest(root)


def _content(root: Path, path: str) -> bytes | None:
    """The content of the file, None when there is none."""
    try:
        return workspace.read_whole(root, path, VERSION_MOST)
    except NotFound:
        return None


def _restore(root: Path, version: FileVersion) -> None:
    if version.before is None:
        workspace.delete(root, version.path)
    else:
        workspace.replace(root, version.path, version.before)


def _versions(root: Path, path: str) -> Iterator[tuple[int, FileVersion]]:
    """The kept versions of a file, the newest first; damaged ones are passed over."""
    for number, _ in reversed(_records(root)):
        with suppress(HiveError, ValueError, KeyError):
            data = workspace.read_whole(root, _place(number), VERSION_MOST + (64 << 10))
            version = FileVersion.of_record(data)
            if version.path == path:
                yield number, version


def _records(root: Path) -> list[tuple[int, int]]:
    """Number and size of each record, the oldest first."""
    try:
        with workspace.open_folder(root, workspace.UNDO) as folder, os.scandir(folder) as rows:
            sizes = {int(row.name): row.stat().st_size for row in rows if row.name.isdecimal()}
    except (NotFound, FileNotFoundError):
        return []
    return sorted(sizes.items())


def _drop_oldest(root: Path) -> None:
    records = _records(root)
    total = sum(size for _, size in records)
    while len(records) > VERSIONS_MOST or total > BYTES_MOST:
        number, size = records.pop(0)
        total -= size
        _drop(root, number)


def _drop(root: Path, number: int) -> None:
    with suppress(NotFound):
        workspace.delete(root, _place(number))


def _place(number: int) -> str:
    return f"{workspace.UNDO}/{number:08d}"


def _digest(content: bytes | None) -> str:
    return "" if content is None else hashlib.sha256(content).hexdigest()
