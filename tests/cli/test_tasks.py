"""hive task: the calls that it makes, and its output."""

from __future__ import annotations

import json

import pytest
from cli.run import Hive
from each import for_each

from hive_core.cli.config.approval_page import BAR
from hive_core.errors import NotFound
from hive_core.varlink import Message

ID, PART = "0123456789ab", "ba9876543210"
RESULT: Message = {
    "worker": "bob", "worker_id": "u", "status": "partial", "summary": "half\nof it",
    "data": {"n": 1}, "error": "", "artifacts": ["a1"], "duration": 2.5, "tokens": 7, "cost": None,
    "attempts": 1,
}  # fmt: skip
ROW: Message = {
    "id": ID, "agent": "alice", "agent_uuid": "u", "assigner": "operator",
    "assigner_uuid": "operator", "title": "Sum", "state": "in_progress", "why": "", "priority": 2,
    "attempt": 1, "part_of": "", "waits_for": [], "percent": 40, "progress": "reading\u202e",
    "created": 1.0, "started": 2.0, "deadline": None, "ended": None, "plan": "", "result": None,
    "open": 1,
}  # fmt: skip
LOWER: Message = {**ROW, "id": PART, "agent": "bob", "part_of": ID, "percent": None, "progress": ""}
ENDED: Message = {**ROW, "id": "e" * 12, "state": "done", "result": RESULT, "ended": 9.0}
SHOWN: Message = {
    "task": ENDED, "description": "Add\nall\u202e", "data": {"n": 3}, "artifacts": [],
    "history": [{"seq": 1, "time": 1.0, "event": "assign", "state": "queued", "by": "operator",
                 "why": ""}],
}  # fmt: skip


def test_open_tasks_are_listed(hive: Hive) -> None:
    hive.peer.answers["ListTasks"] = lambda _: {"tasks": [ROW, LOWER], "next": None}
    for line in (("task",), ("task", "list")):
        done = hive(*line)
        assert done.status == 0
        assert all(text in done.out for text in (ID, PART, "in progress", "40 % reading⟨U+202E⟩"))
    assert hive.peer.params_of("ListTasks")[-1] == {"open": True}
    hive("task", "list", "alice", "--all")
    assert hive.peer.params_of("ListTasks")[-1] == {"agent": "alice"}
    assert json.loads(hive("task", "list", "-o", "json").out) == [ROW, LOWER]
    assert hive("task", "list", "-o", "name").out.split() == [ID, PART]


def test_the_board_shows_subtasks_below_their_task(hive: Hive) -> None:
    hive.peer.answers["ListTasks"] = lambda _: {"tasks": [ENDED, LOWER, ROW], "next": None}
    lines = hive("task", "board", "--all").out.splitlines()
    assert lines == [
        "in progress (2)", f"  {ID}  alice  Sum  40 % reading⟨U+202E⟩", f"    {PART}  bob  Sum",
        "done (1)", f"  {'e' * 12}  alice  Sum  partial: half⏎of it",
    ]  # fmt: skip
    hive.peer.answers["ListTasks"] = lambda _: {"tasks": [], "next": None}
    assert "no tasks" in hive("task", "board").err


def test_the_task_page_is_shown(hive: Hive) -> None:
    hive.peer.answers["GetTask"] = lambda _: SHOWN
    done = hive("task", "show", ID)
    assert done.status == 0
    for text in ("state      done", "given by   operator", f"{BAR}Add", f"{BAR}all⟨U+202E⟩",
                 "result     partial, 2.5s", f"{BAR}half", "assign -> queued  by operator",
                 "artifacts  a1"):  # fmt: skip
        assert text in done.out, text
    assert json.loads(hive("task", "show", ID, "-o", "json").out) == SHOWN
    assert hive("task", "show", ID, "-o", "name").out == f"{ID}\n"


@pytest.mark.parametrize(("why", "lines"), [("half", 0), ("deadline", 1)])
def test_a_reason_that_is_the_summary_is_shown_once(hive: Hive, why: str, lines: int) -> None:
    row = {**ROW, "why": why, "result": {"status": "partial", "summary": "half"}}
    hive.peer.answers["GetTask"] = lambda _: {**SHOWN, "task": row}
    out = hive("task", "show", ID).out
    assert out.count("\nwhy ") == lines


def test_assign_creates_a_task(hive: Hive) -> None:
    hive.peer.answers["AssignTask"] = lambda _: {"task": ID, "agent": "bob", "state": "queued"}
    done = hive(
        "task", "assign", "bob", "Add", "--data", '{"n": 3}', "--needs", PART, "--requeue", "2",
        "--deadline", "60", "--plan", "--priority", "0", "--title", "Sum", "--context", "keep",
    )  # fmt: skip
    assert (done.status, done.out) == (0, f"{ID}\n")
    result = dict(hive.peer.params_of("AssignTask")[0])
    assert result.pop("idempotency_key")
    assert result == {
        "agent": "bob", "description": "Add", "data": {"n": 3}, "needs": [PART], "requeue": 2,
        "deadline": 60.0, "plan_required": True, "priority": 0, "title": "Sum", "context": "keep",
    }  # fmt: skip


