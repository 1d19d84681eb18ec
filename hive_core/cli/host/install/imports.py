"""/etc/hive/imports: folders of the host that a job may copy from, as lines of `NAME PATH`.

As with the table of images, the root helper trusts the file, and only root writes it. An entry
exists only while it is used.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from hive_core.errors import InvalidArgument

FILE: Final = Path("/etc/hive/imports")
_DIGITS: Final = 16


def label(path: Path) -> str:
    """The name of a folder in the file."""
    return "import-" + hashlib.sha256(bytes(path)).hexdigest()[:_DIGITS]


@contextmanager
def import_entry(path: Path, file: Path = FILE) -> Iterator[str]:
    """Add a folder while the body runs, and yield its name."""
    if not str(path).isprintable():
        raise InvalidArgument(f"{str(path)!r} cannot be entered in {file}", field="from")
    name = label(path)
    others = [line for line in _lines(file) if line.split(maxsplit=1)[:1] != [name]]
    _write(file, [*others, f"{name} {path}"])
    try:
        yield name
    finally:
        _write(file, others)


def _lines(file: Path) -> list[str]:
    return file.read_text(encoding="utf-8").splitlines() if file.exists() else []


def _write(file: Path, lines: list[str]) -> None:
    new = file.with_name(f".{file.name}.new")
    new.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    new.replace(file)
