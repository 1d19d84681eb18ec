"""`hive-agent`: commands derived from the description of the operations, on a socket."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from each import for_each
from fixtures.fake_broker import FakeBroker, fake_broker
from fixtures.forked_starts import CHECKOUT, End, ForkedStarts

from hive_core import VERSION
from hive_core.agent import catalog
from hive_core.agent.main import COMMON, HIDDEN, OWN, SHORT, run
from hive_core.agent.overview import OPERATOR, SERVICES
from hive_core.varlink import Message

LAUNCHER = f"""
import sys
sys.path.insert(0, {str(CHECKOUT)!r})
from hive_core.agent.main import main
main()
"""


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[FakeBroker]:
    with fake_broker(tmp_path / "broker.sock") as made:
        yield made


@cache
def debian_python() -> ForkedStarts:
    return ForkedStarts("/usr/bin/python3", "hive_core.agent.main:main")


def hive_agent(path: str, *words: str) -> End:
    """As it starts in a container: Debian's own interpreter, isolated."""
    return debian_python().run(*words, HIVE_SOCKET=path)


def test_whoami_is_json_where_the_output_is_no_terminal(broker: FakeBroker) -> None:
    broker.answers["Whoami"] = lambda _: {"name": "bob", "children": ["carol"]}
    done = hive_agent(broker.path, "whoami")
    assert json.loads(done.stdout) == {"name": "bob", "children": ["carol"]}
    assert hive_agent(broker.path, "whoami", "-o", "text").stdout == "name: bob\nchildren: carol\n"


def test_required_parameters_are_positional_and_in_the_order_of_the_declaration(
    broker: FakeBroker,
) -> None:
    broker.answers["Send"] = lambda _: {"id": "m1"}
    assert run(["send", "lead", "all done", "--priority", "0"], broker.path) == 0
    (asked,) = broker.params_of("Send")
    key = asked.pop("idempotency_key")
    assert isinstance(key, str)
    assert asked == {"to": "lead", "body": "all done", "priority": 0}


def test_why_something_is_done_is_one_flag_whatever_the_wire_calls_it(
    broker: FakeBroker, capsys: pytest.CaptureFixture[str]
) -> None:
    """`cancel-task` had `--reason`, `nack` had `--why`: that still works, and no help says it."""
    broker.answers["Nack"] = broker.answers["CancelTask"] = lambda _: {}
    for flag in ("--reason", "--why"):
        run(["nack", "m1", flag, "broken"], broker.path)
    run(["cancel-task", "t1", "--reason", "broken"], broker.path)
    assert [row["why"] for row in broker.params_of("Nack")] == ["broken", "broken"]
    assert broker.params_of("CancelTask")[0]["reason"] == "broken"
    for command in ("nack", "cancel-task", "cancel-question"):
        with pytest.raises(SystemExit):
            run([command, "--help"], broker.path)
        said = capsys.readouterr().out
        assert "--reason" in said
        assert "--why" not in said


def test_a_request_is_one_line_with_the_words_in_their_order(broker: FakeBroker) -> None:
    """H9: what an agent or an ancestor asks the operator for."""
    broker.answers["RequestApplyCommit"] = lambda _: {"approval": "x", "job": "y"}
    assert run(["request", "alice", "1a" * 20, "better words", "--source", "bob"], broker.path) == 0
    (asked,) = broker.params_of("RequestApplyCommit")
    assert asked.pop("idempotency_key")
    assert asked == {
        "agent": "alice", "commit": "1a" * 20, "message": "better words", "source": "bob",
    }  # fmt: skip


@pytest.mark.parametrize(
    "words", [["allocate-budget", "bob", "gold"], ["get-task", "1", "--x", "y"]]
)
def test_wrong_words_are_said_here_and_nothing_is_sent(
    broker: FakeBroker, words: list[str]
) -> None:
    done = hive_agent(broker.path, *words)
    assert done.returncode == 2
    assert words[-1] in done.stderr
    assert not broker.calls


def test_of_a_word_that_is_one_of_few_all_are_named(broker: FakeBroker) -> None:
    assert "'tokens'" in hive_agent(broker.path, "allocate-budget", "bob", "gold").stderr
    assert "children" in hive_agent(broker.path, "allocate-budget", "--help").stdout


def test_a_file_that_is_not_there_is_one_line(broker: FakeBroker) -> None:
    done = hive_agent(broker.path, "artifact", "put", "/no/such/file")
    assert done.returncode == 1
    assert done.stderr == "hive-agent: /no/such/file: No such file or directory\n"


