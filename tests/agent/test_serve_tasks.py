"""Tasks as `hive-agent serve` does them, against a socket."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from fixtures.fake_broker import fake_broker
from fixtures.task_daemon import ID, TaskDaemon, letter, message_loop, run_task, step

from hive_core.agent.letter import ReceivedLetter
from hive_core.agent.task_client import SUMMARY_MOST
from hive_core.agent.task_run import task_of
from hive_core.errors import Conflict, NotAllowed
from hive_core.varlink import Message


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[TaskDaemon]:
    with fake_broker(tmp_path / "broker.sock") as made:
        daemon_ = TaskDaemon(made)
        made.answers = {
            "Recv": daemon_.recv, "BeginTask": daemon_.begin, "GetTask": daemon_.get,
            "WatchTask": daemon_.watch, "FinishTask": daemon_.finish,
            "Ack": lambda _: {"acked": 1}, "Nack": lambda _: {},
            "ListTasks": lambda _: {"tasks": [{"id": ID, "state": daemon_.state}]},
            "Send": lambda _: {"id": "m2"},
        }  # fmt: skip
        yield daemon_
        daemon_.become("done")
        join_tasks()
        for link in daemon_.links:
            link.close()


def join_tasks() -> None:
    """Wait for the threads of tasks: one that is cut off would try again, and say so, for ever."""
    for thread in threading.enumerate():
        if thread.name.startswith("task ") or thread.name.endswith("(_watch)"):
            thread.join(20)
            assert not thread.is_alive(), thread.name


def test_what_the_command_prints_is_the_summary(daemon: TaskDaemon) -> None:
    assert run_task(daemon, "tr", "a-z", "A-Z") == {"status": "success", "summary": "ADD"}
    assert daemon.peer.params_of("Ack") == [{"ids": ["m1"]}]
    assert not daemon.peer.params_of("Send")


def test_text_and_data_stand_on_its_input_together(daemon: TaskDaemon) -> None:
    """Row Q20."""
    daemon.data = {"n": 3}
    result = "$HIVE_TASK_DATA $HIVE_TASK_ID $HIVE_FROM $HIVE_TASK_CONTEXT"
    report = run_task(daemon, "sh", "-c", f"cat; echo; echo {result}")
    assert report["summary"] == f'add\n\ndata:\n{{\n "n": 3\n}}\n{{"n": 3}} {ID} lead keep'


def test_a_json_object_is_data(daemon: TaskDaemon) -> None:
    report = run_task(daemon, "echo", '{"summary": "seven", "n": 7}')
    assert report == {
        "status": "success", "summary": "seven", "data": {"summary": "seven", "n": 7},
    }  # fmt: skip


def test_the_summary_of_a_json_object_is_cut_in_bytes(daemon: TaskDaemon) -> None:
    print_json = "print('{\"summary\": \"' + chr(228) * 11000 + '\"}')"
    report = run_task(daemon, sys.executable, "-X", "utf8", "-c", print_json)
    assert report["status"] == "success"
    assert len(str(report["summary"]).encode()) <= SUMMARY_MOST
    assert str(report["summary"]).endswith("\n[cut]")


def test_a_command_that_fails_fails_the_task_at_once(daemon: TaskDaemon, tmp_path: Path) -> None:
    """Another worker cannot know which of its effects must not be repeated."""
    script = f"echo x >>{tmp_path}/runs; echo half; exit 3"
    report = run_task(daemon, "sh", "-c", script)
    assert report == {"status": "failed", "summary": "the command ended with 3\nhalf"}
    assert (tmp_path / "runs").read_text() == "x\n"


def test_a_command_that_says_so_is_tried_again(daemon: TaskDaemon, tmp_path: Path) -> None:
    script = (
        f"echo x >>{tmp_path}/runs; test $(wc -l <{tmp_path}/runs) = 3 || exit 75; echo at last"
    )
    assert run_task(daemon, "sh", "-c", script)["summary"] == "at last"


def test_a_command_that_is_not_there_fails_the_task(daemon: TaskDaemon) -> None:
    report = run_task(daemon, "/nowhere/at-all")
    assert report["status"] == "failed"
    assert "No such file" in str(report["summary"])


def test_a_big_output_goes_to_the_store(daemon: TaskDaemon) -> None:
    daemon.peer.answers["StoreArtifact"] = lambda _: {"id": "art1"}
    report = run_task(daemon, sys.executable, "-c", "print('y' * 100_000)")
    (stored,) = daemon.peer.params_of("StoreArtifact")
    assert len(str(stored["text"])) == 100_000
    assert report["artifacts"] == ["art1"]
    assert str(report["summary"]).endswith("y\n[cut]")
    assert len(str(report["summary"])) == 16 * 1024


def test_an_agent_without_room_in_the_store_reports_the_beginning(daemon: TaskDaemon) -> None:
    def refuse(_: Message) -> Message:
        raise NotAllowed("you do not hold the capability artifact.write")

    daemon.peer.answers["StoreArtifact"] = refuse
    report = run_task(daemon, sys.executable, "-c", "print('y' * 100_000)")
    assert "artifacts" not in report
    assert report["status"] == "success"


def test_a_stop_ends_the_whole_process_group(daemon: TaskDaemon, tmp_path: Path) -> None:
    """Row K14: cancel really stops work, also what the command has started."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    script = f"echo begun; sh -c 'exec >{fifo}; while :; do sleep 9; done' & cat >/dev/null; wait"
    loop = message_loop(daemon, "sh", "-c", script)
    with fifo.open() as held:  # both ends are open: the grandchild lives
        daemon.become("stopping")
        assert held.read() == ""  # it is gone, or this would not end
    loop.tasks.settle()
    (report,) = daemon.reports()
    assert (report["status"], report["summary"]) == ("stopped", "begun")


