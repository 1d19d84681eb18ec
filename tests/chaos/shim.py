"""The other end of faults/shim.c: which call of a program shall go wrong, and how."""

from __future__ import annotations

import mmap
import os
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum, IntFlag
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

_HEAD = struct.Struct("=QQIIIIq256s256s")
_NAMED, _LENGTH = 4096, 224
_COUNT, _ARMED, _ACT, _SHIFT = 0, 16, 20, 32


class Act(IntEnum):
    """What happens at the chosen call."""

    NOTHING = 0
    KILL_BEFORE = 1
    KILL_AFTER = 2
    FAIL_ONCE = 3
    FAIL_FROM = 4  # and all that follow


class Kind(IntFlag):
    """Which calls are numbered."""

    WRITE = 1
    SYNC = 2
    NAME = 4  # rename, link, mkdir, a new file
    MOUNT = 8
    UNIT = 16  # programs that are run
    MODE = 32  # owners and modes
    GONE = 64  # unlink, rmdir
    DISK = WRITE | SYNC | NAME | GONE
    ROOM = WRITE | NAME  # what a full disk refuses
    ALL = 127


def build(folder: Path) -> Path:
    """Put the shim there; it is compiled once."""
    result = folder / "shim.so"
    result.write_bytes(_compile())
    return result


@cache
def _compile() -> bytes:
    source = Path(__file__).with_name("shim.c")
    with TemporaryDirectory() as folder:
        result = Path(folder, "shim.so")
        subprocess.run(
            ["cc", "-O1", "-Wall", "-Werror", "-shared", "-fPIC", "-o", result, source, "-ldl"],
            check=True,
        )
        return result.read_bytes()


class Faults:
    """A file that the program has mapped; the test maps it too and writes its orders into it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        if not path.exists():
            path.write_bytes(bytes(_HEAD.size + _NAMED * _LENGTH))
            path.chmod(0o666)
        with path.open("r+b") as file:
            self._room = mmap.mmap(file.fileno(), 0)

    def close(self) -> None:
        self._room.close()

    def environment(self, shim: Path) -> dict[str, str]:
        """The environment variables that the program needs."""
        return {**os.environ, "LD_PRELOAD": str(shim), "HIVE_FAULTS": str(self.path)}

    def arm(
        self, root: Path | str, kinds: Kind, act: Act = Act.NOTHING, at: int = 0, number: int = 0
    ) -> None:
        """From now on calls of these kinds below `root` are numbered, from 1."""
        self._write(root, kinds, (act, at, number), b"")

    def record(self, root: Path, into: Path) -> None:
        """From now on every change below `root` is written down."""
        self._write(root, Kind.DISK, (Act.NOTHING, 0, 0), os.fsencode(into))

    def _write(
        self, root: Path | str, kinds: Kind, order: tuple[Act, int, int], into: bytes
    ) -> None:
        self.disarm()
        act, at, number = order
        (shift,) = struct.unpack_from("=q", self._room, _SHIFT)
        _HEAD.pack_into(self._room, 0, 0, at, 0, act, kinds, number, shift, os.fsencode(root), into)
        struct.pack_into("=I", self._room, _ARMED, 1)

    def disarm(self) -> None:
        struct.pack_into("=I", self._room, _ARMED, 0)

    @contextmanager
    def shift_clock(self, seconds: float) -> Iterator[None]:
        """The wall clock of the program is wrong by so much meanwhile."""
        struct.pack_into("=q", self._room, _SHIFT, int(seconds * 1e9))
        try:
            yield
        finally:
            struct.pack_into("=q", self._room, _SHIFT, 0)

    @property
    def fails(self) -> bool:
        """Whether calls fail instead of killing the program."""
        (act,) = struct.unpack_from("=I", self._room, _ACT)
        return Act(act) in (Act.FAIL_ONCE, Act.FAIL_FROM)

    @property
    def count(self) -> int:
        """How many calls were numbered since it was armed."""
        result: int = struct.unpack_from("=Q", self._room, _COUNT)[0]
        return result

    def names(self) -> list[str]:
        """The recorded calls, such as "fsync PATH", in order."""
        result = []
        for number in range(min(self.count, _NAMED)):
            start = _HEAD.size + number * _LENGTH
            result.append(self._room[start : start + _LENGTH].split(b"\0", 1)[0].decode())
        return result
