"""Copying between this process's descriptors and the pipes, or the terminal, of another process."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import termios
import time
import tty
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Final

_CHUNK: Final = 1 << 16
# Seconds after the end for background processes that still have the terminal open.
_QUIET, _LONGEST = 0.2, 1.0


def _read(source: int) -> bytes:
    """Read bytes, or b"" at the end; a terminal that no process has open answers with EIO."""
    with suppress(OSError):
        return os.read(source, _CHUNK)
    return b""


def _write(target: int, data: bytes) -> bool:
    """Write all bytes; return whether the other side is still open."""
    try:
        while data:
            data = data[os.write(target, data) :]
    except OSError:
        return False
    return True


def copy(routes: Mapping[int, int], until: set[int], finished: set[int]) -> None:
    """Copy along `routes` until each source in `until` has ended.

    A target in `finished` is closed when its source ends, so that the reader sees the end too.
    """
    open_routes, waiting = dict(routes), set(until)
    while waiting:
        for source in select.select(list(open_routes), [], [])[0]:
            data = _read(source)
            if data and _write(open_routes[source], data):
                continue
            target = open_routes.pop(source)
            waiting.discard(source)
            if target in finished:
                os.close(target)


def in_pipes(argv: Sequence[str], source: int = 0, target: int = 1, errors: int = 2) -> int:
    """Run a program on new pipes, so that it never has the descriptors of this process."""
    (theirs_in, ours_in), (ours_out, theirs_out), (ours_err, theirs_err) = (
        os.pipe() for _ in range(3)
    )
    process = subprocess.Popen(
        list(argv),
        stdin=theirs_in,
        stdout=theirs_out,
        stderr=theirs_err,
        start_new_session=True,
    )
    for handle in (theirs_in, theirs_out, theirs_err):
        os.close(handle)
    routes = {source: ours_in, ours_out: target, ours_err: errors}
    copy(routes, until={ours_out, ours_err}, finished={ours_in})
    for handle in (ours_out, ours_err):
        os.close(handle)
    return _status(process.wait())


def on_terminal(argv: Callable[[str], Sequence[str]], ours: int = 0, shown: int = 1) -> int:
    """Run a program on a new terminal, whose path is the argument of `argv`.

    systemd-run can make a terminal too, but stops reading when its unit has ended, and loses output
    that the kernel has not delivered by then. This function reads until no process has the other
    end open.
    """
    master, slave = os.openpty()
    termios.tcsetwinsize(slave, termios.tcgetwinsize(ours))
    words = list(argv(os.ttyname(slave)))
    process = subprocess.Popen(
        words, stdin=slave, stdout=slave, stderr=slave, start_new_session=True
    )
    os.close(slave)
    ended = os.pidfd_open(process.pid)
    with _raw(ours), _follow_size(ours, master):
        _talk({ours: master, master: shown}, master, ended)
    os.close(ended)
    os.close(master)
    return _status(process.wait())


def _talk(routes: Mapping[int, int], master: int, ended: int) -> None:
    """Copy until no process has the terminal open; stop a while after the program has ended."""
    sources, ends = {*routes, ended}, float("inf")
    while master in sources and time.monotonic() < ends:
        over = ended not in sources
        ready = select.select(list(sources), [], [], _QUIET if over else None)[0]
        if not ready:
            return
        for source in ready:
            if source == ended:
                sources, ends = {master} & sources, time.monotonic() + _LONGEST
            elif not (data := _read(source)) or not _write(routes[source], data):
                sources.discard(source)


@contextmanager
def _raw(ours: int) -> Iterator[None]:
    """Send each key to the program, also keys that would end this process."""
    settings = termios.tcgetattr(ours)
    tty.setraw(ours, termios.TCSADRAIN)  # keeps what was typed ahead
    try:
        yield
    finally:
        termios.tcsetattr(ours, termios.TCSADRAIN, settings)


@contextmanager
def _follow_size(ours: int, master: int) -> Iterator[None]:
    """Keep the terminal of the program as large as this one."""

    def resize(_number: int, _frame: object) -> None:
        termios.tcsetwinsize(master, termios.tcgetwinsize(ours))

    before = signal.signal(signal.SIGWINCH, resize)
    try:
        yield
    finally:
        signal.signal(signal.SIGWINCH, before)


def _status(code: int) -> int:
    return 128 - code if code < 0 else code
