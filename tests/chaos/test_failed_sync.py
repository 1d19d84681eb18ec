"""Row R5: an fsync that fails is never answered with a success, and never tried again.

The kernel reports it once and forgets what it could not write (https://lwn.net/Articles/752063/),
so the daemon ends at once and a fresh one reads what the disk has.
"""

from __future__ import annotations

import errno
import random
from itertools import pairwise

import pytest
from chaos.offline_daemon import DURABLE_CHANGES
from chaos.shim import Act, Kind
from chaos.sweep_process import SweepProcess, SweptChange, label
from long import figure, seed, times

# SQLite makes the name of its log durable and does not look whether that worked. What a checkpoint
# could not make durable stays in the log, and the next one writes all of it again.
SQLITES_OWN = ("fdatasync ", "fdatasync /hive.db")
# The log is synced once more before its pages go into the file, and SQLite tells nobody of an error
# there: what was committed was synced before. https://www.sqlite.org/c3ref/wal_autocheckpoint.html
CHECKPOINT = ("fdatasync /hive.db-wal", "fdatasync /hive.db")
SHORT = ("spawn", "send", "hand commit", "pack")


@pytest.mark.sized
def test_no_call_succeeds_after_a_failed_fsync(sweep_process: SweepProcess) -> None:
    """Of the ledger, of objects and of refs: LedgerBroken each time; the disk has old or new."""
    chance, names = seed(), times(0, 1) * tuple(DURABLE_CHANGES) or SHORT
    points = [
        (course, name, at)
        for name in names
        for course in [SweptChange(sweep_process, name, Kind.SYNC)]
        for at, (point, then) in enumerate(pairwise([*course.points, ""]), 1)
        if point not in SQLITES_OWN and (point, then) != CHECKPOINT
    ]
    most = min(len(points), times(4, len(points)))
    for course, name, at in random.Random(chance).sample(points, most):  # noqa: S311 - no secret
        life = sweep_process(name, Kind.SYNC, Act.FAIL_ONCE, at, errno.EIO)
        where = (name, at, label(life["names"][at - 1]), life["said"])
        assert life["said"][0]["error"] == "LedgerBroken", where
        course.check(life, where)
    figure("failed fsync", points=len(points), tried=most, seed=chance)
