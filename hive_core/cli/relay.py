"""Copying between our terminal or pipes and those of a process in a container."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
import termios
import tty
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Final

_CHUNK: Final = 1 << 16
_DESCRIPTORS: Final = 1 << 30  # close_range(2) takes no longer for a large number


def _read(source: int) -> bytes:
    """Bytes, or nothing at the end; a terminal whose last user left answers with EIO."""
    with suppress(OSError):
        return os.read(source, _CHUNK)
    return b""


def _write(target: int, data: bytes) -> bool:
    """Whether the other side still listens."""
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


def in_pipes(argv: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run a program on pipes of ours, so that it never holds what we were started with."""
    (theirs_in, ours_in), (ours_out, theirs_out), (ours_err, theirs_err) = (
        os.pipe() for _ in range(3)
    )
    process = subprocess.Popen(
        list(argv),
        env=dict(environment),
        stdin=theirs_in,
        stdout=theirs_out,
        stderr=theirs_err,
        start_new_session=True,
    )
    for each in (theirs_in, theirs_out, theirs_err):
        os.close(each)
    routes = {0: ours_in, ours_out: 1, ours_err: 2}
    copy(routes, until={ours_out, ours_err}, finished={ours_in})
    return _status(process.wait())


def _status(code: int) -> int:
    return 128 - code if code < 0 else code


@contextmanager
def _raw(terminal: int) -> Iterator[None]:
    before = termios.tcgetattr(terminal)
    tty.setraw(terminal, termios.TCSADRAIN)  # what was typed ahead is kept
    try:
        yield
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)


def _same_size(master: int) -> None:
    with suppress(termios.error, OSError):
        termios.tcsetwinsize(master, termios.tcgetwinsize(sys.stdin.fileno()))


def in_terminal(argv: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run a program on a terminal of its own: ours never gets into its hands."""
    child, master = pty.fork()
    if child == 0:
        os.closerange(3, _DESCRIPTORS)
        os.execve(argv[0], list(argv), dict(environment))  # noqa: S606 - no shell is wanted
    _same_size(master)
    signal.signal(signal.SIGWINCH, lambda *_: _same_size(master))
    with _raw(sys.stdin.fileno()):
        copy({sys.stdin.fileno(): master, master: sys.stdout.fileno()}, {master}, set())
    os.close(master)
    return _status(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
