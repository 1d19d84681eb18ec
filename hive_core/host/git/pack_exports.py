"""Packs and diffs for operators' clones, made by a child process (`git/pack_exporter.py`).

A pack is sent in parts. It is deleted after its last part, or when newer packs need the space.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from uuid import uuid4

from hive_core.errors import Expired, Internal, InvalidArgument, TimedOut

PIECE: Final = 512 * 1024  # bytes of a pack in one answer
PART: Final = 1 << 20  # bytes of lines in one answer
AT_ONCE: Final = 2  # processes
LENT_MOST: Final = 8  # packs that clients are fetching
IDLE: Final = 600.0
DEADLINE: Final = 300.0
SOON: Final = 10.0  # Seconds after which a call is answered, with an empty part if necessary
_SAID: Final = 500
_GONE: Final = "this pack was deleted: fetch again"
_OFFSET_MOST: Final = 12  # digits
_PROGRAM: Final = Path(__file__).with_name("pack_exporter.py")


@dataclass
class PackExport:
    """A pack that a client is fetching."""

    path: Path
    at: float
    making: asyncio.Task[None]


@dataclass
class PackExports:
    """Packs that clients are fetching. `work` is the daemon's folder for them.

    There are at most `most` packs, sent in parts of `piece` bytes.
    """

    work: Path
    clock: Callable[[], float] = time.monotonic
    piece: int = PIECE
    most: int = LENT_MOST
    _lent: dict[str, PackExport] = field(default_factory=dict)
    _turns: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(AT_ONCE))

    async def pack(
        self, folder: Path, wants: Sequence[str], haves: Sequence[str], after: str | None
    ) -> tuple[bytes, str | None]:
        """The part after `after`, or the first part of a new pack.

        A part is empty when the pack is not ready in time, so that the call is answered early.
        """
        if after is None:
            id_, offset = self._begin(folder, wants, haves), 0
        else:
            id_, offset = _parse_position(after)
        lent = self._lent.get(id_)
        if lent is None:
            raise Expired(_GONE)
        lent.at = self.clock()
        done, _ = await asyncio.wait([lent.making], timeout=SOON)
        if not done:
            return b"", f"{id_}.0"
        if lent.making.cancelled():  # another pack needed the space
            raise Expired(_GONE)
        if lent.making.exception() is not None:
            self._drop(id_)
        lent.making.result()
        try:
            data, more = await asyncio.to_thread(_piece, lent.path, offset, self.piece)
        except FileNotFoundError:
            raise Expired(_GONE) from None
        if not more:
            self._drop(id_)
        return data, f"{id_}.{offset + len(data)}" if more else None

    async def changes(self, folder: Path, old: str, new: str, at: int) -> tuple[bytes, bool]:
        """Lines of the diff, starting at byte `at`. The diff is computed again for each part."""
        out = self._path(uuid4().hex)
        try:
            await self._run("diff", folder, out, {"old": old, "new": new})
            return await asyncio.to_thread(_lines, out, at)
        finally:
            out.unlink(missing_ok=True)

    async def packs_in_use(
        self, folder: Path, wants: Sequence[str], packs: Sequence[str]
    ) -> frozenset[str]:
        """The packs among `packs` that hold an object reachable from `wants`."""
        out = self._path(uuid4().hex)
        try:
            await self._run("packs", folder, out, {"wants": [*wants], "packs": [*packs]})
            return frozenset((await asyncio.to_thread(out.read_text)).split())
        finally:
            out.unlink(missing_ok=True)

    def _begin(self, folder: Path, wants: Sequence[str], haves: Sequence[str]) -> str:
        self._make_room()
        id_ = uuid4().hex
        out, asked = self._path(id_), {"wants": [*wants], "haves": [*haves]}
        making = asyncio.create_task(self._run("pack", folder, out, asked))
        self._lent[id_] = PackExport(out, self.clock(), making)
        making.add_done_callback(lambda done: self._consume_result(id_, out, done))
        return id_

    def _consume_result(self, id_: str, out: Path, task: asyncio.Task[None]) -> None:
        """Read the error so that asyncio does not log it. The client gets it with its next call."""
        if not task.cancelled():
            task.exception()
        if id_ not in self._lent:
            out.unlink(missing_ok=True)

    def _path(self, id_: str) -> Path:
        self.work.mkdir(mode=0o700, parents=True, exist_ok=True)
        return self.work / f"lent-{id_}"

    def _make_room(self) -> None:
        now = self.clock()
        for id_, export in list(self._lent.items()):
            if export.at < now - IDLE:
                self._drop(id_)
        while len(self._lent) >= self.most:
            self._drop(min(self._lent, key=lambda id_: self._lent[id_].at))

    def _drop(self, id_: str) -> None:
        lent = self._lent.pop(id_, None)
        if lent is None:
            return
        lent.making.cancel()
        lent.path.unlink(missing_ok=True)

    async def _run(self, kind: str, folder: Path, out: Path, asked: object) -> None:
        async with self._turns:
            try:
                async with asyncio.timeout(DEADLINE):
                    status, said = await _child(kind, folder, out, json.dumps(asked).encode())
            except TimeoutError as error:
                raise TimedOut(
                    f"cannot read {folder.name}: it took more than {DEADLINE:.0f} s"
                ) from error
            finally:
                shutil.rmtree(out.with_name(f"{out.name}.d"), ignore_errors=True)
        if status:
            raise Internal(f"cannot read {folder.name}: {said or f'ended with {status}'}")


async def _child(kind: str, folder: Path, out: Path, asked: bytes) -> tuple[int, str]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-I", str(_PROGRAM), kind, str(folder), str(out),
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE, cwd="/",
        env={"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C.UTF-8"},
    )  # fmt: skip
    try:
        _, said = await process.communicate(asked)
    except BaseException:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()  # else it could write into files that are removed next
        raise
    lines = said.decode("utf-8", "replace").strip().splitlines()
    return process.returncode or 0, lines[-1][:_SAID] if lines else ""


def _parse_position(after: str) -> tuple[str, int]:
    id_, _, offset = after.partition(".")
    if not (offset.isdecimal() and len(offset) <= _OFFSET_MOST):
        raise InvalidArgument("is not a `next` of an earlier part", field="after")
    return id_, int(offset)


def _piece(path: Path, offset: int, most: int) -> tuple[bytes, bool]:
    with path.open("rb") as file:
        file.seek(offset)
        data = file.read(most)
        return data, offset + len(data) < os.fstat(file.fileno()).st_size


def _lines(path: Path, at: int) -> tuple[bytes, bool]:
    with path.open("rb") as file:
        file.seek(at)
        data = file.read(PART)
        if len(data) == PART:
            data += file.readline()
        return data, at + len(data) < os.fstat(file.fileno()).st_size
