"""/etc/hive/images: paths of prepared trees; the root helper trusts only this file.

The file has lines of `NAME PATH`. `hive setup` copies the names of hive.toml; `hive agent create
--image PATH` adds the path under a name made from it.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from hive_core.errors import InvalidArgument, NotAllowed

FILE: Final = Path("/etc/hive/images")
_PREFIX: Final = "tree-"
_DIGITS: Final = 16


def label(path: str) -> str:
    """The name of a path in the file."""
    return _PREFIX + hashlib.sha256(path.encode()).hexdigest()[:_DIGITS]


def text(paths: Mapping[str, str], old_lines: Iterable[str]) -> str:
    """The text of the file: the images of hive.toml, and the existing entries for single paths."""
    lines = [f"{name} {path}" for name, path in sorted(paths.items()) if path]
    lines += [line for line in old_lines if line.startswith(_PREFIX)]
    return "".join(f"{line}\n" for line in lines)


def image_paths(settings: Mapping[str, object]) -> dict[str, str]:
    """The prepared trees of hive.toml, without the machine's own /usr, which has no path."""
    table = settings.get("images")
    images = table if isinstance(table, dict) else {}
    return {str(name): str(path) for name, path in images.items() if path}


def lines(file: Path = FILE) -> list[str]:
    return file.read_text().splitlines() if file.exists() else []


def enter(path: str, file: Path = FILE) -> None:
    """Add a directory as an image; only root may, and hived never does."""
    if os.geteuid() != 0:
        raise NotAllowed(f"cannot use {path} as an image: only root may use a path; name an image")
    if not path.startswith("/") or not path.isprintable() or not Path(path).is_dir():
        raise InvalidArgument(f"{path!r} is not the absolute path of a directory", field="image")
    line = f"{label(path)} {path}"
    known = lines(file)
    if line not in known:
        new = file.with_name(f".{file.name}.new")
        new.write_text("".join(f"{entry}\n" for entry in [*known, line]))
        new.replace(file)
