"""Problems that a new user met in the first hours, each with the right behaviour."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
from cli.run import Hive
from cli.test_approvals import ROW as APPROVAL
from cli.test_tasks import ENDED, ID, RESULT, SHOWN
from fixtures.fake_broker import fake_broker
from typing_extensions import override

from hive_core.agent import exchange, layout
from hive_core.cli import main
from hive_core.cli.core.output import echo, fold_table, say
from hive_core.cli.core.progress import working
from hive_core.cli.host import doctor
from hive_core.errors import Conflict
from hive_core.varlink import Message

PACKAGE = str(Path(main.__file__).parents[1])
CHECKOUT = str(Path(main.__file__).parents[2])
# A process that a shell put into the background ignores SIGINT, and so do its children.
MAIN = (
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    "from hive_core.cli.main import main; main()"
)
DEAD_LETTER: Message = {
    "id": "m2", "from": "daemon", "relation": "daemon", "kind": "dead_letter", "reply_to": "m1",
    "body": "Not delivered:\nm1 to bob: given up after 5 attempts",
}  # fmt: skip


# hive send --wait


def test_a_delivery_failure_is_no_answer(hive: Hive) -> None:
    hive.peer.answers["Send"] = lambda _: {"id": "m1"}
    hive.peer.answers["WaitReply"] = lambda _: {"reply": DEAD_LETTER}
    done = hive("send", "bob", "hi", "--wait", "20")
    assert (done.status, done.out) == (1, "")
    assert "Not delivered" in done.err
    assert "given up after 5 attempts" in done.err


def test_an_agent_gets_the_same_delivery_failure(hive: Hive) -> None:
    hive.peer.answers["Send"] = lambda _: {"id": "m1"}
    hive.peer.answers["WaitReply"] = lambda _: {"reply": DEAD_LETTER}
    with pytest.raises(Conflict, match="Not delivered"):
        exchange.run_exchange(hive.peer.path, ["bob", "hi"])


def test_agent_text_that_says_not_delivered_is_an_answer(hive: Hive) -> None:
    """A child's words about a dead letter are an answer: only the daemon's word counts."""
    hive.peer.answers["Send"] = lambda _: {"id": "m1"}
    hive.peer.answers["WaitReply"] = lambda _: {"reply": {**DEAD_LETTER, "relation": "child"}}
    assert hive("send", "bob", "hi", "--wait", "20").status == 0


# hive chat


@pytest.mark.parametrize("state", ["stopped", "parked", "failed"])
def test_chat_refuses_a_stopped_agent(
    hive: Hive, monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("hi\n"))
    hive.peer.answers["ListAgents"] = lambda _: {"agents": [{"name": "foo", "state": state}]}
    done = hive("chat", "foo")
    assert (done.status, done.out) == (3, "")
    assert f"cannot chat with foo: it is {state}" in done.err
    assert "hive start foo" in done.err
    assert not hive.peer.params_of("Send")


@pytest.mark.parametrize(
    ("state", "wakes", "start"),
    [("sleeping", False, "`hive start foo` starts it"), ("sleeping", True, "a message wakes it"),
     ("stopping", False, "`hive start foo` starts it"),
     ("starting", False, "`hive todo` says what keeps it from starting, if anything does")],
)  # fmt: skip
def test_chat_says_at_once_what_starts_an_agent_that_does_not_run_and_sends(
    hive: Hive,
    monkeypatch: pytest.MonkeyPatch,
    state: str,
    wakes: bool,  # noqa: FBT001 - of parametrize
    start: str,
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("hi\n"))
    hive.peer.answers["ListAgents"] = lambda _: {"agents": [{"name": "foo", "state": state}]}
    hive.peer.answers["GetAgent"] = lambda _: {"name": "foo", "wakes": wakes}
    hive.peer.answers["Send"] = lambda _: {"id": "m1"}
    hive.peer.answers["ListMessages"] = lambda _: {"messages": [], "next": None}
    done = hive("chat", "foo", "--wait", "0.05")
    assert done.err.splitlines()[0] == (
        f"foo does not run: it is {state}; {start}. It reads your messages when it runs"
    )
    assert hive.peer.params_of("Send")


def test_a_chat_without_an_answer_says_so(hive: Hive, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("hi\n"))
    hive.peer.answers["ListAgents"] = lambda _: {"agents": [{"name": "foo", "state": "running"}]}
    hive.peer.answers["Send"] = lambda _: {"id": "m1"}
    hive.peer.answers["ListMessages"] = lambda _: {"messages": [], "next": None}
    done = hive("chat", "foo", "--wait", "0.05")
    assert (done.status, done.err) == (
        124, "hive: no answer from foo within 0.05s; it is running\n",
    )  # fmt: skip


# hive task assign --wait


def test_data_without_a_summary_is_printed_as_the_result(hive: Hive) -> None:
    row = {**ENDED, "result": {**RESULT, "status": "success", "summary": "", "data": {"n": 1}}}
    hive.peer.answers["AssignTask"] = lambda _: {"task": ID, "agent": "bob", "state": "queued"}
    hive.peer.answers["WatchTask"] = lambda _: [{"state": "done"}]
    hive.peer.answers["GetTask"] = lambda _: {**SHOWN, "task": row}
    hive.peer.answers["ClearInbox"] = lambda _: {"cleared": 0}
    done = hive("task", "assign", "bob", "Add", "--wait")
    assert (done.status, done.out) == (0, '{"n": 1}\n')
    hive.peer.answers["ListTasks"] = lambda _: {"tasks": [row], "next": None}
    assert 'success: {"n": 1}' in hive("task", "list", "--all").out


def test_a_wait_for_a_task_shows_its_data(hive: Hive) -> None:
    end = {"task": ID, "state": "done", "status": "success", "summary": ""}
    row = {**ENDED, "result": {**RESULT, "summary": "", "data": {"n": 1}}}
    hive.peer.answers["WaitTasks"] = lambda _: {"done": True, "tasks": [end]}
    hive.peer.answers["GetTask"] = lambda _: {**SHOWN, "task": row}
    assert hive("wait", "--for", f"task.done={ID}").out == f'{ID} success {{"n": 1}}\n'


def test_ctrl_c_prints_the_task_id_and_the_command_to_continue(tmp_path: Path) -> None:
    """The real command, as a shell starts it; the daemon never says that the task has ended."""
    blocked = threading.Event()

    def never(_: Message) -> list[Message]:
        blocked.wait(60)
        return []

    with fake_broker(tmp_path / "operator.sock") as made:
        made.answers["AssignTask"] = lambda _: {"task": ID, "agent": "bob", "state": "in_progress"}
        made.answers["WatchTask"] = never
        process = subprocess.Popen(
            [sys.executable, "-c", MAIN,
             "--socket", made.path, "task", "assign", "bob", "Add", "--wait"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=CHECKOUT,
        )  # fmt: skip
        made.wait_for("WatchTask")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        blocked.set()
    assert (process.returncode, out) == (130, "")
    first, second, *_ = err.splitlines()
    assert first == f"task {ID} of bob"
    assert second == f"the task continues: `hive wait --for task.done={ID}`, `hive task show {ID}`"


def test_the_mail_about_a_result_stays_where_the_result_could_not_be_printed(
    tmp_path: Path,
) -> None:
    """The real command; the reader of its output is gone."""
    ours, theirs = os.pipe()
    os.close(ours)
    row = {**ENDED, "result": {**RESULT, "status": "success"}}
    with fake_broker(tmp_path / "operator.sock") as made:
        made.answers["AssignTask"] = lambda _: {"task": ID, "agent": "bob", "state": "in_progress"}
        made.answers["WatchTask"] = lambda _: [{"state": "done"}]
        made.answers["GetTask"] = lambda _: {**SHOWN, "task": row}
        made.answers["ClearInbox"] = lambda _: {"cleared": 1}
        words = ["--socket", made.path, "task", "assign", "bob", "Add", "--wait"]
        command = [sys.executable, "-c", MAIN, *words]
        with os.fdopen(theirs, "wb") as gone:
            done = subprocess.run(command, stdout=gone, stderr=subprocess.PIPE, cwd=CHECKOUT,
                                  check=False)  # fmt: skip
        assert done.returncode != 0, done
        assert made.params_of("GetTask")
        assert made.params_of("ClearInbox") == []
        assert subprocess.run(command, stdout=subprocess.PIPE, cwd=CHECKOUT, check=False).stdout
        assert [asked["tasks"] for asked in made.params_of("ClearInbox")] == [[ID]]


# The spinner


class Terminal(io.StringIO):
    """What a terminal is given; both streams of a command end in it."""

    @override
    def isatty(self) -> bool:
        return True

    def until(self, text: str) -> None:
        pause = threading.Event()
        while text not in self.getvalue():
            pause.wait(0.01)


def lines(text: str) -> list[str]:
    """What can be read in the end: a line begins anew at a carriage return that clears it."""
    return [line.rsplit("\r\x1b[K", 1)[-1] for line in text.split("\n")]


@pytest.mark.parametrize("print_", [echo, say])
def test_the_spinner_is_erased_before_other_output(
    print_: Callable[[str], None],
) -> None:
    terminal = Terminal()
    both = redirect_stdout(terminal), redirect_stderr(terminal)
    with both[0], both[1], working("working", after=0.0):
        terminal.until("working")
        print_("a result")
    assert lines(terminal.getvalue()) == ["a result", ""]


def test_the_spinner_says_in_a_sentence_who_is_put_to_sleep(hive: Hive) -> None:
    terminal = Terminal()

    def end(_: Message) -> Message:
        terminal.until("alice")
        return {"id": "j1", "operation": "", "state": "done", "error": ""}

    hive.peer.answers |= {"Sleep": lambda _: {"agents": ["alice"], "job": "j1"}, "WaitJob": end}
    with redirect_stderr(terminal):
        assert hive("sleep", "alice").status == 0
    assert "putting alice to sleep" in terminal.getvalue()


# hive doctor, hive approvals


def test_doctor_never_cuts_its_advice() -> None:
    detail = " ".join(f"word{number}" for number in range(60)) + "; `journalctl -u hived` says why"
    row = {"check": "hived", "verdict": "fail", "detail": detail}
    lines_ = list(fold_table([row], doctor.FINDINGS.columns, 80))
    shown = " ".join(lines_)
    assert doctor.FINDINGS.fold
    assert "…" not in shown
    assert shown.endswith("why")
    assert max(map(len, lines_)) <= 80
    assert "…" in " ".join(layout.table([["A", "B"], ["a", detail]], 80))


def test_an_unchecked_request_shows_no_effect(hive: Hive) -> None:
    received: Message = {**APPROVAL, "state": "received", "effect": "nothing"}
    hive.peer.answers["ListApprovals"] = lambda _: {"approvals": [received], "next": None}
    shown = hive("approvals").out
    assert "received" in shown
    assert "nothing" not in shown
    hive.peer.answers["ListApprovals"] = lambda _: {
        "approvals": [{**received, "state": "pending"}], "next": None,
    }  # fmt: skip
    assert "nothing" in hive("approvals").out


# hive agent create


def test_a_granted_capability_adds_to_those_of_the_role(hive: Hive) -> None:
    hive.peer.answers["Spawn"] = lambda _: {"uuid": "u"}
    hive("agent", "create", "x", "--capability", "broadcast", "--no-wait")
    hive("agent", "create", "y", "--only-capability", "escalate", "--no-wait")
    first, second = hive.peer.params_of("Spawn")
    assert (first.get("add_capabilities"), first.get("capabilities")) == (["broadcast"], None)
    assert (second.get("add_capabilities"), second.get("capabilities")) == (None, ["escalate"])


# --reason everywhere


@pytest.mark.parametrize("flag", ["--reason", "--why"])
def test_reason_is_one_flag_and_the_old_flag_still_works(hive: Hive, flag: str) -> None:
    hive.peer.answers["Deny"] = lambda _: {}
    hive.peer.answers["CancelTask"] = lambda _: {"hit": []}
    hive.peer.answers["CancelQuestion"] = lambda _: {"asker": "bob"}
    for words in (("approvals", "deny"), ("task", "cancel"), ("question", "cancel")):
        assert hive(*words, ID, flag, "no need").status == 0
        shown = hive(*words, "--help").out
        assert "--reason" in shown
        assert "--why" not in shown
    (denied,) = hive.peer.params_of("Deny")
    (task,), (question,) = hive.peer.params_of("CancelTask"), hive.peer.params_of("CancelQuestion")
    assert (denied["why"], task["reason"], question["why"]) == ("no need",) * 3
    assert hive("approvals", "deny", ID).status == 2


def test_units_name_existing_documents() -> None:
    for unit in Path(PACKAGE).glob("*/unit_files/*.service"):
        for line in unit.read_text().splitlines():
            if line.startswith("Documentation="):
                for word in line.removeprefix("Documentation=").split():
                    kind, _, place = word.partition(":")
                    assert kind in ("file", "man"), line
                    assert kind == "man" or Path(place.replace("@PACKAGE@", PACKAGE)).is_file()


@pytest.mark.parametrize(("words", "method", "answer", "text"), [
    (("status",), "Status", {"agents": {}}, "no answer from hived yet"),
    (("tree",), "ListAgents", {"agents": [], "next": None}, "no answer from hived yet"),
    (("approvals", "show", ID), "GetApproval", {"approval": APPROVAL, "lines": [], "marks": []},
     f"reading {ID}"),
    (("artifact", "get", ID), "GetArtifact", {"data": "aGk=", "artifact": {"id": ID}, "next": None},
     f"reading {ID}"),
    (("send", "bob", "hi", "--wait", "9"), "WaitReply", {"reply": {"body": "hello"}},
     "waiting for an answer from bob"),
])  # fmt: skip
def test_a_wait_on_a_terminal_says_what_it_waits_for(
    hive: Hive, words: tuple[str, ...], method: str, answer: Message, text: str
) -> None:
    """The daemon answers when the words are there, so each is seen, however fast the machine is."""
    terminal = Terminal()

    def slow(_: Message) -> Message:
        terminal.until(text)
        return answer

    hive.peer.answers["Send"] = lambda _: {"id": "m1"}
    hive.peer.answers["GetUsage"] = lambda _: {"sums": [], "currency": "EUR"}
    hive.peer.answers[method] = slow
    with redirect_stdout(terminal), redirect_stderr(terminal):
        assert hive(*words).status == 0
    assert not any(text in line for line in lines(terminal.getvalue()))


SPAN = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@pytest.mark.parametrize(("value", "expected"), [("", None), ("00-x", None), (SPAN, SPAN)])
def test_a_task_belongs_to_the_trace_of_the_shell(
    hive: Hive, monkeypatch: pytest.MonkeyPatch, value: str, expected: str | None
) -> None:
    monkeypatch.setenv("TRACEPARENT", value)
    hive.peer.answers["AssignTask"] = lambda _: {"task": ID, "agent": "bob", "state": "queued"}
    assert hive("task", "assign", "bob", "Add").status == 0
    (asked,) = hive.peer.params_of("AssignTask")
    assert asked.get("traceparent") == expected
