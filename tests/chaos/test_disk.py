"""Attack 9: an agent fills the disk, with bytes or with files, where there are no quotas."""

from __future__ import annotations

import time

import pytest
from e2e.hivehost import HiveHost
from long import figure, times

MIB = 1 << 20
BYTES = "while :; do dd if=/dev/zero of=/tree/state/$((i += 1)) bs=1M count=8 2>/dev/null; done"
FILES = "mkdir -p /tree/state/d; cd /tree/state/d; while :; do : >$((i += 1)); done"

pytestmark = [pytest.mark.lab("slow"), pytest.mark.sized]


@pytest.mark.parametrize(
    ("script", "limits"),
    [(BYTES, {"disk": 64 * MIB}), (FILES, {"inodes": 2000})][: times(1, 2)],
    ids=["bytes", "files"][: times(1, 2)],
)
def test_an_agent_over_its_disk_limit_is_parked_and_its_parent_is_told(
    host: HiveHost, script: str, limits: dict[str, int]
) -> None:
    host.mail("lead")
    began = time.monotonic()
    host.grow(hog={"parent": "lead", "limits": limits, "command": ["sh", "-c", script]})
    host.wait("parked", "hog")
    figure("disk: from the start of the writer to parked", seconds=time.monotonic() - began)
    (notice,) = [message for message in host.mail("lead") if message["kind"] == "disk_limit"]
    assert notice["body"].startswith("the files of hog take "), notice
    assert "hog is parked" in " ".join(host.json("status")["alarms"])
    assert host.ask("ann", "Whoami")["name"] == "ann"
    # Its parent sweeps up and starts it again; it is not parked for what is gone.
    host.inside("lead", "sh", "-c", "rm -rf /agents/hog/state/*")
    host.call("Destroy", agent="hog", wait=20)
