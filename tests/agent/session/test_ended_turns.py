"""What a CLI calls through its session ends with the turn, whenever the turn ends.

The places at which it ends are chosen by the tests: no call runs on by a race.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from fixtures import own_server
from fixtures.fake_broker import FakeBroker, fake_broker
from typing_extensions import override

from hive_core.agent.reconnect import wire_name
from hive_core.agent.server_tools import CALL, LIST
from hive_core.agent.session.runtimes.builtin import RuntimeCommand
from hive_core.agent.session.server_settings import ServerSettings
from hive_core.agent.session.server_socket import (
    ServerToolSocket,
    SessionTool,
    SessionToolCall,
    TurnTools,
)
from hive_core.agent.session.servers import McpServers, ServerTool
from hive_core.errors import Conflict
from hive_core.varlink import Message

FORK = "fork"
SECONDS = 30


class ForkOfTest(SessionTool, SessionToolCall):
    """A tool whose call runs until it is ended. `meet` is called at each place of its way."""

    def __init__(self, meet: Callable[[str], None]) -> None:
        self.meet = meet
        self.ended = threading.Event()
        self.places = list[str]()

    @property
    @override
    def row(self) -> Message:
        return {"name": FORK, "description": "", "schema": {}}

    @override
    def open_call(self) -> SessionToolCall:
        self._note("opened")
        return self

    @override
    def run(self, arguments: Mapping[str, object], key: str) -> Message:
        self._note("run")
        return {"content": "ended" if self.ended.wait(SECONDS) else "outlived", "is_error": True}

    @override
    def kill(self) -> None:
        self.ended.set()

    def _note(self, place: str) -> None:
        self.places.append(place)
        self.meet(place)


@pytest.fixture(name="server")
def _server(tmp_path: Path) -> Iterator[ServerToolSocket]:
    with closing(ServerToolSocket(tmp_path / "s", None, "/nowhere")) as server:
        yield server


def call(name: str, **arguments: object) -> Message:
    return {"method": wire_name(CALL), "parameters": {"name": name, "arguments": arguments}}


def next_turn(server: ServerToolSocket, offered: TurnTools) -> None:
    server.begin_turn([], "")
    assert offered.is_over


ENDS = [next_turn, ServerToolSocket.end_turn]


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize(("place", "places", "content"), [
    ("opened", ["opened"], None),  # the call is made, and has not begun
    ("run", ["opened", "run"], "ended"),
])  # fmt: skip
def test_a_fork_ends_with_its_turn_wherever_the_end_meets_it(
    server: ServerToolSocket,
    end: Callable[[ServerToolSocket, TurnTools], None],
    place: str,
    places: list[str],
    content: str | None,
) -> None:
    def meet(at: str) -> None:
        if at == place:
            end(server, offered)

    own = ForkOfTest(meet)
    offered = server.begin_turn([], "t1", own)
    reply = server.reply(call(FORK))
    assert own.places == places
    if content is None:
        assert reply["error"] == Conflict.wire
    else:
        assert reply["parameters"] == {"content": content, "is_error": True}
    assert offered.running == set()


def test_the_end_of_an_earlier_turn_ends_no_call_of_the_present_one(
    server: ServerToolSocket,
) -> None:
    begun = threading.Event()
    before = server.begin_turn([], "t1", ForkOfTest(lambda _: None))
    own = ForkOfTest(lambda place: begun.set() if place == "run" else None)
    present = server.begin_turn([], "t2", own)
    with ThreadPoolExecutor(1) as threads:
        reply = threads.submit(server.reply, call(FORK))
        assert begun.wait(SECONDS)
        server.end_turn(before)
        assert not own.ended.is_set()
        server.end_turn(present)
        assert reply.result()["parameters"] == {"content": "ended", "is_error": True}
    assert server.reply({"method": wire_name(LIST)})["parameters"] == {"tools": [own.row]}
    assert server.reply(call(FORK))["error"] == Conflict.wire


@pytest.fixture(name="broker")
def _broker(tmp_path: Path) -> Iterator[FakeBroker]:
    with fake_broker(tmp_path / "broker.sock") as made:
        made.answers["EndTool"] = lambda _: {}
        yield made


@pytest.fixture(name="echo", scope="module")
def _echo(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[McpServers, ServerTool]]:
    """A server, and its tool that answers with what it is told."""
    words = (sys.executable, str(own_server.__file__), "plain")
    runtime = RuntimeCommand(folder=None, uid=None, environment={})
    folder = tmp_path_factory.mktemp("work")
    servers = McpServers(runtime, [ServerSettings("plain", words)], folder, 60.0)
    (tool,) = [tool for tool in servers.tools() if tool.tool == "echo"]
    yield servers, tool
    servers.close()


@pytest.mark.parametrize("end", ENDS)
def test_a_tool_of_a_server_is_not_called_once_the_turn_has_ended(
    broker: FakeBroker,
    echo: tuple[McpServers, ServerTool],
    tmp_path: Path,
    end: Callable[[ServerToolSocket, TurnTools], None],
) -> None:
    """The turn ends between the grant and the call; the grant is returned."""
    servers, tool = echo
    with closing(ServerToolSocket(tmp_path / "s", servers, broker.path)) as server:

        def grant(_: Message) -> Message:
            end(server, offered)
            return {"grant": "g1"}

        broker.answers["UseTool"] = grant
        offered = server.begin_turn([tool], "t1")
        reply = server.reply(call(tool.name, text="hi"))
    assert reply["error"] == Conflict.wire
    (returned,) = broker.params_of("EndTool")
    assert (returned["grant"], returned["status"]) == ("g1", "killed")
