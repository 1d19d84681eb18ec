"""Copying between what we were started with and the pipes of a process in a container."""

from __future__ import annotations

import os
import select
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final

_CHUNK: Final = 1 << 16


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


def in_pipes(argv: Sequence[str]) -> int:
    """Run a program on pipes of ours, so that it never holds what we were started with."""
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
    for each in (theirs_in, theirs_out, theirs_err):
        os.close(each)
    routes = {0: ours_in, ours_out: 1, ours_err: 2}
    copy(routes, until={ours_out, ours_err}, finished={ours_in})
    return _status(process.wait())


def _status(code: int) -> int:
    return 128 - code if code < 0 else code
