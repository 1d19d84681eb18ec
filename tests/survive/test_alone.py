"""Which tests have the machine to themselves."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from alone import Turns


@pytest.fixture
def turns(tmp_path: Path) -> Iterator[tuple[Turns, Turns]]:
    for name in ("alone.py", "long.py"):
        (tmp_path / name).touch()
    with closing(Turns(tmp_path)) as one, closing(Turns(tmp_path)) as other:
        yield one, other


def room(folder: Path, how: int) -> bool:
    """Whether one more test could begin."""
    with (folder / "long.py").open() as file:
        try:
            fcntl.flock(file, how | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


def test_most_run_beside_each_other(turns: tuple[Turns, Turns], tmp_path: Path) -> None:
    for each in turns:
        each.begin(alone=False)
    assert room(tmp_path, fcntl.LOCK_SH)
    for each in turns:
        assert not room(tmp_path, fcntl.LOCK_EX)
        each.end()
    assert room(tmp_path, fcntl.LOCK_EX)


def test_one_that_is_alone_keeps_the_others_out(turns: tuple[Turns, Turns], tmp_path: Path) -> None:
    for each in turns:
        each.begin(alone=True)
        assert not room(tmp_path, fcntl.LOCK_SH)
        each.end()
    assert room(tmp_path, fcntl.LOCK_EX)
