"""`hive turn`, and the live text in `hive chat` and `hive logs -f`."""

from __future__ import annotations

import io
import threading

import pytest
from cli.run import Hive

from hive_core.cli.work.live_text import LiveLines
from hive_core.varlink import Message


def part(text: str, at: int = 0, *, ended: bool = False, turn: int = 1) -> Message:
    return {"conversation": "main", "turn": turn, "at": at, "text": text, "ended": ended}


def row(number: int, **fields: object) -> Message:
    return {
        "number": number, "conversation": "main", "turn": number, "status": "done", "task": "",
        "began": None, "ended": 1_700_000_000.0, "system": "", "input": "", "text": "", "error": "",
        "cut": False, **fields,
    }  # fmt: skip


def test_lines_are_whole_and_the_end_completes_the_last_one() -> None:
    live = LiveLines()
    assert list(live.lines(part("one\ntw"))) == ["one"]
    assert list(live.lines(part("o\nthree", 6))) == ["two"]
    assert list(live.lines(part("", 13, ended=True))) == ["three"]
    assert list(live.lines(part("again"))) == []


def test_a_line_without_an_end_comes_in_pieces_at_its_blanks() -> None:
    (first,) = LiveLines().lines(part("word " * 60))
    assert 150 < len(first) <= 200
    assert first.split() == ["word"] * len(first.split())


def test_text_that_is_no_longer_kept_shows_as_a_gap() -> None:
    assert list(LiveLines().lines(part("the rest\n", 5000))) == ["[...] the rest"]


def test_turns_are_listed_and_shown(hive: Hive) -> None:
    rows = [
        row(2, text="done it"),
        row(1, text="a\x1b[31m", system="You are alice.", input="do it"),
    ]
    hive.peer.answers["ListTurns"] = lambda _: {"turns": rows, "next": None}
    listed = hive("turn", "list", "alice").out
    assert "NUMBER" in listed
    assert "done it" in listed
    assert hive("turns", "alice", "-o", "name").out == "2\n1\n"
    shown = hive("turn", "show", "alice", "1").out
    assert "You are alice." in shown
    assert "do it" in shown
    assert "\x1b" not in shown
    assert "done it" in hive("turn", "show", "alice").out
    missing = hive("turn", "show", "alice", "9")
    assert (missing.status, missing.err) == (
        4, "hive: no turn 9 of alice; `hive turn list alice` lists them\n",
    )  # fmt: skip


def test_chat_shows_text_as_it_is_written_and_an_equal_answer_once(
    hive: Hive, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("hello\n"))
    written = threading.Event()
    hive.peer.answers["Send"] = lambda _: {"id": "m1"}
    hive.peer.answers["Ack"] = lambda _: {"acked": 1}

    def watch(params: Message) -> list[Message]:
        if params.get("after"):  # a stream that broke goes on where it was
            return []
        hive.peer.wait_for("Send")
        pages = (part("I am "), part("well", 5), part("", 9, ended=True))
        written.set()
        return [{"parts": [one], "next": str(at)} for at, one in enumerate(pages)]

    def answer(_: Message) -> Message:
        hive.peer.wait_for("WatchTurn", 2)  # the first stream has been read to its end
        letter = {"id": "r", "from": "alice", "body": "I am well", "reply_to": "m1"}
        return {"messages": [letter], "next": None}

    hive.peer.answers["WatchTurn"] = watch
    hive.peer.answers["ListMessages"] = answer
    done = hive("chat", "alice", "--live")
    assert written.is_set()
    assert done.status == 0
    assert done.out.count("I am well") == 1
    assert done.out.startswith("alice~ I am well\n")


def test_logs_with_follow_have_the_lines_of_turns(hive: Hive) -> None:
    def read_log(_: Message) -> list[Message]:
        hive.peer.wait_for("WatchTurn", 1)
        line = {"time": 1.0, "unit": "u", "text": "started"}
        return [{"lines": [line], "next": "c"}]

    seen = threading.Event()

    def watch(_: Message) -> list[Message]:
        seen.set()
        return [{"parts": [part("thinking\n")], "next": "1"}]

    hive.peer.answers["GetLogs"] = read_log
    hive.peer.answers["WatchTurn"] = watch
    out = hive("logs", "-f", "alice").out
    assert "started" in out
    assert seen.is_set()