@for_each("wait, style, out", [
    ([], "name", f"{ID}\n"), (["--wait"], "name", f"{'e' * 12}\n"),
    ([], "jsonl", {"task": ID, "agent": "bob", "state": "queued"}), (["--wait"], "jsonl", ENDED),
    ([], "json", {"task": ID, "agent": "bob", "state": "queued"}), (["--wait"], "json", ENDED),
])  # fmt: skip
def test_assign_prints_the_task_for_programs(
    hive: Hive, wait: list[str], style: str, out: object
) -> None:
    hive.peer.answers["AssignTask"] = lambda _: {"task": ID, "agent": "bob", "state": "queued"}
    hive.peer.answers["WatchTask"] = lambda _: [{"state": "done"}]
    hive.peer.answers["GetTask"] = lambda _: {**SHOWN, "task": ENDED}
    hive.peer.answers["ClearInbox"] = lambda _: {"cleared": 1}
    done = hive("task", "assign", "bob", "Add", "-o", style, *wait)
    assert (done.out if style == "name" else json.loads(done.out)) == out


@pytest.mark.parametrize("data", ["{", "[1]"])
def test_data_must_be_an_object(hive: Hive, data: str) -> None:
    assert hive("task", "assign", "bob", "Add", "--data", data).status == 2
    assert not hive.peer.params_of("AssignTask")


@pytest.mark.parametrize(("how", "status"), [("partial", 0), ("failed", 1), ("stopped", 1)])
def test_with_wait_the_result_is_printed(hive: Hive, how: str, status: int) -> None:
    row = {**ENDED, "result": {**RESULT, "status": how}}
    hive.peer.answers["AssignTask"] = lambda _: {"task": ID, "agent": "bob", "state": "queued"}
    hive.peer.answers["WatchTask"] = lambda _: [{"state": "queued"}, {"state": "done"}]
    hive.peer.answers["GetTask"] = lambda _: {**SHOWN, "task": row}
    hive.peer.answers["ClearInbox"] = lambda _: {"cleared": 1}
    done = hive("task", "assign", "bob", "Add", "--wait")
    assert (done.status, done.out) == (status, "half\nof it\n")
    assert [asked["tasks"] for asked in hive.peer.params_of("ClearInbox")] == [[ID]]
    assert f"task {ID}: {how}" in done.err


@pytest.mark.parametrize("wait", [[], ["--wait"]])
def test_assign_warns_when_the_agent_cannot_begin(hive: Hive, wait: list[str]) -> None:
    """Nobody waits in silence for one that is stopped."""
    hint = "bob is stopped: it gets the task when it is started"
    result: dict[str, object] = {"task": ID, "agent": "bob", "state": "queued", "hint": hint}
    hive.peer.answers["AssignTask"] = lambda _: result
    hive.peer.answers["WatchTask"] = lambda _: [{"state": "done"}]
    hive.peer.answers["GetTask"] = lambda _: {**SHOWN, "hint": hint}
    done = hive("task", "assign", "bob", "Add", *wait)
    assert done.err.startswith(f"bob: queued; {hint}\n")
    assert f"not begun  {hint}\n" in hive("task", "show", ID).out


def test_cancel_lists_the_affected_tasks(hive: Hive) -> None:
    hit = [{"task": ID, "agent": "alice", "state": "stopping"},
           {"task": PART, "agent": "bob", "state": "cancelled"}]  # fmt: skip
    hive.peer.answers["CancelTask"] = lambda _: {"task": ID, "state": "stopping", "hit": hit}
    done = hive("task", "cancel", ID, "--why", "no need")
    assert done.status == 0
    assert f"{ID} of alice: stopping" in done.err
    assert f"{PART} of bob: cancelled" in done.err
    assert hive.peer.params_of("CancelTask")[0]["reason"] == "no need"


def test_task_options_take_readable_values(hive: Hive) -> None:
    row = {"kind": "money", "left": 1_500_000, "spent": 250_000, "owed": 0}
    hive.peer.answers["FundTask"] = lambda _: {"task": ID, "giver": "alice", "budget": [row]}
    done = hive("task", "top-up", ID, "money", "1.25")
    assert done.out == f"task {ID} has 1.50 money left, 0.25 spent\n"
    hive("task", "top-up", ID, "tokens", "70")
    first, second = hive.peer.params_of("FundTask")
    assert (first["cost"], second["tokens"]) == (1_250_000, 70)
    assert "tokens" not in first


def test_an_unknown_task_is_an_error(hive: Hive) -> None:
    def nothing(_: Message) -> Message:
        raise NotFound(f"no task {ID}")

    hive.peer.answers["GetTask"] = nothing
    done = hive("task", "show", ID)
    assert (done.status, done.err) == (4, f"hive: no task {ID}\n")
