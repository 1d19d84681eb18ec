"""The sockets of sub-agents: each takes one uid, and they end with the sub-agent and the daemon."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from fixtures.broker import BrokerHarness
from fixtures.socket_host import ANN, FakeDescriptorStore, SocketHost, run

from hive_core.errors import Internal
from hive_core.host.sockets.egress_sockets import EgressFacts, EgressSockets
from hive_core.host.sockets.service_sockets import (
    EGRESS_SOCKETS,
    AgentServiceSocket,
    ServiceSockets,
)
from hive_core.host.sockets.subagent_sockets import SubAgentServices, SubAgentSocketPairs
from hive_core.model.agents.subagent import SUBAGENT_UIDS, SubAgent
from hive_core.model.config.settings import Paths

FIRST, SECOND = SUBAGENT_UIDS.start, SUBAGENT_UIDS.start + 1
# A process of this uid asks on each socket, and prints where it was served.
ASK = """
import json, os, socket, sys
os.setuid(int(sys.argv[1]))
answered = []
for path in sys.argv[2:]:
    try:
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(path)
        connection.sendall(b'{"method":"org.hive.Broker.Look"}' + bytes(1))
        answered.append(bool(connection.recv(999)))
    except OSError:
        answered.append(False)
print(json.dumps(answered))
"""


def add_row(harness: BrokerHarness, id_: str, uid: int) -> None:
    sub = SubAgent(
        ANN, id_, "named", "echo", "", uid, 1, 0, frozenset({"look"}), "", 0.0, 1e12
    )  # fmt: skip
    with harness.ledger.transaction():
        harness.ledger.subagents.add(sub)


def egress_of(harness: BrokerHarness, host: SocketHost, paths: Paths) -> EgressSockets:
    """The sockets of a host without hive-egress."""
    doors = ServiceSockets(None, None, EGRESS_SOCKETS)
    facts = EgressFacts(lambda: harness.hive, (), harness.ledger)
    return EgressSockets(host.sockets, doors, paths, {}, facts)


def make_pairs(
    harness: BrokerHarness, host: SocketHost, doors: ServiceSockets
) -> tuple[SubAgentSocketPairs, Paths, int]:
    """The sockets of ann's sub-agents, where they are, and the first uid of ann's range."""
    paths = Paths(runtime=host.folder)
    with harness.ledger.transaction():
        base = harness.ledger.ranges.allocate(ANN)
    paths.socket(ANN).parent.mkdir(parents=True)
    services = SubAgentServices(doors, lambda: egress_of(harness, host, paths))
    pairs = SubAgentSocketPairs(lambda: host.sockets, services, paths, harness.ledger, str)
    return pairs, paths, base


@pytest.fixture
def folder() -> Iterator[Path]:
    """A short path, which other uids may enter: that of a socket has 107 bytes at most."""
    with TemporaryDirectory(dir="/dev/shm") as made:
        Path(made).chmod(0o755)
        yield Path(made)


async def ask(uid: int, *sockets: Path) -> list[bool]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-Ic", ASK, str(uid), *map(str, sockets), stdout=subprocess.PIPE
    )
    out, _ = await process.communicate()
    answered: list[bool] = json.loads(out)
    return answered


def test_a_socket_takes_the_uid_of_its_party_and_no_other(
    harness: BrokerHarness, folder: Path
) -> None:
    """Not that of the agent, of its root, or of another sub-agent."""

    async def main(host: SocketHost) -> None:
        pairs, paths, base = make_pairs(harness, host, ServiceSockets(None))
        await host.sockets.listen(ANN, paths.socket(ANN), base)
        for id_, uid in (("one", FIRST), ("two", SECOND)):
            await pairs.open(ANN, id_, uid, has_network=False)
            add_row(harness, id_, uid)
        place = paths.subagents(ANN)
        sockets = paths.socket(ANN), place / "one/broker.sock", place / "two/broker.sock"
        answers = await asyncio.gather(
            *(ask(base + uid, *sockets) for uid in (0, FIRST, SECOND, SUBAGENT_UIDS.stop - 1))
        )
        assert answers == [
            [True, False, False], [False, True, False], [False, False, True], [False] * 3,
        ]  # fmt: skip

    run(harness, folder, main)
    harness.run()
    assert {(event.target, event.fields.get("sub")) for event in harness.events("refusal")} >= {
        (ANN, None), (ANN, "one"), (ANN, "two"),
    }  # fmt: skip


def test_they_end_with_the_row_of_the_sub_agent(harness: BrokerHarness, folder: Path) -> None:
    keeper = FakeDescriptorStore()

    async def main(host: SocketHost) -> None:
        doors = ServiceSockets(65534, keeper)
        pairs, paths, _ = make_pairs(harness, host, doors)
        await pairs.open(ANN, "one", FIRST, has_network=False)
        add_row(harness, "one", FIRST)
        pairs.settle(ANN, "one")
        place = paths.subagents(ANN) / "one"
        assert [file.name for file in sorted(place.iterdir())] == ["broker.sock", "model.sock"]
        assert place.stat().st_mode & 0o777 == 0o755
        pairs.on_topics(frozenset({"subagent:x", "tree"}))
        assert pairs.parties == {f"{ANN}/one"}
        with harness.ledger.transaction():
            harness.ledger.subagents.delete("one")
        pairs.on_topics(frozenset({"tree"}))
        assert pairs.parties
        pairs.on_topics(frozenset({f"subagent:{ANN}"}))
        assert (pairs.parties, host.sockets.parties, doors.agents) == (frozenset(),) * 3
        assert not place.exists()

    run(harness, folder, main, keeper)
    assert keeper.kept == {}, "the next daemon serves no sub-agent"


def test_another_sub_agent_that_ends_closes_no_sockets_of_a_call_that_runs(
    harness: BrokerHarness, folder: Path
) -> None:
    """Their row is written after them; without one at the end of the call they are closed."""

    async def main(host: SocketHost) -> None:
        pairs, _, _ = make_pairs(harness, host, ServiceSockets(None))
        await pairs.open(ANN, "one", FIRST, has_network=False)
        await pairs.open(ANN, "two", SECOND, has_network=False)
        pairs.on_topics(frozenset({"subagent:x"}))
        assert pairs.parties == {f"{ANN}/one", f"{ANN}/two"}
        add_row(harness, "one", FIRST)
        for id_ in ("one", "two"):
            pairs.settle(ANN, id_)
        assert pairs.parties == {f"{ANN}/one"}

    run(harness, folder, main)


def test_hive_model_learns_which_sub_agent_a_socket_is_of() -> None:
    door = AgentServiceSocket(f"{ANN}/one", "ann", Path(), 5, "", None)  # type: ignore[arg-type]
    assert json.loads(door.packet) == {"agent": ANN, "name": "ann", "sub": "one", "uids": [5, 1]}


def test_a_failure_leaves_nothing_behind(harness: BrokerHarness, folder: Path) -> None:
    async def main(host: SocketHost) -> None:
        pairs, paths, _ = make_pairs(harness, host, ServiceSockets(None))
        for agent, uid in (("0-0", FIRST), (ANN, 0), (ANN, 65536 + FIRST)):
            with pytest.raises(Internal, match="has no uid"):
                await pairs.open(agent, "one", uid, has_network=False)
        paths.subagents(ANN).write_text("in the way")
        with pytest.raises(Internal, match="cannot listen for a sub-agent"):
            await pairs.open(ANN, "one", FIRST, has_network=False)
        assert pairs.parties == host.sockets.parties == frozenset()

    run(harness, folder, main)


def test_what_a_killed_daemon_left_is_removed(harness: BrokerHarness, folder: Path) -> None:
    async def main(host: SocketHost) -> None:
        pairs, paths, _ = make_pairs(harness, host, ServiceSockets(None))
        await pairs.open(ANN, "one", FIRST, has_network=False)
        services = SubAgentServices(
            ServiceSockets(None), lambda: egress_of(harness, host, paths)
        )  # fmt: skip
        later = SubAgentSocketPairs(lambda: host.sockets, services, paths, harness.ledger, str)
        later.remove_left()
        assert not paths.subagents(ANN).exists()
        pairs.stop()

    run(harness, folder, main)
