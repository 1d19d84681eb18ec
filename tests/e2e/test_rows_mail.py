"""Mail on a real host: K17-K20 through the sockets in real containers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from e2e.hivehost import HiveHost
from e2e.shared_hosts import LEAD, SharedHost

pytestmark = pytest.mark.lab

TREE: dict[str, str | None] = {
    "root": None, "lead": "root", "ann": "lead", "ben": "lead", "other": "root", "echo": "root",
    "job": "lead",
}  # fmt: skip


@pytest.fixture(scope="module")
def host(shared_host: SharedHost) -> HiveHost:
    made = shared_host.prepare("mail", agents=LEAD)
    echo = ["hive-agent", "serve", "--", "sh", "-c", "read -r x; echo heard $x"]
    made.grow(other={"role": "lead"}, echo={"command": echo})
    made.grow(ann={"parent": "lead"}, ben={"parent": "lead"},
              job={"parent": "lead", "role": "task"})  # fmt: skip
    return made


@pytest.fixture(autouse=True)
def empty(host: HiveHost) -> Iterator[None]:
    """All inboxes are empty."""
    yield
    for name in TREE:
        if name != "echo":
            host.mail(name)


def bodies(messages: list[dict[str, Any]]) -> list[str]:
    return [str(message["body"]) for message in messages]


def test_mail_expires_and_urgency_needs_the_right_to_it(host: HiveHost) -> None:
    """K17, K18."""
    got = {
        "child": host.ask("ann", "Send", to="lead", body="child", priority=0)["priority"],
        "sibling": host.ask("ann", "Send", to="ben", body="sibling", priority=0)["priority"],
        "parent": host.ask("lead", "Send", to="ann", body="parent", priority=0)["priority"],
        "operator": host.call("Send", to="ann", body="operator", priority=0)["priority"],
        "low": host.ask("ann", "Send", to="ann", body="low", priority=3)["priority"],
    }
    assert got == {"child": 2, "sibling": 2, "parent": 1, "operator": 0, "low": 3}
    assert bodies(host.mail("ann")) == ["operator", "parent", "low"]


def test_a_parent_gets_copies_of_messages_between_its_children(host: HiveHost) -> None:
    """K18."""
    sent = host.ask("ann", "Send", to="ben", body="between us")
    (copy,) = host.mail("lead")
    head, _, body = copy["body"].partition("\n")
    assert (json.loads(head)["copy"], json.loads(head)["to"], body) == (
        sent["id"], "ben", "between us",
    )  # fmt: skip
    assert (copy["kind"], copy["priority"], copy["from"]) == ("copy", 3, "ann")
    assert host.mail("root") == []


def test_a_task_agent_writes_only_to_its_parent(host: HiveHost) -> None:
    """K18: also by queues, topics and pipes."""
    host.ask("lead", "OpenQueue", name="in")
    host.ask("ann", "OpenQueue", name="in", may_put=["siblings"])
    host.ask("ben", "FollowTopic", topic="news")
    assert host.ask("job", "Send", to="ben", body="x").error == "NotAllowed"
    assert host.ask("job", "Put", queue="ann/in", body="x").error == "NotFound"
    assert host.ask("ben", "Put", queue="ann/in", body="x").error == ""
    assert host.ask("job", "OpenQueue", name="own").error == "NotAllowed"
    assert host.ask("job", "Put", queue="lead/in", body="x").error == ""
    assert host.ask("job", "Publish", topic="news", body="x")["delivered"] == 0
    assert host.ask("job", "OpenPipe", agent="ben").error == "NotAllowed"
    for owner in ("lead", "ann"):
        host.ask(owner, "CloseQueue", queue="in")


def test_a_request_and_its_answer_share_a_correlation_id(host: HiveHost) -> None:
    """K19: also for who never heard of it, such as a command behind `serve`."""
    sent = host.ask("lead", "Send", to="echo", body="hello", reply_within=60)
    reply = host.ask("lead", "WaitReply", id=sent["id"], wait=30)["reply"]
    assert (reply["body"], reply["from"]) == ("heard hello", "echo")
    assert (reply["thread"], reply["reply_to"]) == (sent["thread"], sent["id"])
    assert host.mail("lead") == []
    assert host.inside("lead", "hive-agent", "exchange", "echo", "again", "-o", "text") == (
        "heard again\n"
    )
    assert host.hive("send", "echo", "from outside", "--wait", "30") == "heard from outside\n"


def test_a_late_answer_arrives_as_mail(host: HiveHost) -> None:
    """K19."""
    sent = host.ask("lead", "Send", to="ann", body="?", reply_within=1)
    assert host.ask("lead", "WaitReply", id=sent["id"], wait=1.2)["reply"] is None
    host.ask("ann", "Send", to="lead", body="!", reply_to=sent["id"])
    (late,) = host.mail("lead")
    assert (late["body"], late["thread"]) == ("!", sent["thread"])


def test_a_queue_is_shared_by_the_agents_that_its_owner_permits(host: HiveHost) -> None:
    """K20: kinds apart, leases, a restart of the daemon; other agents do not see it."""
    assert host.ask("lead", "OpenQueue", name="jobs")["queue"] == "lead/jobs"
    host.ask("ann", "Put", queue="lead/jobs", body="paint", kind="wall")
    host.ask("ann", "Put", queue="lead/jobs", body="glaze", kind="window")
    assert host.ask("other", "Take", queue="lead/jobs").error == "NotFound"
    (window,) = host.ask("ben", "Take", queue="lead/jobs", kind="window")["things"]
    assert (window["body"], window["from"]) == ("glaze", "ann")
    assert host.ask("ben", "Take", queue="lead/jobs", kind="window")["things"] == []
    host.kill()
    assert host.ask("ben", "Ack", ids=[window["id"]])["acked"] == 1
    (wall,) = host.ask("ben", "Take", queue="lead/jobs", wait=10, lease=1)["things"]
    (again,) = host.ask("ann", "Take", queue="lead/jobs", wait=40)["things"]
    assert (wall["id"], again["attempt"]) == (again["id"], 2)
    assert host.json("queue", "list")[0]["queue"] == "lead/jobs"
    assert host.ask("lead", "CloseQueue", queue="jobs")["left"] == 1
    host.until(lambda: host.mail("ann"), "who put it there is told")


def test_a_topic_reaches_subscribed_descendants_and_a_broadcast_reaches_all(host: HiveHost) -> None:
    """K20."""
    for name in ("ann", "ben", "other"):
        host.ask(name, "FollowTopic", topic="builds")
    assert host.ask("lead", "Publish", topic="builds", body="green")["delivered"] == 2
    assert [host.mail(name)[0]["kind"] for name in ("ann", "ben")] == ["topic", "topic"]
    assert host.mail("other") == []
    host.hive("cap", "grant", "lead", "broadcast")
    assert host.ask("lead", "Publish", topic="builds", body="red")["delivered"] == 3
    assert host.mail("other")[0]["body"] == '{"topic": "builds"}\nred'
    host.hive("publish", "builds", "all of you")


def test_a_pipe_holds_64_chunks_and_makes_its_writer_wait(host: HiveHost) -> None:
    """K20."""
    pipe = host.ask("lead", "OpenPipe", agent="ann")["pipe"]
    assert json.loads(host.mail("ann")[0]["body"].splitlines()[0]) == {"pipe": pipe}
    for number in range(64):
        assert host.ask("lead", "WritePipe", pipe=pipe, data=str(number))["seq"] == number + 1
    assert host.ask("lead", "WritePipe", pipe=pipe, data="x").error == "LimitReached"
    assert host.ask("ben", "ReadPipe", pipe=pipe).error == "NotFound"
    chunks = host.ask("ann", "ReadPipe", pipe=pipe)["chunks"]
    assert [chunk["data"] for chunk in chunks] == [str(number) for number in range(64)]
    host.ask("ann", "ReadPipe", pipe=pipe, up_to=64)
    assert host.ask("lead", "WritePipe", pipe=pipe, data="x", wait=40)["seq"] == 65
    host.call("Destroy", agent="ann", wait=20)
    host.close_connections("ann")
    assert host.ask("lead", "ListPipes")["pipes"] == []
    host.grow(ann={"parent": "lead"})
    assert host.ask("ann", "ReadPipe", pipe=pipe).error == "NotFound"
