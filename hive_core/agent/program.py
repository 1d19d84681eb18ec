"""Run one program for a limited time, and kill it with all processes that it started.

The program gets its own session and a mark in its environment. When the program or its time ends,
its process group is killed, and so is every process with the mark outside of the group. A process
that drops the mark and starts its own session survives until the container ends.
"""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import IO, Final, NamedTuple

from hive_core.errors import InvalidArgument, NotFound

MARK: Final = "HIVE_GRANT"
_CHUNK: Final = 64 << 10
_ROUNDS: Final = 50
_STEP: Final = 0.05


class ProgramCall(NamedTuple):
    """A program to run.

    Its folder, its time limit, and the number of bytes of each output to keep.
    """

    words: Sequence[str]
    folder: Path
    grant: str
    seconds: float
    most: int


class ProgramEnd(NamedTuple):
    """`code`: the exit status as in a shell, None after a timeout. `cut`: there was more output."""

    code: int | None
    out: bytes
    err: bytes
    cut: bool


class CappedOutputs:
    """The outputs of a program, up to a number of bytes; the rest is read and dropped."""

    def __init__(self, sources: Sequence[IO[bytes] | None], most: int) -> None:
        self._most = most
        self._selector = selectors.DefaultSelector()
        self.data = [bytearray() for _ in sources]
        self.cut = False
        for source, buffer in zip(sources, self.data, strict=True):
            if source is not None:
                self._selector.register(source, selectors.EVENT_READ, buffer)

    def read(self, seconds: float) -> bool:
        """Read what comes within this time; False when nothing came."""
        if not self._selector.get_map():
            time.sleep(seconds)  # it closed its outputs and continues
            return False
        ready = self._selector.select(seconds)
        for key, _ in ready:
            data = os.read(key.fd, _CHUNK)
            if not data:
                self._selector.unregister(key.fileobj)
            room = self._most - len(key.data)
            key.data.extend(data[:room])
            self.cut |= len(data) > room
        return bool(ready)

    def close(self) -> None:
        self._selector.close()


def run(wanted: ProgramCall) -> ProgramEnd:
    """Run the program until it ends or times out.

    Its output is stored, so that a slow reader cannot delay its end.
    """
    try:
        process = subprocess.Popen(
            wanted.words, cwd=wanted.folder, env={**os.environ, MARK: wanted.grant},
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            start_new_session=True,
        )  # fmt: skip
    except FileNotFoundError:
        raise NotFound(f"no program {wanted.words[0]}") from None
    except OSError as error:
        raise InvalidArgument(f"cannot run {wanted.words[0]}: {error.strerror}") from None
    outputs = CappedOutputs((process.stdout, process.stderr), wanted.most)
    with process, closing(outputs):
        code = _watch(process, outputs, wanted)
        for _ in range(_ROUNDS):  # a surviving process may still print
            if not outputs.read(0):
                break
    out, err = map(bytes, outputs.data)
    return ProgramEnd(code if code is None or code >= 0 else 128 - code, out, err, outputs.cut)


def _watch(
    process: subprocess.Popen[bytes], outputs: CappedOutputs, wanted: ProgramCall
) -> int | None:
    ends = time.monotonic() + wanted.seconds
    try:
        while process.poll() is None and (left := ends - time.monotonic()) > 0:
            outputs.read(min(_STEP, left))
        return process.poll()
    finally:
        kill_group(process.pid, wanted.grant)


def kill_group(group: int, grant: str) -> None:
    """Kill the group, and all processes with the mark, until none is left."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)
    for _ in range(_ROUNDS):
        if not [1 for pid in _marked_processes(grant) if _kill_process(pid, grant)]:
            return
        time.sleep(0.01)


def _marked_processes(grant: str) -> Iterator[int]:
    for process in Path("/proc").iterdir():
        if (
            process.name.isdigit()
            and int(process.name) != os.getpid()
            and _has_mark(process, grant)
        ):
            yield int(process.name)


def _has_mark(place: Path, grant: str) -> bool:
    with suppress(OSError):
        return f"{MARK}={grant}".encode() in (place / "environ").read_bytes().split(b"\0")
    return False


def _kill_process(pid: int, grant: str) -> bool:
    """Kill by descriptor: the number may belong to another process by now."""
    with suppress(OSError):
        handle = os.pidfd_open(pid)
        try:
            if _has_mark(Path("/proc", str(pid)), grant):
                signal.pidfd_send_signal(handle, signal.SIGKILL)
                return True
        finally:
            os.close(handle)
    return False
