"""The one-file client for Python programs, against the real broker and copied out of the tree."""

from __future__ import annotations

import ast
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest
from agent.broker_server import CLIENT, BrokerServer, broker_server
from fixtures.fake_broker import fake_broker
from fixtures.machines import start_machines
from fixtures.world import World, world

from hive_core.agent.python.hive_agent import (
    AgentClient,
    Assignment,
    CallError,
    InboxMessage,
    TaskStopped,
)
from hive_core.errors import NotFound

T = TypeVar("T")
FILE = CLIENT / "hive_agent.py"


@pytest.fixture(name="hive")
def _hive() -> Iterator[World]:
    with world(None, "root/lead:lead", "lead/worker:worker") as made:
        start_machines(made, "lead", "worker")
        yield made


@pytest.fixture(name="server")
def _server(hive: World, tmp_path: Path) -> Iterator[BrokerServer]:
    with broker_server(hive, tmp_path) as made:
        yield made


def run(server: BrokerServer, agent: str, act: Callable[[AgentClient], T]) -> T:
    """What a program of this agent does, in a thread beside the broker."""
    results: list[T] = []
    errors: list[Exception] = []

    def body() -> None:
        try:
            with AgentClient(path, patience=1.0) as client:
                results.append(act(client))
        except Exception as error:  # noqa: BLE001 - raised again in the test's thread
            errors.append(error)

    path = server.socket_of(agent)
    thread = threading.Thread(target=body)
    thread.start()
    server.serve_until(lambda: not thread.is_alive())
    if errors:
        raise errors[0]
    return results[0]


def take_message(client: AgentClient) -> InboxMessage:
    message = client.recv(5)
    assert message is not None
    return message


def test_it_is_one_file_of_the_standard_library_alone(tmp_path: Path) -> None:
    tree = ast.parse(FILE.read_text())
    imports = {
        (node.module or "").partition(".")[0]
        for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)
    } | {
        alias.name.partition(".")[0]
        for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names
    }  # fmt: skip
    assert imports <= set(sys.stdlib_module_names)
    copy = tmp_path / "hive_agent.py"
    copy.write_bytes(FILE.read_bytes())
    words = [sys.executable, "-S", "-c", "import hive_agent; hive_agent.AgentClient()"]
    subprocess.run(words, cwd=tmp_path, check=True, env={"PYTHONPATH": str(tmp_path)})


def test_a_message_is_answered_in_its_conversation_and_acknowledged(
    hive: World, server: BrokerServer
) -> None:
    sent = hive.call("lead", "send", to="worker", body="hello", thread="t")

    def act(client: AgentClient) -> InboxMessage:
        message = take_message(client)
        client.reply(message, message.body.upper())
        return message

    message = run(server, "worker", act)
    assert (message.sender, message.relation, message.task) == ("lead", "parent", "")
    (reply,) = hive.mail("lead")
    assert (reply["body"], reply["reply_to"], reply["thread"]) == ("HELLO", sent["id"], "t")
    assert hive.mail("worker") == []