def test_a_command_stands_after_two_dashes(broker: FakeBroker) -> None:
    broker.answers["Spawn"] = lambda _: {"name": "kid", "uuid": "u", "job": "j"}
    words = ["spawn", "kid", "--role", "worker", "--no-boot", "--capabilities", "kill",
             "--limits", '{"tasks_max": 20}', "--", "sh", "-c", "--", "x"]  # fmt: skip
    assert run(words, broker.path) == 0
    (asked,) = broker.params_of("Spawn")
    del asked["idempotency_key"]
    assert asked == {
        "name": "kid", "role": "worker", "boot": False, "capabilities": ["kill"],
        "limits": {"tasks_max": 20}, "command": ["sh", "-c", "--", "x"],
    }  # fmt: skip


def test_the_target_needs_no_flag(broker: FakeBroker) -> None:
    broker.answers["GetLogs"] = lambda _: {"lines": [], "next": None}
    assert run(["logs", "kid", "--lines", "3"], broker.path) == 0
    assert run(["logs"], broker.path) == 0
    assert broker.params_of("GetLogs") == [{"agent": "kid", "lines": 3}, {}]


@pytest.mark.parametrize(
    ("words", "task"), [(["3f2a"], {"task": "3f2a"}), ([], {})], ids=["said", "left out"]
)
def test_what_it_is_about_comes_first_and_may_be_left_out(
    broker: FakeBroker, words: list[str], task: dict[str, str]
) -> None:
    broker.answers["FinishTask"] = lambda _: {"state": "done"}
    assert run(["finish-task", *words, "success", "all mended"], broker.path) == 0
    (asked,) = broker.params_of("FinishTask")
    asked.pop("idempotency_key")
    assert asked == {**task, "status": "success", "summary": "all mended"}


def test_lists_of_ids_are_words(broker: FakeBroker) -> None:
    broker.answers["Ack"] = lambda _: {"acked": 2}
    assert run(["ack", "m1", "m2"], broker.path) == 0
    assert broker.params_of("Ack")[0]["ids"] == ["m1", "m2"]


def test_entries_of_a_list_that_are_objects_are_json_or_bare_words(broker: FakeBroker) -> None:
    """Q31."""
    broker.answers["Ask"] = lambda _: {"question": "q1", "to": "lead", "deadline": None}
    item = '{"prompt": "Red?", "options": ["yes", "no"]}'
    assert run(["ask", item, "And why?", "--deadline", "60"], broker.path) == 0
    asked = broker.params_of("Ask")[0]
    assert asked["items"] == [{"prompt": "Red?", "options": ["yes", "no"]}, "And why?"]
    assert asked["deadline"] == 60.0


def test_following_prints_each_page(broker: FakeBroker, capsys: pytest.CaptureFixture[str]) -> None:
    pages: list[Message] = [{"lines": [{"text": "a"}]}, {"lines": [{"text": "b"}]}]
    broker.answers["GetLogs"] = lambda _: pages
    assert run(["logs", "kid", "-f"], broker.path) == 0
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == pages


@pytest.mark.parametrize("name", ["get_logs", "GetLogs", "get-logs", "org.hive.Broker.GetLogs"])
def test_call_takes_any_spelling_of_a_method(broker: FakeBroker, name: str) -> None:
    broker.answers["GetLogs"] = lambda _: {"lines": []}
    assert run(["call", name, '{"agent": "kid"}'], broker.path) == 0
    assert broker.params_of("GetLogs") == [{"agent": "kid"}]


def test_exit_statuses_are_the_contracts(broker: FakeBroker) -> None:
    def refuse(_: Message) -> Message:
        from hive_core.errors import NotAllowed  # noqa: PLC0415

        raise NotAllowed("cannot stop lead: not your descendant")

    broker.answers["Stop"] = refuse
    done = hive_agent(broker.path, "stop", "lead")
    assert done.returncode == 5
    assert done.stderr == "hive-agent: cannot stop lead: not your descendant\n"
    assert hive_agent(broker.path + "x", "whoami").returncode == 69
    assert hive_agent(broker.path, "stop").returncode == 2
    assert hive_agent(broker.path, "no-such-thing").returncode == 2
    assert hive_agent(broker.path, "serve").returncode == 2


