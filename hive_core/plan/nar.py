"""Files as a Nix archive: the one format in which a configuration is hashed, stored and passed on.

https://nix.dev/manual/nix/2.26/protocols/nix-archive describes it. Our archives contain only plain
files in folders, and no empty folder except the top one, so each set of files has one archive.
Standard library only: jobs import this file.
"""

from __future__ import annotations

import struct
from base64 import b64encode
from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Final

Files = Mapping[str, tuple[bool, bytes]]

DEPTH_MAX: Final = 64  # folders in each other
_MAGIC: Final = b"nix-archive-1"
_WORD_MAX: Final = 255
_LENGTH: Final = struct.Struct("<Q")


class BadArchive(ValueError):
    """Not an archive, or not one that `pack` could have made."""


def pack(files: Files) -> bytes:
    """Archive files by path: whether each is executable, and its content."""
    return b"".join((_text(_MAGIC), *_folder(_nest(files))))


def digest(data: bytes) -> str:
    """The hash of an archive as Nix writes it: `sha256-...`."""
    return "sha256-" + b64encode(sha256(data).digest()).decode()


def unpack(data: bytes) -> dict[str, tuple[bool, bytes]]:
    """The files of an archive; BadArchive for whatever `pack` does not make."""
    reader = _Reader(data)
    reader.expect(_MAGIC)
    files: dict[str, tuple[bool, bytes]] = {}
    reader.expect(b"(", b"type", b"directory")
    _entries(reader, "", files)
    reader.end()
    return files


_Folder = dict[bytes, "_Folder | tuple[bool, bytes]"]


def _nest(files: Files) -> _Folder:
    top: _Folder = {}
    for path, file in files.items():
        *above, name = path.encode().split(b"/")
        if len(above) > DEPTH_MAX or any(map(_bad_name, (*above, name))):
            raise BadArchive(f"{path!r} is not a valid path")
        folder = top
        for part in above:
            below = folder.setdefault(part, {})
            if isinstance(below, tuple):
                raise BadArchive(f"{path!r} lies in a file")
            folder = below
        if name in folder:
            raise BadArchive(f"{path!r} is a folder too")
        folder[name] = file
    return top


def _bad_name(name: bytes) -> bool:
    return name in (b"", b".", b"..") or b"\0" in name or len(name) > _WORD_MAX


def _text(data: bytes) -> bytes:
    return _LENGTH.pack(len(data)) + data + bytes(-len(data) % 8)


def _texts(*words: bytes) -> bytes:
    return b"".join(map(_text, words))


_OPEN_ENTRY: Final = _texts(b"entry", b"(", b"name")
_NODE: Final = _texts(b"node")
_CLOSE: Final = _texts(b")")
_PLAIN: Final = _texts(b"(", b"type", b"regular", b"contents")
_PROGRAM: Final = _texts(b"(", b"type", b"regular", b"executable", b"", b"contents")
_DIRECTORY: Final = _texts(b"(", b"type", b"directory")


def _folder(folder: _Folder) -> Iterator[bytes]:
    yield _DIRECTORY
    for name, below in sorted(folder.items()):
        yield _OPEN_ENTRY + _text(name) + _NODE
        if isinstance(below, tuple):
            executable, content = below
            yield (_PROGRAM if executable else _PLAIN) + _text(content) + _CLOSE
        else:
            yield from _folder(below)
        yield _CLOSE
    yield _CLOSE


def _entries(reader: _Reader, above: str, files: dict[str, tuple[bool, bytes]]) -> None:
    """Read the entries of a folder, up to the word that closes it."""
    before = b""
    while (word := reader.word()) == b"entry":
        reader.expect(b"(", b"name")
        name = reader.word()
        if _bad_name(name) or b"/" in name or name <= before:
            raise BadArchive(f"{name!r} is not a valid name, or is out of order")
        before = name
        reader.expect(b"node")
        _node(reader, above + _decode(name), files)
        reader.expect(b")")
    if word != b")":
        raise BadArchive(f"{word!r} in a folder")
    if above and not before:
        raise BadArchive(f"{above!r} is an empty folder")


def _node(reader: _Reader, path: str, files: dict[str, tuple[bool, bytes]]) -> None:
    reader.expect(b"(", b"type")
    match reader.word():
        case b"directory":
            if path.count("/") >= DEPTH_MAX:
                raise BadArchive(f"{path!r} lies too deep")
            _entries(reader, path + "/", files)
        case b"regular":
            files[path] = _file(reader)
        case other:
            raise BadArchive(f"{path!r} is of type {other!r}")


def _file(reader: _Reader) -> tuple[bool, bytes]:
    word = reader.word()
    executable = word == b"executable"
    if executable:
        reader.expect(b"", b"contents")
    elif word != b"contents":
        raise BadArchive(f"{word!r} in a file")
    content = reader.text()
    reader.expect(b")")
    return executable, content


def _decode(name: bytes) -> str:
    try:
        return name.decode()
    except UnicodeDecodeError as error:
        raise BadArchive(f"{name!r} is not UTF-8") from error


class _Reader:
    """Texts one after another: a length, the bytes, zeros up to a multiple of eight."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def text(self, most: int | None = None) -> bytes:
        start = self._at + _LENGTH.size
        if start > len(self._data):
            raise BadArchive("cut short")
        (length,) = _LENGTH.unpack_from(self._data, self._at)
        end = start + length
        after = end + -length % 8
        if after > len(self._data) or (most is not None and length > most):
            raise BadArchive("a text is too long")
        if any(self._data[end:after]):
            raise BadArchive("something between two texts")
        self._at = after
        return self._data[start:end]

    def word(self) -> bytes:
        return self.text(_WORD_MAX)

    def expect(self, *words: bytes) -> None:
        for word in words:
            if (actual := self.word()) != word:
                raise BadArchive(f"{actual!r} instead of {word!r}")

    def end(self) -> None:
        if self._at != len(self._data):
            raise BadArchive("something after the end")
