"""Attack 64: names that an agent chooses are bytes, and every reader accepts any."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from e2e.hivehost import HiveHost
from e2e.labhost import Lab

pytestmark = pytest.mark.lab

# Moves the first process of the container into a control group with a name that is no UTF-8, holds
# a line break of another alphabet, blanks, quotes and what a shell or systemd would take for more.
MOVE = r"""
import os, pathlib, time
name = b"\xff \x0b\x1c\xc2\x85\xe2\x80\xa8'\"$HOME%i\\x20`id`;"
moved = 0
for top in (b"/sys/fs/cgroup", b"/sys/fs/cgroup/unified", b"/sys/fs/cgroup/systemd"):
    try:
        os.mkdir(top + b"/" + name)
        pathlib.Path(os.fsdecode(top + b"/" + name), "cgroup.procs").write_text("1")
        moved += 1
    except OSError as error:
        print(top, error, flush=True)
print("moved", moved, flush=True)
time.sleep(1000000)
"""


@pytest.fixture(scope="module")
def host(lab: Lab) -> Iterator[HiveHost]:
    made = HiveHost(lab)
    made.setup()
    made.call("Spawn", name="bob", parent="root", command=["python3", "-c", MOVE])
    made.wait("running", "bob")
    made.until(lambda: "moved" in str(made.call("GetLogs", agent="bob")["lines"]), "did not move")
    yield made
    made.close_connections()


def test_attack_64_a_shell_opens_despite_hostile_control_group_names(host: HiveHost) -> None:
    said = str(host.call("GetLogs", agent="bob")["lines"])
    assert "moved 0" not in said, said
    same = '[ "$(cat /proc/self/cgroup)" = "$(cat /proc/1/cgroup)" ] && echo joined'
    assert host.shell("bob", "sh", "-c", same) == "joined\n"


def test_attack_64_the_host_goes_on_with_hostile_control_group_names(host: HiveHost) -> None:
    """It is looked at anew by a fresh daemon, and stopped and started, like any other."""
    host.restart()
    host.wait("running", "bob")
    assert not host.call("Restart", agent="bob", wait=50).error
    host.wait("running", "bob")
    assert not host.call("Stop", agent="bob", wait=50).error
    host.wait("stopped", "bob")
    assert host.run("hive", "doctor", check=False).stderr == ""
