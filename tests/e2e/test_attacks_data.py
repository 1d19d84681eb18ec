"""Attacks 62 and 64: what agents can make a real daemon store, and names that are only bytes."""

from __future__ import annotations

import time

import pytest
from e2e.hivehost import HiveHost
from e2e.shared_hosts import SharedHost
from long import times

from hive_core.errors import HIVE

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

FLOODERS = [f"flood{number}" for number in range(times(4, 6))]
# As fast as it is served: so many calls at once, and the next ones when these are answered.
FLOOD = f"""
import json, socket
call = {{"method": "{HIVE}NoteEvent", "parameters": {{
    "kind": "step", "text": "x" * 4096, "fields": {{"more": "y" * 3900}}}}}}
frame = json.dumps(call).encode() + b"\\0"
peer = socket.socket(socket.AF_UNIX)
peer.connect("/run/hive/broker.sock")
while True:
    peer.sendall(frame * 16)
    left = 16
    while left:
        left -= peer.recv(65536).count(b"\\0")
"""


@pytest.fixture(scope="module")
def host(shared_host: SharedHost) -> HiveHost:
    made = shared_host.prepare("models")
    made.call("Spawn", name="bob", parent="root", command=["python3", "-c", MOVE])
    made.wait("running", "bob")
    made.until(lambda: "moved" in str(made.call("GetLogs", agent="bob")["lines"]), "did not move")
    return made


def test_attack_64_a_shell_opens_despite_hostile_control_group_names(host: HiveHost) -> None:
    said = str(host.call("GetLogs", agent="bob")["lines"])
    assert "moved 0" not in said, said
    same = '[ "$(cat /proc/self/cgroup)" = "$(cat /proc/1/cgroup)" ] && echo joined'
    assert host.shell("bob", "sh", "-c", same) == "joined\n"


def stored_bytes(host: HiveHost) -> int:
    return int(
        host.run("sh", "-c", "cat /var/lib/hive/hive.db /var/lib/hive/hive.db-wal | wc -c").stdout
    )


@pytest.mark.sized
def test_attack_62_a_flood_of_notes_by_many_agents_grows_the_ledger_by_less_than_32_mib(
    host: HiveHost,
) -> None:
    host.grow(lead={"role": "lead"}, quiet="lead", other="root")
    for name in ("quiet", "other"):
        host.ask(name, "NoteEvent", kind="first", text=f"of {name}")
    before, mine = stored_bytes(host), host.ask("quiet", "Subscribe", after="1")["events"]
    flood: dict[str, object] = {
        "parent": "lead", "command": ["/usr/bin/python3", "-Ic", FLOOD],
    }  # fmt: skip
    host.grow(**dict.fromkeys(FLOODERS, flood))

    def has_gap() -> bool:
        page = host.ask("lead", "Subscribe", after="1", agents=FLOODERS, kinds=["own.*"])
        return bool(page["events"]) and page.parameters.get("gap") is not None

    host.until(has_gap, "notes of the flood pushed out its own", seconds=60)
    seconds = times(1, 20)
    end = time.monotonic() + seconds
    host.until(lambda: time.monotonic() > end, "the flood went on", seconds=seconds + 30)
    grown = stored_bytes(host) - before
    assert grown < 32 << 20
    page = host.ask("quiet", "Subscribe", after="1")
    assert page.parameters.get("gap") is None
    assert page["events"][: len(mine)] == mine
    assert "own.first" in {
        event["kind"] for event in host.ask("other", "Subscribe", after="1")["events"]
    }
    host.prune({"root": None, "bob": "root"})


def test_attacks_62_and_64_a_fresh_daemon_goes_on_with_what_is_there(host: HiveHost) -> None:
    """The notes of a flood, and an agent with hostile names: stopped and started like any other."""
    host.restart()
    assert not [alarm for alarm in host.json("status")["alarms"] if "audit log" in alarm]
    host.wait("running", "bob")
    assert not host.call("Restart", agent="bob", wait=50).error
    host.wait("running", "bob")
    assert not host.call("Stop", agent="bob", wait=50).error
    host.wait("stopped", "bob")
    assert host.run("hive", "doctor", check=False).stderr == ""
