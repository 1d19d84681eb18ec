"""`hive queue`, `hive publish` and `hive send --wait`."""

from __future__ import annotations

import json

from cli.run import Hive

from hive_core.varlink import Message

THING: Message = {
    "id": "q1", "queue": "alice/jobs", "from": "bob", "from_uuid": "u", "kind": "job",
    "priority": 2, "put_at": 0.0, "body": "mend\x1b it", "attempt": 1,
}  # fmt: skip


def test_queues_are_listed_with_their_permissions(hive: Hive) -> None:
    row: Message = {
        "queue": "alice/jobs", "may_put": ["children"], "may_take": ["bob"], "things": 3,
        "limit": 1000, "dead": False, "mine": [],
    }  # fmt: skip
    hive.peer.answers["ListQueues"] = lambda _: {"queues": [row], "next": None}
    assert hive("queue", "list", "-o", "name").out == "alice/jobs\n"
    assert json.loads(hive("queue", "list", "-o", "json").out) == [row]
    assert "children" in hive("queue", "list").out


def test_put_prints_the_id(hive: Hive) -> None:
    hive.peer.answers["Put"] = lambda _: {"id": "q1", "priority": 2}
    assert hive("queue", "put", "alice/jobs", "mend it", "--kind", "job").out == "q1\n"
    (asked,) = hive.peer.params_of("Put")
    assert (asked["queue"], asked["body"], asked["kind"]) == ("alice/jobs", "mend it", "job")


def test_take_acknowledges_only_on_request(hive: Hive) -> None:
    hive.peer.answers["Take"] = lambda _: {"things": [THING]}
    hive.peer.answers["Ack"] = lambda _: {"acked": 1}
    assert "mend⟨U+001B⟩ it" in hive("queue", "take", "alice/jobs").out
    assert not hive.peer.params_of("Ack")
    assert hive("queue", "take", "alice/jobs", "--done", "-o", "name").out == "q1\n"
    (asked,) = hive.peer.params_of("Ack")
    assert asked["ids"] == ["q1"]


def test_close_prints_the_number_of_remaining_messages(hive: Hive) -> None:
    hive.peer.answers["CloseQueue"] = lambda _: {"left": 2}
    done = hive("queue", "close", "alice/jobs")
    assert (done.out, done.err) == ("", "closed alice/jobs with 2 items in it\n")


def test_publish_prints_the_recipients(hive: Hive) -> None:
    hive.peer.answers["Publish"] = lambda _: {"delivered": 5, "missed": 1}
    assert hive("publish", "builds", "green").err == "delivered to 5; 1 inboxes had no room\n"


def test_send_waits_for_the_answer_on_request(hive: Hive) -> None:
    hive.peer.answers["Send"] = lambda _: {"id": "1", "thread": "1", "priority": 0}
    replies: list[Message | None] = [None, {"body": "4"}]
    hive.peer.answers["WaitReply"] = lambda _: {"reply": replies.pop(0)}
    assert hive("send", "bob", "2 + 2?", "--wait", "90").out == "4\n"
    assert hive.peer.params_of("Send")[0]["reply_within"] == 90.0


def test_send_without_an_answer_in_time_exits_with_124(hive: Hive) -> None:
    hive.peer.answers["Send"] = lambda _: {"id": "1", "thread": "1", "priority": 0}
    hive.peer.answers["WaitReply"] = lambda _: {"reply": None}
    done = hive("send", "bob", "2 + 2?", "--wait", "1")
    assert done.status == 124
    assert "no answer to 1 from bob" in done.err
