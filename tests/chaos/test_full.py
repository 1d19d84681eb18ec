"""Row R4, attack 52: a disk that is full fails what does not fit, and nothing else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from chaos.full_disk import ROOM, VERBS
from long import at_most, figure, times

ROOT = Path(__file__).parents[2]
FULL = "StorageFull"


@pytest.mark.sized
def test_every_operation_fails_cleanly_on_a_full_disk(tmp_path: Path) -> None:
    """Each call succeeds or raises StorageFull, and succeeds once there is room again.

    A stop and a kill always succeed. With the reserved space used up too, the error is StorageFull.
    """
    most = times(len(ROOM) - 1, 60)
    path = f"{ROOT}:{ROOT / 'tests'}"
    # Mounts of its own: whatever becomes of it, no small file system is left behind.
    program = [sys.executable, "-m", "chaos.full_disk", str(tmp_path), str(most)]
    done = subprocess.run(
        ["unshare", "--mount", *program], env={**os.environ, "PYTHONPATH": path}, cwd=ROOT,
        capture_output=True, text=True, timeout=900, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    for line in lines:
        _check(line)
    tried = [line for line in lines if "first" in line]
    assert {line["verb"] for line in tried if line["first"] == FULL} >= set(VERBS) - {
        *ENDING,
        "destroy",
    }
    assert {line["verb"] for line in tried if line["first"] == ""} == set(VERBS)
    slowest = max(line["took"] for line in tried)
    figure("full disk", tried=len(tried), refused=sum(line["first"] != "" for line in tried),
           seconds_to_recover=round(slowest, 3))  # fmt: skip


# What may use the room that was held back.
ENDING = {"stop", "kill", "destroy"}


def _check(line: dict[str, Any]) -> None:
    assert line["faults"] == [], line
    if "first" not in line:
        return
    assert line["first"] in ("", FULL), line
    assert line["first"] == "" or line["verb"] not in ENDING, line
    assert not line["lost"], line
    assert line["urgent"] == ["", ""], line
    assert set(line["worse"]) <= {"", FULL} or line["first"] == "", line
    assert any("disk is full" in alarm for alarm in line["alarms"]), line
    assert line["again"] == "", line
    assert line["held"], line
    assert line["took"] < at_most(5), line
