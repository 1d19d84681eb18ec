"""What agents can make a real daemon store (attack 62)."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from e2e.hivehost import HiveHost
from e2e.labhost import Lab
from long import times

from hive_core.errors import HIVE

pytestmark = pytest.mark.lab

FLOODERS = [f"flood{number}" for number in range(6)]
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
def host(lab: Lab) -> Iterator[HiveHost]:
    made = HiveHost(lab)
    made.setup()
    made.grow(lead={"role": "lead"}, quiet="lead", other="root")
    yield made
    made.close_connections()


def stored_bytes(host: HiveHost) -> int:
    return int(
        host.run("sh", "-c", "cat /var/lib/hive/hive.db /var/lib/hive/hive.db-wal | wc -c").stdout
    )


@pytest.mark.sized
def test_attack_62_a_flood_of_notes_by_many_agents_grows_the_ledger_by_less_than_32_mib(
    host: HiveHost,
) -> None:
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
    seconds = times(6, 20)
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
    host.prune({"root": None, "lead": "root", "quiet": "lead", "other": "root"})
    host.restart()
    assert not [alarm for alarm in host.json("status")["alarms"] if "audit log" in alarm]
