"""hive top: its tables, its screen on a real pseudo-terminal, and its keys (row H5)."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from fcntl import ioctl
from unicodedata import category

import pytest
from cli.run import Hive
from fixtures.fake_broker import FakeBroker
from hypothesis import given
from hypothesis import strategies as st

from hive_core.agent.layout import breadth
from hive_core.cli.agents.top_rows import TopLine, TopMirror, TopView, summary
from hive_core.cli.agents.top_screen import (
    Screen,
    agent_line,
    heading_line,
    short_bytes,
    short_number,
)
from hive_core.cli.agents.top_terminal import split_keys
from hive_core.cli.main import run
from hive_core.errors import NotFound
from hive_core.operations.agents.watch import AgentChanges, AgentStatusRow
from hive_core.varlink import Message

ROW: Message = {
    "uuid": "u-root", "name": "root", "parent": None, "role": "agent", "title": "", "phase": "",
    "state": "running", "activity": "idle", "since": 1_700_000_000.0, "task": "", "doing": "",
    "percent": None, "waits_on": "", "inbox": 0, "context": None, "tokens": 1_200_000,
    "cost": 4.1, "cpu": 0.03, "memory": 80 << 20, "failures": 0, "last": "",
}  # fmt: skip
HOSTILE = "\x1b]0;owned\x07\x1b[2J\u202e\r\n\t<b>\x9b31m"
# Controls, formats such as bidi marks, and separators of lines.
ACTING = {"Cc", "Cf", "Zl", "Zp"}
SGR = re.compile(r"\x1b\[[0-9;]*[mHK]|\x1b\[\?(?:1049|25)[hl]|\x1b\[2J")


def agent(name: str, parent: str | None = "root", **more: object) -> Message:
    return {**ROW, "uuid": f"u-{name}", "name": name, "parent": parent, **more}


LEAD = agent("lead", doing="fix it", percent=61, activity="running", cpu=0.5)
WORKER = agent("w-1", "lead", state="failed", last="exit 1", tokens=5)
TREE = [dict(ROW), LEAD, WORKER, agent("ann", cpu=0.9)]


def page(*rows: Message, reset: bool = False, gone: tuple[str, ...] = ()) -> Message:
    return {"reset": reset, "synced": True, "rows": list(rows), "gone": list(gone), "next": "e.1"}


def names(view: TopView, *rows: Message) -> list[object]:
    return [line.row["name"] for line in view.lines(rows)]


def test_the_rows_of_these_tests_are_those_of_hived() -> None:
    assert set(ROW) == set(AgentStatusRow.model_fields)
    assert set(page()) == set(AgentChanges.model_fields)


# The rows


def test_the_tree_is_shown_in_its_order_and_sorted_lists_are_flat() -> None:
    assert names(TopView(), *TREE) == ["root", "ann", "lead", "w-1"]
    assert [line.depth for line in TopView().lines(TREE)] == [0, 1, 1, 2]
    assert names(TopView(order="c"), *TREE)[:2] == ["ann", "lead"]
    assert names(TopView(order="s"), *TREE)[0] == "w-1"
    assert names(TopView(pattern="FIX"), *TREE) == ["lead"]


def test_the_oldest_come_first_as_on_the_web_and_those_without_an_age_last() -> None:
    rows = [agent("new", since=3.0), agent("old", since=1.0), agent("never", since=None)]
    assert names(TopView(order="a"), *rows) == ["old", "new", "never"]


def test_rows_without_the_tree_around_them_show_the_parent() -> None:
    (tree, _, _, worker), flat = TopView().lines(TREE), TopView(pattern="w-1").lines(TREE)
    assert "lead" not in agent_line(worker, 160)
    assert "w-1 in lead" in agent_line(flat[0], 160)
    assert " in " not in agent_line(tree, 160)


def test_a_folded_agent_has_the_sums_of_all_below_it() -> None:
    (root,) = TopView(folded={"root"}).lines(TREE)
    assert root.folded == 3
    assert root.row["tokens"] == 3 * 1_200_000 + 5
    assert root.note == "3 below, 2 running, 1 failed"
    assert "+ root" in agent_line(root, 160)


def test_changes_replace_rows_and_gone_agents_leave() -> None:
    mirror = TopMirror()
    mirror.take(page(*TREE, reset=True))
    mirror.take(page({**LEAD, "percent": 70}, gone=("u-ann",)))
    assert sorted(str(row["name"]) for row in mirror.rows.values()) == ["lead", "root", "w-1"]
    assert mirror.rows["u-lead"]["percent"] == 70
    mirror.take(page(dict(ROW), reset=True))
    assert len(mirror.rows) == 1
    assert summary(mirror.rows.values()) == "1 agents, 0 working, 0 waiting, 0 failed, cpu 3%"


def test_numbers_are_short() -> None:
    assert [short_number(value) for value in (0, 999, 1234, 1_234_567, None)] == [
        "0", "999", "1.2k", "1.2M", "-",
    ]  # fmt: skip
    assert [short_bytes(value) for value in (80 << 20, 1536, 7, None)] == ["80M", "1.5K", "7B", "-"]


@given(text=st.text(max_size=60), width=st.integers(20, 200))
def test_no_text_of_an_agent_acts_on_the_terminal_or_leaves_its_line(text: str, width: int) -> None:
    row = agent(text, doing=text, title=text, role=text, state=text, waits_on=text, last=text)
    line = SGR.sub("", agent_line(TopLine(row, 1), width))
    assert not ACTING & set(map(category, line))
    assert breadth(line) <= width
    assert breadth(heading_line(width)) <= width


def test_only_changed_lines_are_written() -> None:
    screen = Screen(80, 5)
    screen.draw(["one", "two", "three"])
    assert screen.draw(["one", "TWO", "three"]) == "\x1b[2;1HTWO\x1b[0m\x1b[K"
    assert screen.draw(["one", "TWO", "three"]) == ""
    assert screen.resize(80, 4) == "\x1b[2J"
    assert screen.draw(["one", "TWO", "three"]).count("\x1b[K") == 4


def test_keys_of_several_characters_are_one_key() -> None:
    assert split_keys("n\x1b[A/é\x1b") == ["n", "up", "/", "é", "\x1b"]


# The command


def test_without_a_terminal_one_table_is_printed(hive: Hive) -> None:
    hive.peer.answers["WatchAgents"] = lambda _: page(*TREE, reset=True)
    lines = hive("top").out.splitlines()
    assert lines[0].split()[:3] == ["NAME", "ROLE", "STATE"]
    assert len(lines) == 5
    assert json.loads(hive("top", "-o", "json").out)[0] == ROW
    assert hive("top", "--noted", "-o", "name").out == "w-1\n"


def test_an_answer_that_is_not_the_last_and_brings_nothing_ends_it(hive: Hive) -> None:
    """It would be asked for again at once, and for ever."""
    hive.peer.answers["WatchAgents"] = lambda _: {"rows": [], "gone": [], "next": "x.1"}
    done = hive("top", "-b", "-n", "1")
    assert done.status == 1
    assert "hived says that more follow, and sends none" in done.err
    assert len(hive.peer.params_of("WatchAgents")) == 2


def test_a_batch_asks_for_what_changed_since_the_table_before(
    hive: Hive, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hive_core.cli.agents.top.BATCH_EVERY", 0.0)
    hive.peer.answers["WatchAgents"] = lambda params: (
        page(LEAD) if params.get("after") else page(*TREE, reset=True)
    )
    done = hive("top", "-b", "-n", "2", "-o", "jsonl")
    assert len(done.out.splitlines()) == 8
    assert [param.get("after") for param in hive.peer.params_of("WatchAgents")] == [None, "e.1"]


@dataclass
class Terminal:
    """A program on a pseudo-terminal, and what it has written."""

    process: int
    descriptor: int
    written: str = ""
    cells: dict[tuple[int, int], str] = field(default_factory=dict)

    def press(self, keys: str) -> None:
        os.write(self.descriptor, keys.encode())

    def resize(self, columns: int, lines: int) -> None:
        ioctl(self.descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def until(self, pattern: str) -> str:
        """What was written up to now, once it has this pattern."""
        deadline = time.monotonic() + 60
        while not re.search(pattern, self.written):
            ready, _, _ = select.select([self.descriptor], [], [], deadline - time.monotonic())
            assert ready, self.written
            self._read()
        seen, self.written = self.written, ""
        return seen

    def exit_status(self) -> int:
        """The exit status."""
        while self._read():
            pass
        return os.waitstatus_to_exitcode(os.waitpid(self.process, 0)[1])

    def _read(self) -> bool:
        try:
            data = os.read(self.descriptor, 65536)
        except OSError:  # the program has closed its side
            return False
        self.written += data.decode(errors="replace")
        return bool(data)


@contextmanager
def terminal(peer: FakeBroker, *words: str) -> Iterator[Terminal]:
    """`hive` in a child of this process, which has everything imported."""
    process, descriptor = pty.fork()
    if process == 0:
        signal.alarm(120)
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a worker of pytest ignores it
        status = 1
        try:
            sys.stdin = open(0, closefd=False)  # noqa: SIM115 - pytest replaced them
            sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115 - as above
            status = run(["--socket", peer.path, *words])
            sys.stdout.flush()
        finally:
            os._exit(status)
    shown = Terminal(process, descriptor)
    shown.resize(100, 20)
    try:
        yield shown
    finally:
        os.close(descriptor)


@contextmanager
def top_program(peer: FakeBroker) -> Iterator[Terminal]:
    """The program `hive`, as it is installed."""
    process, descriptor = pty.fork()
    if process == 0:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # a worker of pytest ignores it
        code = "from hive_core.cli.start import main; main()"
        words = [sys.executable, "-c", code, "--socket", peer.path, "top"]
        os.execv(sys.executable, words)  # noqa: S606 - a program of ours
    shown = Terminal(process, descriptor)
    shown.resize(100, 20)
    try:
        yield shown
    finally:
        os.close(descriptor)


def test_the_screen_shows_the_tree_and_keys_act_on_it(hive: Hive) -> None:
    hostile = agent("evil", doing=HOSTILE, title=HOSTILE, last=HOSTILE, state="failed")
    hive.peer.answers["WatchAgents"] = lambda _: [page(*TREE, hostile, reset=True)]
    hive.peer.answers["Stop"] = lambda _: {"agents": ["ann"], "job": ""}
    with terminal(hive.peer, "top") as shown:
        first = shown.until("w-1")
        assert "5 agents, 1 working" in first
        assert "⟨U+001B⟩" in first
        assert not ACTING & set(map(category, SGR.sub("", first)))
        shown.press("/ann\r")
        shown.until("filter ann")
        shown.press("S")
        shown.until(r"stop ann\? \[y/N\]")
        shown.press("n")
        shown.until("filter ann")
        assert hive.peer.params_of("Stop") == []
        shown.press("Sy")
        shown.until("stop ann: requested")
        assert [param["agent"] for param in hive.peer.params_of("Stop")] == ["ann"]
        shown.press("/\x1bgf")
        shown.until("4 below")
        shown.resize(30, 6)
        os.kill(shown.process, signal.SIGWINCH)
        narrow = SGR.sub("\n", shown.until(r"\x1b\[2J.*\x1b\[6;1H"))
        assert max(map(breadth, narrow.splitlines())) <= 30
        shown.press("q")
        assert shown.exit_status() == 0
        assert "\x1b[?1049l" in shown.written


def line_of(name: str, number: int) -> str:
    """What is written where this agent comes to stand on this line of the screen."""
    return rf"\x1b\[{number};1H(?:\x1b\[7m)?{name} "


@pytest.mark.parametrize(
    ("key", "first"),
    [("s", "w-1"), ("c", "ann"), ("m", "mem"), ("t", "tok"), ("$", "dear"), ("i", "full"),
     ("a", "old")],
)  # fmt: skip
def test_each_key_sorts_on_the_terminal_and_n_brings_the_tree_back(
    hive: Hive, key: str, first: str
) -> None:
    tree = [
        *TREE, agent("mem", memory=1 << 40), agent("tok", tokens=1 << 40), agent("old", since=1.0),
        agent("dear", cost=1000.0), agent("full", inbox=99),
    ]  # fmt: skip
    hive.peer.answers["WatchAgents"] = lambda _: [page(*tree, reset=True)]
    with terminal(hive.peer, "top") as shown:
        shown.until(line_of("root", 3))
        shown.press(key)
        shown.until(line_of(f"{first} in (root|lead)", 3))
        shown.press("n")
        shown.until(line_of("root", 3))
        shown.press("q")
        assert shown.exit_status() == 0


def refuse_agent(_: Message) -> Message:
    raise NotFound("no such agent: ann")


def test_keys_show_logs_watch_and_resume_the_selected_agent(hive: Hive) -> None:
    hive.peer.answers["WatchAgents"] = lambda _: [page(*TREE, reset=True)]
    hive.peer.answers["Resume"] = lambda _: {"agents": ["ann"], "job": ""}
    line = {"seq": 1, "time": 1.0, "stream": "stdout", "text": "compiled", "truncated": False}
    hive.peer.answers["GetAgent"] = refuse_agent
    hive.peer.answers["GetLogs"] = lambda _: [{"lines": [line], "next": "1"}]
    with top_program(hive.peer) as shown:
        shown.until("w-1")
        shown.press("j")
        shown.until(r"\x1b\[4;1H\x1b\[7m")
        shown.press("l")
        shown.until(r"compiled(.|\n)*w-1")  # the log ends, and the agents are there again
        shown.press("\r")
        shown.until(r"no such agent: ann(.|\n)*w-1")
        shown.press("R")
        shown.until(r"resume ann\? \[y/N\]")
        shown.press("y")
        shown.until("resume ann: requested")
        shown.press("q")
        assert shown.exit_status() == 0
    assert [param["agent"] for param in hive.peer.params_of("GetLogs")] == ["ann"]
    assert [param["agent"] for param in hive.peer.params_of("Resume")] == ["ann"]


def test_the_first_rows_are_drawn_before_all_agents_have_come(hive: Hive) -> None:
    """The reply stops after its first page: what came is on the screen all the same."""
    part = {**page(dict(ROW), LEAD, reset=True), "synced": False}
    hive.peer.answers["WatchAgents"] = lambda _: [part]
    with terminal(hive.peer, "top") as shown:
        assert "2 agents" in shown.until("lead")
        shown.press("q")
        assert shown.exit_status() == 0


# The program


def test_the_program_shows_top_and_a_session_only_when_a_key_needs_it(hive: Hive) -> None:
    hive.peer.answers["WatchAgents"] = lambda _: [page(*TREE, reset=True)]
    hive.peer.answers["Stop"] = lambda _: {"agents": ["root"], "job": ""}
    with top_program(hive.peer) as shown:
        shown.until("w-1")
        shown.press("Sy")
        shown.until("stop root: requested")
        shown.press("q")
        assert shown.exit_status() == 0


def test_it_goes_on_after_a_restart_of_the_daemon(hive: Hive) -> None:
    """The stream breaks; the next one continues behind the last page."""
    asked: list[Message] = []

    def answer(params: Message) -> list[Message]:
        asked.append(params)
        return [page(*TREE, reset=True)] if len(asked) == 1 else [page(agent("newcomer"))]

    hive.peer.answers["WatchAgents"] = answer
    with terminal(hive.peer, "top") as shown:
        shown.until("newcomer")
        shown.press("\x04")
        assert shown.exit_status() == 0
    assert asked[1]["after"] == "e.1"


def test_other_things_take_the_terminal_and_give_it_back(hive: Hive) -> None:
    hive.peer.answers["WatchAgents"] = lambda _: [page(*TREE, reset=True)]
    hive.peer.answers["Todo"] = lambda _: {"todo": [
        {"kind": "question", "id": "q1", "agent": "ann", "since": 1.0, "text": "why?"}
    ], "more": 0}  # fmt: skip
    with terminal(hive.peer, "top") as shown:
        shown.until("w-1")
        shown.press("w")
        assert "hive question answer q1" in shown.until("Enter: back")
        shown.press("\n")
        shown.until("w-1")
        shown.press("q")
        assert shown.exit_status() == 0
