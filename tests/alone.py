"""Which tests share the machine, where several processes run them (`scripts/test`).

A test that is marked `alone` measures time, or looks at all of the machine: no other test runs
beside it. All others run beside each other.
"""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from pathlib import Path

import pytest


class Turns:
    """Two locks that all processes know: files of the checkout that are always there."""

    def __init__(self, folder: Path) -> None:
        # Who waits for its turn alone holds the gate, so that nobody else comes in before it.
        self._gate, self._room = (folder / "alone.py").open(), (folder / "long.py").open()

    def close(self) -> None:
        self._gate.close()
        self._room.close()

    def begin(self, *, alone: bool) -> None:
        fcntl.flock(self._gate, fcntl.LOCK_EX)
        fcntl.flock(self._room, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        fcntl.flock(self._gate, fcntl.LOCK_UN)

    def end(self) -> None:
        # Said, and not left to a close: a process that a test left behind has the file, too.
        fcntl.flock(self._room, fcntl.LOCK_UN)


class Beside:
    """The plugin of a process that has others beside it."""

    def __init__(self, folder: Path) -> None:
        self._turns, self._goes_on = Turns(folder), False

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> Iterator[None]:
        if not self._goes_on:
            self._turns.begin(alone=_alone(item))
        try:
            return (yield)
        finally:
            # Several that are alone are so together: the others do not come to rest for each.
            self._goes_on = nextitem is not None and _alone(item) and _alone(nextitem)
            if not self._goes_on:
                self._turns.end()


def _alone(item: pytest.Item) -> bool:
    return item.get_closest_marker("alone") is not None
