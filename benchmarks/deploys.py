"""Approve to healthy, the window left out: files that are taken up live, and with a restart.

From the call to the reply, which comes when the deploy is over: what was approved is checked anew,
tagged and committed, and the agent runs with it. Beside it the bare step, without any record: a
symlink that is swapped, and the start of the same container by systemd, mounts ready.
"""

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median

from e2e.hivehost import HiveHost
from e2e.labhost import Lab

from benchmarks.report.rows import Row, beside, with_aim
from benchmarks.starts import BARE, Size, bare

ROUNDS = 7
SETTINGS = "[deploy]\nwindow = 0.0\n[approvals]\npending = 100\na_day = 1000\n"
CLONE = "/agents/lead/state/configs/bob"
LIVE = '[harness]\nreload = "live"\n'
EDIT = f"""
set -e; test -d {CLONE} || hive-agent config clone bob >/dev/null; cd {CLONE}
printf %s "$1" >agent.toml; printf %s "$2" >AGENTS.md
git -c user.name=x -c user.email=x@x commit -qam x; git rev-parse HEAD
"""


def run() -> list[Row]:
    with Lab() as lab, bare(lab, "unit") as unit:
        return list(_rows(HiveHost(lab), lambda: unit(Size(1, 1))))


def _rows(host: HiveHost, start: Callable[[], float]) -> Iterator[Row]:
    host.settings(SETTINGS)
    host.setup()
    host.grow(lead={"role": "lead"})
    host.grow(bob={"parent": "lead", "command": ["sleep", "infinity"]})
    _deploy(host, LIVE, "first")
    live = [_deploy(host, LIVE, f"live {number}") for number in range(ROUNDS)]
    row: Row = {"name": "approve to healthy, live, p50", "value": median(live), "unit": "s"}
    yield with_aim({**row, **beside("a symlink swapped", _swap)}, "below 1.5 s", at_most=1.5)
    _deploy(host, "", "from now on by restart")
    again = [_deploy(host, "", f"restart {number}") for number in range(ROUNDS)]
    row = {"name": "approve to healthy, restart, p50", "value": median(again), "unit": "s"}
    yield with_aim({**row, **beside(BARE, start)}, "below 3 s", at_most=3.0)
    host.close_connections()


def _deploy(host: HiveHost, config: str, text: str) -> float:
    """Seconds that one approval took, everything before it excluded."""
    commit = host.inside("lead", "sh", "-c", EDIT, "sh", config, text).strip()
    asked = host.ask("lead", "RequestApplyCommit", agent="bob", commit=commit, message="x",
                     source="lead")["approval"]  # fmt: skip
    host.until(lambda: _state(host, asked) == "pending", "it is not checked")
    connection = host.connect()
    try:
        began = time.perf_counter()
        reply = connection.ask("Approve", {"id": asked, "commit": commit[:8], "wait": 45})
        took = time.perf_counter() - began
    finally:
        connection.close()
    assert "error" not in reply, reply
    assert _state(host, asked) == "deployed"
    return took


def _state(host: HiveHost, approval: str) -> str:
    return str(host.call("GetApproval", id=approval)["approval"]["state"])


def _swap() -> float:
    """A file and a symlink, as durable as a file can be made."""
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        with (Path(folder) / "AGENTS.md").open("w") as file:
            file.write("x")
            os.fsync(file.fileno())
        (Path(folder) / "new").symlink_to("AGENTS.md")
        (Path(folder) / "new").rename(Path(folder) / "config")
        return time.perf_counter() - began