def test_a_message_that_was_answered_before_a_crash_is_answered_once(
    hive: World, server: BrokerServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    hive.call("lead", "send", to="worker", body="hello")

    def crash(client: AgentClient) -> None:
        message = take_message(client)
        monkeypatch.setattr(client, "ack", lambda _: None)
        client.reply(message, "one")

    run(server, "worker", crash)
    hive.advance(61)
    run(server, "worker", lambda client: client.reply(take_message(client), "another"))
    assert [row["body"] for row in hive.mail("lead")] == ["one"]
    assert hive.mail("worker") == []


def test_recv_waits_for_a_time_and_no_longer(server: BrokerServer) -> None:
    assert run(server, "worker", lambda client: client.recv(0.1)) is None


def test_notices_of_the_daemon_are_acknowledged_and_not_shown(
    hive: World, server: BrokerServer
) -> None:
    hive.grow("root/other")
    hive.call("operator", "move", agent="worker", parent="other")
    assert hive.mail("worker")
    assert run(server, "worker", lambda client: client.recv(0.1)) is None
    assert hive.mail("worker") == []
    hive.call("operator", "move", agent="worker", parent="lead")
    notice = run(server, "worker", lambda client: client.recv(1, notices=True))
    assert notice is not None
    assert notice.is_notice


def test_a_lead_spawns_assigns_and_waits_and_the_worker_reports(
    hive: World, server: BrokerServer
) -> None:
    own = str(hive.call("operator", "assign_task", agent="lead", description="count")["task"])

    def lead(client: AgentClient) -> list[str]:
        task = client.begin(take_message(client))
        assert task is not None
        assert (task.id, task.text, task.attempt, task.assigner) == (own, "count", 1, "operator")
        client.spawn("helper", ["true"], role="worker")
        client.spawn("helper", ["true"], role="worker")  # it is there already
        part = {"part_of": task.id, "title": "1"}
        return [client.assign("helper", "one two", data={"n": 1}, **part) for _ in range(2)]

    first, second = run(server, "lead", lead)
    assert first == second
    start_machines(hive, "helper")

    def worker(client: AgentClient) -> Assignment:
        task = client.begin(take_message(client))
        assert task is not None
        client.progress(task, "half", 50)
        client.report(task, "2", data={"words": 2})
        return task

    part = run(server, "helper", worker)
    assert (part.title, part.data) == ("1", {"n": 1})
    assert run(server, "lead", lambda client: client.wait([first]))[0]["summary"] == "2"
    row = hive.call("operator", "get_task", task=first)["task"]
    assert isinstance(row, dict)
    assert (row["state"], row["result"]["data"]) == ("done", {"words": 2})


def test_a_task_that_is_cancelled_ends_the_work_and_the_wait(
    hive: World, server: BrokerServer
) -> None:
    task = str(hive.call("lead", "assign_task", agent="worker", description="long")["task"])

    def begin(client: AgentClient) -> Assignment:
        begun = client.begin(take_message(client))
        assert begun is not None
        client.check(begun)
        return begun

    begun = run(server, "worker", begin)
    hive.call("lead", "cancel_task", task=task, reason="enough")
    with pytest.raises(TaskStopped):
        run(server, "worker", lambda client: client.progress(begun, "still at it"))
    with pytest.raises(TaskStopped):
        run(server, "worker", lambda client: client.wait([task], begun))
    run(server, "worker", lambda client: client.report(begun, "half of it", "stopped"))
    row = hive.call("lead", "get_task", task=task)["task"]
    assert isinstance(row, dict)
    assert (row["state"], row["result"]["summary"]) == ("cancelled", "half of it")


def test_a_stop_of_a_task_on_which_nothing_works_is_confirmed(
    hive: World, server: BrokerServer
) -> None:
    task = str(hive.call("lead", "assign_task", agent="worker", description="long")["task"])
    run(server, "worker", lambda client: client.begin(take_message(client)))
    hive.call("lead", "cancel_task", task=task)
    assert run(server, "worker", lambda client: client.recv(0.5)) is None
    row = hive.call("lead", "get_task", task=task)["task"]
    assert isinstance(row, dict)
    assert row["state"] == "cancelled"


@pytest.mark.parametrize("relation", ["parent", "sibling", "child", "self", "operator"])
def test_only_the_daemon_assigns_tasks(relation: str) -> None:
    """Any agent may send a message of the kind `task` with such a text."""
    row = {"id": "m1", "from": "x", "relation": relation, "body": "task: 1a2b\n\nx", "kind": "task"}
    assert InboxMessage.from_wire({**row, "relation": "daemon"}).task == "1a2b"
    assert InboxMessage.from_wire(row).task == ""


def test_a_reply_to_the_daemon_is_an_ack_alone(hive: World, server: BrokerServer) -> None:
    """Otherwise a trigger or a reminder would end every program that answers what it gets."""
    hive.call("worker", "remind", body="look", **{"in": 1.0})
    hive.advance(2.0)
    kinds = []

    def echo(client: AgentClient) -> None:
        message = take_message(client)
        kinds.append(message.kind)
        client.reply(message, message.body)

    run(server, "worker", echo)
    assert kinds == ["reminder"]
    assert hive.mail("worker") == []


def test_a_name_that_another_agent_has_is_no_child(hive: World, server: BrokerServer) -> None:
    def spawn(client: AgentClient) -> object:
        return client.spawn("lead", ["true"], role="worker")

    hive.grow("root/other:lead")
    with pytest.raises(CallError) as error:
        run(server, "other", spawn)
    assert error.value.name == "AlreadyExists"


def test_a_task_that_was_taken_back_is_not_begun(hive: World, server: BrokerServer) -> None:
    task = str(hive.call("lead", "assign_task", agent="worker", description="x")["task"])
    message = run(server, "worker", take_message)
    hive.call("lead", "cancel_task", task=task)
    assert run(server, "worker", lambda client: client.begin(message)) is None


def test_a_refusal_has_its_name_and_its_fields(server: BrokerServer) -> None:
    with pytest.raises(CallError) as refusal:
        run(server, "worker", lambda client: client.send("nobody", "hello"))
    assert refusal.value.name == "NotFound"
    with pytest.raises(CallError) as refusal:
        run(server, "worker", lambda client: client.call("send", to="lead", body=5))
    assert refusal.value.fields["parameter"] == "body"
    assert not refusal.value.may_retry


def test_a_restart_of_the_daemon_is_survived_and_an_absent_one_is_named(tmp_path: Path) -> None:
    with fake_broker(tmp_path / "broker.sock") as broker:
        broker.answers["Whoami"] = lambda _: {"name": "bob"}
        client = AgentClient(broker.path, patience=5.0)
        assert client.call("whoami")["name"] == "bob"
        broker.stop()
        threading.Timer(0.3, broker.start).start()
        assert client.call("whoami")["name"] == "bob"
        broker.answers["Recv"] = _no_such_agent
        with pytest.raises(CallError, match="NotFound: no such agent"):
            client.recv()
        client.close()
    with pytest.raises(CallError) as refusal, AgentClient(broker.path, patience=0.0) as absent:
        absent.call("whoami")
    assert refusal.value.name == "Unreachable"


def _no_such_agent(_: dict[str, object]) -> dict[str, object]:
    raise NotFound("no such agent")
