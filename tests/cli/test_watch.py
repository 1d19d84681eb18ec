"""hive watch: turns, mail, events and logs of one agent as they come, over restarts of hived."""

from __future__ import annotations

import json
import re
from unicodedata import category

from cli.run import Hive

from hive_core.errors import NotFound
from hive_core.varlink import Message

UUID = "u-ann"
EVENT: Message = {
    "seq": 7, "time": 1.0, "kind": "task", "caller": "lead", "caller_uuid": "u-lead",
    "operation": "begin", "target": "ann", "target_uuid": UUID, "allowed": None, "rule": "",
    "reason": "", "commit": "", "request": "", "digest": "", "fields": {"task": "t1"},
}  # fmt: skip
END = {**EVENT, "seq": 9, "operation": "destroy", "fields": {}}
LETTER: Message = {"id": "0000000000001", "from": "lead", "sent_at": 2.0, "body": "go\x1b[2J on"}


def answers(hive: Hive, *pages: list[Message]) -> None:
    """Events page by page, each in a stream of its own, as of a daemon that restarts."""
    left = list(pages)

    def events(_: Message) -> list[Message]:
        rows = left.pop(0) if left else []
        return [{"events": [*rows], "gap": None, "next": str(rows[-1]["seq"]) if rows else "0"}]

    def mail(params: Message) -> list[Message] | Message:
        return {"messages": [] if params.get("after") else [LETTER], "next": LETTER["id"]}

    said: list[Message] = [
        {"conversation": "main", "turn": 3, "at": 0, "text": "I look.\n", "ended": False}
    ]
    hive.peer.answers |= {
        "GetAgent": lambda _: {"uuid": UUID},
        "ListEvents": events,
        "ListMessages": lambda params: {"messages": [], "next": None} if "after" not in params
        and not hive.peer.params_of("WatchTurn") else mail(params),
        "WatchTurn": lambda _: [{"parts": said, "next": "1"}],
        "GetLogs": lambda _: [{"lines": [{"time": 3.0, "unit": "x", "text": "out"}], "next": "c"}],
    }  # fmt: skip


def test_events_go_on_after_a_restart_and_end_with_the_agent(hive: Hive) -> None:
    answers(hive, [EVENT], [END])
    done = hive("watch", "ann")
    assert done.status != 0
    assert "ann was destroyed" in done.err
    assert "task lead begin ann (task=t1)" in done.out
    assert "destroy" in done.out
    first, second = hive.peer.params_of("ListEvents")[:2]
    assert (first["agents"], first["last"]) == ([UUID], 0)
    assert (second["after"], "last" in second) == ("7", False)


def test_each_line_of_json_names_its_stream_and_no_text_acts_on_the_terminal(hive: Hive) -> None:
    answers(hive, [{**EVENT, "reason": "\x1b]0;x\x07"}], [END])
    for style in ("jsonl", "table"):
        answers(hive, [{**EVENT, "reason": "\x1b]0;x\x07"}], [END])
        out = hive("watch", "ann", "--logs", "-o", style).out
        plain_lines = re.sub(r"\x1b\[[0-9;]*m", "", out).splitlines()
        assert plain_lines
        assert not {"Cc", "Cf"} & set(map(category, "".join(plain_lines)))
        if style == "jsonl":
            assert {json.loads(line)["stream"] for line in plain_lines} <= {
                "event", "turn", "mail", "log",
            }  # fmt: skip


def test_an_unknown_agent_is_refused_at_once(hive: Hive) -> None:
    def unknown(_: Message) -> Message:
        raise NotFound("no such agent: nobody")

    hive.peer.answers["GetAgent"] = unknown
    assert hive("watch", "nobody").status != 0
    assert hive.peer.params_of("ListEvents") == []
