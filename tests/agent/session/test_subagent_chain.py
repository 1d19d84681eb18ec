"""Sub-agents of sub-agents: the session starts what the daemon opened for the asker, and no more.

The session's chain, the broker and the processes are real; the sub-agents are programs that attack.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import NamedTuple

import pytest
from agent.broker_server import ROOT, BrokerServer, broker_server
from fixtures.subagents import allow_subagents
from fixtures.world import Reply, world
from hypothesis import given
from hypothesis import strategies as st

from hive_core.agent.session.calls import ToolPlace
from hive_core.agent.session.runtimes.builtin import RuntimeCommand
from hive_core.agent.session.services import SessionServices
from hive_core.agent.session.subagents.chain import SubagentChain
from hive_core.agent.session.subagents.channel import StartRequest
from hive_core.agent.session.subagents.launch import Launch
from hive_core.agent.session.subagents.order import ForkOrder, encode_hydration
from hive_core.agent.session.subagents.request import Asker, judge_request, read_opened
from hive_core.agent.session.subagents.settings import ForkSettings
from hive_core.errors import HiveError, Internal, NotAllowed, TimedOut
from hive_core.model.agents.subagent import SUBAGENT_UIDS
from hive_core.varlink import Message

FORK = "hive_fork_subagent"
PROGRAM = (sys.executable, "-I", str(ROOT / "tests/agent/forking_program.py"))
MODEL = {"alias": "m", "wire": "chat", "context": 9}


class ChainHost:
    """The chain of a session of agent `worker`, whose sub-agents do what their task names."""

    def __init__(self, server: BrokerServer, folder: Path) -> None:
        self.server, self.world = server, server.world
        socket = server.socket_of("worker")
        server.on_subagent = lambda sub: (sub / "model.sock").touch()
        workspace = folder / "state/work"
        workspace.mkdir(parents=True)
        self.services = SessionServices(
            "worker", socket, folder / "state/session",
            ToolPlace(workspace, socket, None, command=PROGRAM), RuntimeCommand("", None, None),
        )  # fmt: skip
        self.files = folder / "state/sub"

    def open(self) -> Reply:
        return self.world.call(
            "worker", "open_subagent", kind="named", name="echo", tools=[FORK], timeout_seconds=300
        )

    def run(self, task: str, seconds: int = 60) -> str:
        """Run a sub-agent with this task; its content."""
        opened = read_opened({**self.open(), "kind": "named", "name": "echo"}, has_user=False)
        order = ForkOrder("named", "echo", opened.id, 0, 5, MODEL, [], {}, depth=1, text=task)
        launch = Launch(opened, order, encode_hydration(b"", order), seconds, keeps_files=False)
        result: Future[Message] = Future()

        def work() -> None:
            try:
                with self.services.open_link() as link:
                    result.set_result(SubagentChain(self.services, link).run(launch))
            except HiveError as error:
                result.set_exception(error)

        thread = threading.Thread(target=work)
        thread.start()
        self.server.serve_until(result.done, 120)
        thread.join()
        self.world.call("worker", "close_subagent", id=opened.id, status="success")
        assert list(self.files.iterdir()) == []
        return str(result.result()["content"])

    def answers(self, task: str) -> list[str]:
        """What each request of a sub-agent was answered."""
        answers: list[str] = json.loads(self.run(task))
        return answers


@pytest.fixture(name="host", scope="module")
def _host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChainHost]:
    folder = tmp_path_factory.mktemp("c")
    with world(None, "root/worker:worker") as made, broker_server(made, folder) as server:
        allow_subagents(made, "worker")
        os.environ["HIVE_CONFIG"] = str(folder)
        yield ChainHost(server, folder)
        del os.environ["HIVE_CONFIG"]


def test_sub_agents_fork_as_deep_as_the_daemon_allows(host: ChainHost) -> None:
    """Z4: the session starts each of them, and the daemon counts."""
    said = host.run("grow")
    assert said.startswith("1: 2: cannot open a sub-agent: your depth is 3"), said


def test_one_that_lies_about_itself_or_names_a_foreign_party_starts_nothing(
    host: ChainHost,
) -> None:
    foreign = str(host.open()["id"])
    *lies, honest, again = host.answers(f"lie {foreign}")
    host.world.call("worker", "close_subagent", id=foreign, status="success")
    depths = (
        "depth 0,", "clone_depth False", "clone_depth -1", "name 'root'", "kind 'clone'",
    )  # fmt: skip
    assert [said in lie for said, lie in zip(depths, lies, strict=False)] == [True] * 5, lies
    assert "its log says id" in lies[5]
    assert "names no wire" in lies[6]
    assert all("the daemon opened no sub-agent" in lie for lie in lies[7:]), lies
    assert (honest, "was started already" in again) == ("echo", True)


def test_what_is_no_request_starts_nothing(host: ChainHost) -> None:
    """No user, program or environment can be named, and no file can keep the session waiting."""
    answers = host.answers("garble")
    assert all("sealed file in memory" in answer for answer in answers[:3]), answers
    assert "one message and one file" in answers[3]
    assert "whole record" in answers[4]
    assert all("malformed request" in answer for answer in answers[5:]), answers


def test_a_flood_of_requests_ends_the_channel_and_nothing_else(host: ChainHost) -> None:
    why, amount = host.answers("flood")
    assert "cannot ask the session" in why or "closed the channel" in why
    assert amount == "many"
    fifteenth, *others = host.answers("nag")
    assert "its log says depth 0" in fifteenth
    assert all("closed the channel" in why or "cannot ask" in why for why in others), others


def test_what_a_sub_agent_started_ends_when_it_hangs_up_or_dies(host: ChainHost) -> None:
    """Z11: with its files; `run` sees that none is left."""
    said, _ = host.answers("hang_up")
    assert said == "it has ended"
    with pytest.raises(Internal, match="without writing a result"):
        host.run("die")
    assert processes_of_the_program() == []


def test_a_chain_ends_whole_at_the_time_limit_of_its_first(host: ChainHost) -> None:
    """Z11: however long the last one asked for."""
    with pytest.raises(TimedOut, match="did not end in 2 s"):
        host.run("delegate sleep", seconds=2)
    assert processes_of_the_program() == []


def processes_of_the_program() -> list[str]:
    pids = []
    for place in Path("/proc").iterdir():
        try:
            command = (place / "cmdline").read_bytes() if place.name.isdigit() else b""
        except OSError:
            continue
        if PROGRAM[-1].encode() in command:
            pids.append(place.name)
    return pids


class ClaimedParty(NamedTuple):
    """What somebody says of a sub-agent: its id, kind, name and depths."""

    id: str
    kind: str
    depth: int
    clone_depth: int

    @property
    def name(self) -> str:
        return "clone" if self.kind == "clone" else "echo"

    @property
    def order(self) -> ForkOrder:
        return ForkOrder(
            self.kind, self.name, self.id, 0, 5, MODEL, [], {}, depth=self.depth,
            clone_depth=self.clone_depth,
        )  # fmt: skip


PARTIES = st.builds(
    ClaimedParty, st.sampled_from(["b2", "c3"]), st.sampled_from(["named", "clone"]),
    st.integers(-1, 4), st.integers(-1, 4),
)  # fmt: skip
BOUNDS = st.builds(
    ForkSettings, max_depth=st.integers(1, 4), max_clone_fork_depth=st.integers(0, 4)
)


@given(PARTIES, BOUNDS)
def test_what_the_daemon_opened_is_started_within_the_bounds_of_the_configuration(
    party: ClaimedParty, bounds: ForkSettings
) -> None:
    """Z4, Z9: whatever hive.toml allows."""
    row: Message = {
        **party._asdict(), "name": party.name, "parent": "worker/a1", "uid": 60_000,
    }  # fmt: skip
    asker = Asker("worker", "a1", frozenset(), has_users=True)
    request = StartRequest(party.id, 9, encode_hydration(b"", party.order))
    is_within = party.depth <= bounds.max_depth and (
        party.kind == "named" or party.clone_depth <= bounds.max_clone_fork_depth
    )
    try:
        launch = judge_request(asker, request, [row], bounds)
    except NotAllowed:
        assert not is_within
    else:
        assert (is_within, launch.opened.depth) == (True, party.depth)


OPENERS = st.sampled_from(["worker/a1", "worker/b2", "other/a1", "worker"])
UIDS = st.sampled_from([0, 1000, 60_000, 61_183, 61_184])


@given(st.tuples(PARTIES, OPENERS, UIDS), st.one_of(st.none(), PARTIES), BOUNDS)
def test_only_what_the_daemon_wrote_within_the_bounds_is_started(
    row: tuple[ClaimedParty, str, int], lie: ClaimedParty | None, bounds: ForkSettings
) -> None:
    """Z4: whatever the asker says."""
    party, opener, uid = row
    said = lie or party
    listed: list[Message] = [{**party._asdict(), "name": party.name, "parent": opener, "uid": uid}]
    request = StartRequest("b2", 999, encode_hydration(b"", said.order))
    may = (
        (party.id, opener, said) == ("b2", "worker/a1", party)
        and uid in SUBAGENT_UIDS and party.depth <= bounds.max_depth
        and (party.kind == "named" or party.clone_depth <= bounds.max_clone_fork_depth)
    )  # fmt: skip
    asker = Asker("worker", "a1", frozenset(), has_users=True)
    if may:
        launch = judge_request(asker, request, listed, bounds)
        assert (launch.opened.uid, launch.seconds) == (uid, 300)
    else:
        with pytest.raises(NotAllowed):
            judge_request(asker, request, listed, bounds)
