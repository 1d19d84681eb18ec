"""Row R3: power is lost at any moment, and the disk has lost whatever was not made durable."""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from chaos.disk import Disk, Op, read
from chaos.power_load import ACKS, HISTORY
from chaos.shim import Faults, build
from long import figure, seed, times

ROOT = Path(__file__).parents[2]
PATH = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}"}

# An operator's git does not make durable what it writes before the daemon has judged the commit.
EDITED = "/meta/topology.json"
THEIRS = re.compile(r"git: (broken link|missing|error: \S+: invalid reflog entry)")


def record_disk(folder: Path, number: int, most: int) -> tuple[list[Op], list[object]]:
    """What a daemon did to its disk, change by change, and what was so after each call."""
    (folder / "work").mkdir()
    control = Faults(folder / "control")
    environment = {**control.environment(build(folder)), "PYTHONPATH": PATH["PYTHONPATH"]}
    program = [sys.executable, "-m", "chaos.power_load", str(folder), str(most), str(number)]
    subprocess.run(program, env=environment, cwd=ROOT, check=True, timeout=300)
    control.close()
    return list(read(folder / "record")), json.loads((folder / HISTORY).read_text())


@pytest.mark.sized
def test_no_power_cut_loses_what_was_acknowledged() -> None:
    """The state after the last acknowledged call, or after the one that was under way.

    The ledger is whole, git finds nothing wrong, the work tree shows the head, and hived works on.
    Only what an operator is just writing and committing may be there as a change by hand.
    """
    number, images = seed(), times(8, 500)
    chance = random.Random(number)  # noqa: S311 - no secret
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="hive-power-") as name:
        folder = Path(name)
        ops, history = record_disk(folder, number, times(25, 120))
        disk, acked, by_hand = Disk(folder / "base", str(folder / "work")), 0, False
        moments = sorted(chance.choices(range(1, len(ops) + 1), k=images))
        program = [sys.executable, "-m", "chaos.images"]
        with subprocess.Popen(
            program, env=PATH, cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as judge:
            assert judge.stdin is not None
            assert judge.stdout is not None
            for at, op in enumerate(ops, 1):
                disk.follow(op)
                done = op.kind == "write" and op.path.endswith(f"/{ACKS}")
                acked += done
                # In place, as we never write.
                begun = op.kind == "truncate" and op.path.endswith(EDITED)
                by_hand = (by_hand or begun) and not done
                for _ in range(moments.count(at)):
                    disk.image(folder / "image", chance)
                    judge.stdin.write(f"{folder / 'image'}\n")
                    judge.stdin.flush()
                    document = json.loads(judge.stdout.readline())
                    where = (number, at, f"{op.kind} {op.path}", acked)
                    assert "raised" not in document, (where, document["raised"][-2000:])
                    faults = [
                        fault
                        for fault in document["faults"]
                        if not (by_hand and THEIRS.match(fault))
                    ]
                    assert faults == [], (where, faults)
                    assert document["state"] in history[acked : acked + 2], where
    figure("power cut", images=images, changes=len(ops), calls=len(history) - 1, seed=number)