@for_each("command", sorted(OWN))
def test_each_command_of_its_own_has_help_and_refuses_an_unknown_option(command: str) -> None:
    """`hold --help` held. Nothing is at the socket: none of them needs the daemon for this."""
    done = hive_agent("/nonexistent", command, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert f"hive-agent {command}" in done.stdout
    done = hive_agent("/nonexistent", command, "--nonsense")
    assert done.returncode == 2, done


@pytest.mark.parametrize("words", [("help",), ("help", "--all")])
@pytest.mark.parametrize("width", [80, 120])
def test_help_fits_the_terminal_and_continues_below_its_text(
    words: tuple[str, ...], width: int, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setenv("COLUMNS", str(width))
    assert run(words, "") == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= width
    indent = 15 if words == ("help",) else 25
    assert any(line[:indent].isspace() and line[indent:].strip() for line in lines) or width > 80


def test_help_lists_every_operation_once_by_what_it_is_about(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the name that the pages use; what only the operator may stands apart, at the end."""
    monkeypatch.setenv("COLUMNS", "400")
    assert run(["help", "--all"], "") == 0
    shown, _, apart = capsys.readouterr().out.partition("\nFor the operator only")
    listed = [line.split()[0] for line in shown.splitlines() if re.match(r"  \w", line)]
    operations = {entry.name.replace("_", "-"): entry for entry in catalog.load()}
    theirs = {name for name, entry in operations.items() if entry.entry["who"] == OPERATOR}
    of_services = {name for name, entry in operations.items() if entry.entry["who"] in SERVICES}
    assert len(of_services) == 6
    assert sorted(listed) == sorted((set(operations) | set(OWN)) - theirs - of_services)
    assert "\nMore:" not in shown
    assert theirs == {word for line in apart.splitlines()[1:-2] for word in line.split()}
    for short, name in SHORT.items():
        line = f"  {name.replace('_', '-'):<22} {operations[name.replace('_', '-')].summary}"
        assert f"{line} Also `{short}`.\n" in shown


@pytest.mark.parametrize("words", [[], ["help"], ["--help"], ["-h"]])
def test_help_begins_with_ten_common_commands(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(words, "") == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if re.match(r"  \w", line)]
    assert len(lines) == len(COMMON) == 10
    assert lines[0].split()[0] == "serve"


def test_help_of_a_command_and_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        run(["help", "serve"], "")
    assert "--secret-env" in capsys.readouterr().out
    assert run(["version"], "") == run(["--version"], "") == 0
    assert capsys.readouterr().out == f"hive-agent {VERSION}\n" * 2


@for_each("alias", sorted({*SHORT, *HIDDEN}))
def test_a_second_name_is_that_of_an_operation(
    alias: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        run([alias, "--help"], "")
    assert end.value.code == 0
    name = {**SHORT, **HIDDEN}[alias].replace("_", "-")
    assert f"usage: hive-agent {name}" in capsys.readouterr().out


def test_every_operation_has_a_command_with_help(capsys: pytest.CaptureFixture[str]) -> None:
    for operation in catalog.load():
        with pytest.raises(SystemExit) as end:
            run([operation.name, "--help"], "")
        assert end.value.code == 0
        assert operation.summary.split()[0] in capsys.readouterr().out


def test_hold_ends_well_when_it_is_told_to(broker: FakeBroker) -> None:
    command = ["/usr/bin/python3", "-I", "-c", LAUNCHER, "hold"]
    with subprocess.Popen(command, env={"HIVE_SOCKET": broker.path}) as process:
        while b"SigCgt" not in (status := Path(f"/proc/{process.pid}/status").read_bytes()) or not (
            int(status.split(b"SigCgt:")[1].split()[0], 16) & (1 << 14)
        ):
            assert process.poll() is None
        process.terminate()
        assert process.wait(10) == 0


def test_the_client_and_its_tools_start_without_what_they_do_not_need() -> None:
    show = "print(*sys.modules)\n"
    script = LAUNCHER.replace("main()\n", f"{show}import hive_core.agent.tool\n{show}")
    done = subprocess.run(
        [sys.executable, "-I", "-c", script], capture_output=True, text=True, check=True
    )
    client, tools = (set(line.split()) for line in done.stdout.splitlines())
    heavy = {"pydantic", "click", "asyncio", "pygit2", "typing_extensions", "dataclasses",
             "tomllib", "hashlib"}  # fmt: skip
    assert heavy & tools == set()
    assert "subprocess" not in client


def test_text_for_people_has_times_as_times_and_lines_as_lines(
    broker: FakeBroker, capsys: pytest.CaptureFixture[str]
) -> None:
    since, due = (
        time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(moment))
        for moment in (1795347235, 1795347299)
    )
    rows = [{"task": "t1", "since": 1795347235.38, "age": 4.126611}]
    broker.answers["LooseEnds"] = lambda _: {
        "ends": rows, "deadline": 1795347299.12, "text": "one\n\x1btwo", "next": None,
    }  # fmt: skip
    assert run(["loose-ends", "-o", "text"], broker.path) == 0
    assert capsys.readouterr().out.splitlines() == [
        "TASK  SINCE                AGE",
        f"t1    {since}  4.127",
        f"deadline: {due}",
        "text:",
        "    one",
        "    ⟨U+001B⟩two",
    ]