def test_a_letter_stops_it_too(daemon: TaskDaemon, tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    loop = message_loop(daemon, "sh", "-c", f"echo up >{fifo}; exec sleep 60")
    assert fifo.read_text() == "up\n"
    daemon.letters = [letter(f"task: {ID}\nstatus: stopped\n\nno need", "task_stop")]
    loop.step()
    loop.tasks.settle()
    assert daemon.reports()[0]["status"] == "stopped"


def test_what_does_not_listen_is_killed(daemon: TaskDaemon, tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    loop = message_loop(
        daemon, "sh", "-c", f"trap '' TERM; echo up >{fifo}; while :; do sleep 1; done"
    )
    assert fifo.read_text() == "up\n"
    daemon.become("stopping")
    loop.tasks.settle()
    assert daemon.reports()[0]["status"] == "stopped"


def test_a_command_that_takes_too_long_is_ended(daemon: TaskDaemon) -> None:
    assert run_task(daemon, "sleep", "60", timeout=0.05)["status"] == "timeout"


def test_a_letter_that_comes_twice_starts_nothing_twice(daemon: TaskDaemon, tmp_path: Path) -> None:
    daemon.letters = [letter(), letter()]
    script = f"echo x >>{tmp_path}/runs; until test -e {tmp_path}/go; do sleep 0.01; done"
    loop = message_loop(daemon, "sh", "-c", script, parallel=2)
    (tmp_path / "go").touch()
    loop.tasks.settle()
    assert (tmp_path / "runs").read_text() == "x\n"
    assert len(daemon.reports()) == 1


@pytest.mark.parametrize("state", ["done", "cancelled", "queued"])
def test_what_is_not_to_be_done_is_not_begun(
    daemon: TaskDaemon, state: str, tmp_path: Path
) -> None:
    daemon.state = state
    message_loop(daemon, "touch", str(tmp_path / "begun")).tasks.settle()
    assert not (tmp_path / "begun").exists()
    assert not daemon.reports()
    assert daemon.peer.params_of("Ack")


def test_only_the_daemon_gives_tasks(daemon: TaskDaemon) -> None:
    """Anybody may send a message of that kind: it is a message like others."""
    daemon.letters = [{**letter(), "relation": "sibling", "from": "eve"}]
    message_loop(daemon, "cat").tasks.settle()
    assert not daemon.peer.params_of("GetTask")
    assert daemon.peer.params_of("Send")[0]["to"] == "eve"


def test_a_task_that_waits_for_an_answer_goes_on_with_it(daemon: TaskDaemon) -> None:
    daemon.peer.answers["Ask"] = lambda _: {}
    daemon.letters = [letter()]

    class Asks:
        """The first run asks: the task waits for somebody afterwards."""

        def __call__(self, params: Message) -> Message:
            reply = daemon.get(params)
            if len(daemon.peer.params_of("GetTask")) == 2:
                daemon.state = "awaiting_more_information"
                reply = daemon.get(params)
            return reply

    daemon.peer.answers["GetTask"] = Asks()
    loop = message_loop(daemon, "tail", "-n", "1")
    loop.tasks.settle()
    assert not daemon.reports()
    daemon.state = "in_progress"
    head = json.dumps({"question": "q1", "task": ID, "answers": ["red"]})
    daemon.letters = [letter(f"{head}\nthe question q1 was answered\n   red", "answer")]
    step(daemon, loop)
    loop.tasks.settle()
    assert daemon.reports()[0]["summary"] == "   red"


def stop_letter() -> Message:
    return letter(f"task: {ID}\nstatus: stopped\n\nno need", "task_stop")


def test_a_stop_of_a_task_that_waits_for_an_answer_is_confirmed(daemon: TaskDaemon) -> None:
    """Else its container is ended for it, and with it what runs there."""
    daemon.letters, daemon.state = [], "awaiting_more_information"
    loop = message_loop(daemon, "true")
    daemon.state = "stopping"
    daemon.letters = [stop_letter()]
    assert loop.step()
    (report,) = daemon.reports()
    assert (report["task"], report["status"]) == (ID, "stopped")


def test_a_stop_of_what_waits_is_heard_while_the_command_does_something_else(
    daemon: TaskDaemon,
) -> None:
    """The loop that reads letters may be at a long message, so nothing takes this one."""
    ended = threading.Event()

    def get(params: Message) -> Message:
        if len(daemon.peer.params_of("GetTask")) == 2:  # after the run
            daemon.become("awaiting_more_information")
        return daemon.get(params)

    def finish(params: Message) -> Message:
        ended.set()
        return daemon.finish(params)

    daemon.peer.answers |= {"GetTask": get, "FinishTask": finish}
    message_loop(daemon, "true").tasks.settle()
    assert not daemon.reports()
    daemon.become("stopping")
    assert ended.wait(60)
    assert [report["status"] for report in daemon.reports()] == ["stopped"]


def test_a_stop_that_comes_while_its_command_ends_is_confirmed(daemon: TaskDaemon) -> None:
    """The run is over and waits for an answer; what is heard then has nothing to stop."""
    looks: list[str] = []

    def get(params: Message) -> Message:
        reply = daemon.get(params)
        looks.append(daemon.state)
        if len(looks) == 2:  # after the run: it waits for somebody, and is called off at once
            daemon.state = "awaiting_more_information"
            reply = daemon.get(params)
            daemon.state = "stopping"
        return reply

    daemon.peer.answers["GetTask"] = get
    daemon.peer.answers["WatchTask"] = lambda _: {"attempt": 1, "next": None}
    message_loop(daemon, "true").tasks.settle()
    assert [report["status"] for report in daemon.reports()] == ["stopped"]


def test_after_a_start_what_was_to_stop_is_over(daemon: TaskDaemon) -> None:
    daemon.letters, daemon.state = [], "stopping"
    message_loop(daemon, "false").tasks.resume_begun()
    assert [report["status"] for report in daemon.reports()] == ["stopped"]


def test_a_stop_of_what_has_ended_is_not_answered(daemon: TaskDaemon) -> None:
    daemon.letters, daemon.state = [stop_letter()], "cancelled"
    message_loop(daemon, "true")
    assert not daemon.reports()
    assert daemon.peer.params_of("Ack")


def test_a_late_report_is_no_reason_to_end(daemon: TaskDaemon) -> None:
    def late(_: Message) -> Message:
        raise Conflict("it has ended as failed")

    daemon.peer.answers["FinishTask"] = late
    message_loop(daemon, "true").tasks.settle()
    assert len(daemon.reports()) == 1


def test_after_a_start_what_was_begun_is_done_again(daemon: TaskDaemon) -> None:
    daemon.letters = []
    loop = message_loop(daemon, "echo", "again")
    loop.tasks.resume_begun()
    loop.tasks.settle()
    assert daemon.reports()[0]["summary"] == "again"


def test_a_loop_that_ends_leaves_its_tasks_as_they_are(daemon: TaskDaemon, tmp_path: Path) -> None:
    """What becomes of them the daemon knows, when the machine has ended."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    loop = message_loop(daemon, "sh", "-c", f"echo up >{fifo}; exec sleep 60")
    assert fifo.read_text() == "up\n"
    loop.tasks.close()
    loop.tasks.settle()
    assert not daemon.reports()


def test_several_run_at_once_and_no_more(daemon: TaskDaemon, tmp_path: Path) -> None:
    """Both wait for each other, so that one after the other would never end."""
    other = "ba9876543210"
    known = {ID: "one", other: "two"}

    def get(params: Message) -> Message:
        row = {"id": params["task"], "state": "in_progress", "attempt": 1}
        return {"task": row, "description": known[str(params["task"])], "data": None}

    daemon.peer.answers["GetTask"] = get
    daemon.letters = [letter(), letter(f"task: {other}\n\nx")]
    both = f"test -e {tmp_path}/one -a -e {tmp_path}/two"
    script = f"read name; touch {tmp_path}/$name; until {both}; do sleep 0.01; done"
    message_loop(daemon, "sh", "-c", script, parallel=2).tasks.settle()
    assert {report["task"] for report in daemon.reports()} == {ID, other}


def test_the_head_of_a_letter_names_its_task() -> None:
    assert task_of(ReceivedLetter.of(letter())) == ID
    assert task_of(ReceivedLetter.of(letter('{"task": "abc"}\ntext'))) == "abc"
    assert task_of(ReceivedLetter.of(letter("[1]\ntext"))) == ""
    assert task_of(ReceivedLetter.of(letter("hello"))) == ""
