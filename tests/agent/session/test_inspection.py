"""`hive-agent session log|show|rewind`: what is printed, and what is refused (row Q41)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from fixtures.fake_broker import fake_broker

from hive_core.agent.session.inspection import run_inspection
from hive_core.agent.session.log import MAIN, ConversationLog
from hive_core.agent.session.records import Record
from hive_core.errors import Busy, Conflict, InvalidArgument, NotFound
from hive_core.varlink import Message


def write_turn(log: ConversationLog, turn: int) -> None:
    """A whole turn with one call."""
    call = {"id": "c", "name": "bash", "arguments": {"command": "ls"}}
    rows: list[Record] = [
        {"t": "input", "turn": turn, "kind": "mail", "id": f"m{turn}", "text": f"do {turn}"},
        {"t": "response", "turn": turn, "inputs": 1, "sent": ["q"], "message": "a",
         "calls": [call], "text": ""},
        {"t": "call", "turn": turn, "call": "c", "name": "bash"},
        {"t": "result", "turn": turn, "call": "c", "content": "\x1b[31mnotes.txt"},
        {"t": "response", "turn": turn, "inputs": 1, "sent": ["q"], "message": "a",
         "calls": [], "text": f"done {turn}"},
        {"t": "end", "turn": turn, "status": "done"}, {"t": "closed", "turn": turn},
    ]  # fmt: skip
    for row in rows:
        log.append(row)


@pytest.fixture(name="folder")
def _folder(tmp_path: Path) -> Path:
    with ConversationLog(tmp_path, MAIN) as log:
        log.append({"t": "system", "text": "You are bob."})
        write_turn(log, 1)
        write_turn(log, 2)
    return tmp_path


def test_the_log_has_one_line_a_record_and_no_escape_of_a_tool(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_inspection(folder, ["log", "--turn", "2"])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 7
    assert "input    do 2" in lines[0]
    assert "response [bash]" in lines[1]
    assert "notes.txt" in lines[3]
    assert "\x1b" not in "".join(lines)


def test_whole_records_are_printed_as_json_lines(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_inspection(folder, ["log", "-o", "jsonl"])
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["t"] for row in rows][:3] == ["open", "system", "input"]
    assert all(isinstance(row["at"], float) for row in rows)
    assert len(rows) == 16


def test_show_prints_what_was_said_called_and_answered(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_inspection(folder, ["show", "--turn", "1"])
    text = capsys.readouterr().out
    assert "== turn 1: mail\ndo 1" in text
    assert '-> bash {"command": "ls"}' in text
    assert "== model\ndone 1" in text
    assert "do 2" not in text


def test_a_rewind_keeps_the_log_and_shortens_the_history(folder: Path) -> None:
    with ConversationLog(folder, MAIN) as log:
        assert len(log.state.history) == 8
    run_inspection(folder, ["rewind", "--turn", "1"])
    with ConversationLog(folder, MAIN) as log:
        assert len(log.state.history) == 4
        assert log.state.turns == 2
        assert log.state.seen == {"m1", "m2"}


def test_a_rewind_to_a_turn_that_a_call_has_ended_keeps_the_result(folder: Path) -> None:
    """The next request has to answer the call, as it would have without the rewind."""
    call = {"id": "f", "name": "finish_task", "arguments": {}}
    with ConversationLog(folder, MAIN) as log:
        for record in (
            {"t": "input", "turn": 3, "kind": "mail", "id": "m3", "text": "report"},
            {"t": "response", "turn": 3, "inputs": 1, "sent": ["q"], "message": "a",
             "calls": [call], "text": ""},
            {"t": "result", "turn": 3, "call": "f", "content": "reported"},
            {"t": "end", "turn": 3, "status": "done"}, {"t": "closed", "turn": 3},
        ):  # fmt: skip
            log.append(record)
        write_turn(log, 4)
    run_inspection(folder, ["rewind", "--turn", "3"])
    with ConversationLog(folder, MAIN) as log:
        (open_call,) = log.state.calls
        assert (open_call.id, (open_call.result or {}).get("content")) == ("f", "reported")
    run_inspection(folder, ["rewind", "--turn", "2"])
    with ConversationLog(folder, MAIN) as log:
        assert log.state.calls == []


def park(folder: Path, question: str) -> None:
    """As a session does whose turn waits, or begins to wait again."""
    with ConversationLog(folder, MAIN) as log:
        log.append({"t": "park", "turn": 3, "why": "no model", "question": question})


@pytest.mark.parametrize("later", ["", "q2"])
def test_a_session_may_use_the_log_while_a_rewind_waits_for_the_daemon(
    folder: Path, tmp_path: Path, later: str
) -> None:
    """It stood still until the daemon answered. A wait that it begins meanwhile stays."""
    park(folder, "q1")

    def answer(_asked: Message) -> Message:
        with ConversationLog(folder, MAIN):  # Busy where the rewind holds it
            pass
        if later:
            park(folder, later)
        return {}

    with fake_broker(tmp_path / "broker.sock") as broker:
        broker.answers |= {"ReportActivity": lambda _: {}, "CancelQuestion": answer}
        run_inspection(folder, ["rewind", "--turn", "1"], broker.path)
        (cancelled,) = broker.params_of("CancelQuestion")
    assert cancelled["question"] == "q1"
    with ConversationLog(folder, MAIN) as log:
        assert log.state.parked.get("question", "") == later


def test_a_rewind_to_an_unknown_turn_or_under_a_running_turn_is_refused(folder: Path) -> None:
    with pytest.raises(InvalidArgument, match="to turn 9"):
        run_inspection(folder, ["rewind", "--turn", "9"])
    with (
        ConversationLog(folder, MAIN),
        pytest.raises(Busy, match="cannot rewind main: its turn runs; wait until"),
    ):
        run_inspection(folder, ["rewind", "--turn", "1"])


@pytest.mark.parametrize("command", ["log", "show"])
def test_a_turn_that_does_not_exist_is_refused_with_those_that_do(
    folder: Path, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(NotFound, match="no turn 99 in conversation main: it has turns 1 to 2"):
        run_inspection(folder, [command, "--turn", "99"])
    assert capsys.readouterr().out == ""


def test_a_turn_that_works_on_a_task_is_not_rewound(folder: Path) -> None:
    with ConversationLog(folder, MAIN) as log:
        log.append({"t": "input", "turn": 3, "kind": "task", "id": "t", "text": "x", "task": "t1"})
    with pytest.raises(Conflict, match="its turn works on task t1; cancel the task first"):
        run_inspection(folder, ["rewind", "--turn", "1"])


@pytest.mark.parametrize("command", ["log", "show"])
def test_a_session_without_a_turn_has_no_conversation_and_says_so(
    tmp_path: Path, command: str
) -> None:
    with pytest.raises(NotFound, match="main: the session of this agent has had no turn"):
        run_inspection(tmp_path / "none", [command])


def test_an_unknown_conversation_is_refused_with_the_known_ones(folder: Path) -> None:
    with pytest.raises(NotFound, match="no conversation task-1; conversations: main"):
        run_inspection(folder, ["show", "--conversation", "task-1"])
