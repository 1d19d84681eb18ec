"""Row R3: power is lost at any moment, and the disk has lost whatever was not made durable."""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from chaos.disk import Disk, Op, read
from chaos.power_load import ACKS, HISTORY
from chaos.shim import Faults, build
from long import figure, seed, times

Row = dict[str, Any]
ROOT = Path(__file__).parents[2]
PATH = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}"}

# An operator's git does not make durable what it writes before the daemon has judged the commit.
EDITED = "/meta/topology.json"
THEIRS = re.compile(r"git: (broken link|missing|error: \S+: invalid reflog entry)")


def record_disk(folder: Path, number: int, most: int) -> tuple[list[Op], list[object]]:
    """The changes that a daemon makes to its disk, and the state after each of its calls."""
    (folder / "work").mkdir()
    control = Faults(folder / "control")
    environment = {**control.environment(build(folder)), "PYTHONPATH": PATH["PYTHONPATH"]}
    program = [sys.executable, "-m", "chaos.power_load", str(folder), str(most), str(number)]
    subprocess.run(program, env=environment, cwd=ROOT, check=True, timeout=300)
    control.close()
    return list(read(folder / "record")), json.loads((folder / HISTORY).read_text())


@contextmanager
def start_judge() -> Iterator[Callable[[Path], Row]]:
    """A process that opens an image of the disk as a daemon does; it returns state and faults."""
    program = [sys.executable, "-m", "chaos.images"]
    with subprocess.Popen(
        program, env=PATH, cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        orders, answers = process.stdin, process.stdout
        assert orders is not None
        assert answers is not None

        def judge(image: Path) -> Row:
            orders.write(f"{image}\n")
            orders.flush()
            document: Row = json.loads(answers.readline())
            return document

        yield judge


def check_image(document: Row, states: list[object], where: object, *, by_hand: bool) -> None:
    """The image has no faults but those of a manual commit under way, and one of these states."""
    assert "raised" not in document, (where, document["raised"][-2000:])
    faults = [fault for fault in document["faults"] if not (by_hand and THEIRS.match(fault))]
    assert faults == [], (where, faults)
    assert document["state"] in states, where


@pytest.mark.sized
def test_no_power_cut_loses_what_was_acknowledged() -> None:
    """After a power cut the state is that of the last acknowledged call or of the next one.

    The ledger is whole, git finds nothing wrong, the work tree shows the head, and hived works.
    Only files that an operator is editing or committing may show as a manual change.
    """
    number, images = seed(), times(8, 500)
    chance = random.Random(number)  # noqa: S311 - no secret
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="hive-power-") as name:
        folder = Path(name)
        ops, history = record_disk(folder, number, times(25, 120))
        disk, acked, by_hand = Disk(folder / "base", str(folder / "work")), 0, False
        moments = sorted(chance.choices(range(1, len(ops) + 1), k=images))
        with start_judge() as judge:
            for at, op in enumerate(ops, 1):
                disk.follow(op)
                done = op.kind == "write" and op.path.endswith(f"/{ACKS}")
                acked += done
                # An operator's editor truncates a file in place; hive never does.
                begun = op.kind == "truncate" and op.path.endswith(EDITED)
                by_hand = (by_hand or begun) and not done
                for _ in range(moments.count(at)):
                    disk.image(folder / "image", chance)
                    where = (number, at, f"{op.kind} {op.path}", acked)
                    states = history[acked : acked + 2]
                    check_image(judge(folder / "image"), states, where, by_hand=by_hand)
    figure("power cut", images=images, changes=len(ops), calls=len(history) - 1, seed=number)
