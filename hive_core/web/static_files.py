"""Stylesheet, scripts and icon: read once, compressed once, at addresses that hold their hash."""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final, Self

FOLDER: Final = Path(__file__).parent / "static"
_TYPES: Final = {
    ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}  # fmt: skip
_DIGITS: Final = 16


@dataclass(frozen=True, slots=True)
class StaticFile:
    kind: str
    plain: bytes
    packed: bytes


@dataclass(frozen=True, slots=True)
class StaticFiles:
    """All files have one hash in their addresses, so that modules find each other beside them."""

    digest: str
    files: Mapping[str, StaticFile]

    @classmethod
    def load(cls, folder: Path = FOLDER) -> Self:
        paths = sorted(path for path in folder.iterdir() if path.suffix in _TYPES)
        data = {path.name: path.read_bytes() for path in paths}
        digest = sha256(b"".join(name.encode() + text for name, text in data.items())).hexdigest()
        files = {
            name: StaticFile(_TYPES[Path(name).suffix], text, gzip.compress(text, mtime=0))
            for name, text in data.items()
        }
        return cls(digest[:_DIGITS], files)

    def address(self, name: str) -> str:
        if name not in self.files:
            raise KeyError(name)
        return f"/static/{self.digest}/{name}"

    def find(self, path: str) -> StaticFile | None:
        prefix = f"/static/{self.digest}/"
        return self.files.get(path.removeprefix(prefix)) if path.startswith(prefix) else None
