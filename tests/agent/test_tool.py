"""`hive-agent tool`: a grant first, then the use, then word of how it ended (rows T1, K37)."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from fixtures.fake_broker import FakeBroker, fake_broker
from long import at_most

from hive_core.agent import program, workspace
from hive_core.agent.tool import run_tool
from hive_core.errors import (
    HiveError,
    InvalidArgument,
    LimitReached,
    NotAllowed,
    NotFound,
    TimedOut,
)
from hive_core.varlink import Message

GRANT = uuid4().hex  # its own, where several run these tests beside each other


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[FakeBroker]:
    with fake_broker(tmp_path / "broker.sock") as made:
        made.answers = {
            "UseTool": lambda _: {"grant": GRANT, "tool": "bash", "expires": 1.0},
            "EndTool": lambda _: {"grant": GRANT},
        }
        yield made


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.setenv("HIVE_WORKSPACE", str(folder))
    return folder


def end_reports(broker: FakeBroker) -> list[object]:
    return [params["status"] for params in broker.params_of("EndTool")]


def test_a_program_runs_with_a_grant_and_its_end_is_told(
    broker: FakeBroker, place: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run_tool(broker.path, ["command", "--task", "3f", "--", "sh", "-c", "pwd; exit 3"]) == 3
    assert capfd.readouterr().out == f"{place}\n"
    (asked,) = broker.params_of("UseTool")
    assert (asked["tool"], asked["argument"], asked["task"]) == (
        "command", ["sh", "-c", "pwd; exit 3"], "3f",
    )  # fmt: skip
    assert end_reports(broker) == ["failed"]


def test_what_is_refused_does_not_run(broker: FakeBroker, place: Path) -> None:
    def refuse(_: Message) -> Message:
        raise NotAllowed("cannot use bash: you plan and delegate")

    broker.answers["UseTool"] = refuse
    with pytest.raises(NotAllowed, match="you plan"):
        run_tool(broker.path, ["bash", "--", "touch", "here"])
    assert list(place.iterdir()) == []
    assert broker.params_of("EndTool") == []


def test_files_are_written_changed_and_read_below_the_workspace(
    broker: FakeBroker, place: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    workspace.write(place, "docs/a.txt", b"one two")
    assert run_tool(broker.path, ["edit_file", "docs/a.txt", "--old", "two", "--new", "three"]) == 0
    assert run_tool(broker.path, ["file_reader", "docs/a.txt"]) == 0
    assert capfd.readouterr().out == "one three"
    assert end_reports(broker) == ["ok", "ok"]


@pytest.mark.parametrize("path", ["../out", "/etc/passwd", "a/../../out", "", "a//b", "./a", "a/."])
def test_a_path_that_is_not_plain_is_refused(place: Path, path: str) -> None:
    for use in (lambda: workspace.read(place, path), lambda: workspace.write(place, path, b"x")):
        with pytest.raises(InvalidArgument, match="not a plain path"):
            use()


def test_no_link_is_followed_anywhere_on_the_way(place: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("s")
    (place / "folder").symlink_to(tmp_path)
    (place / "file").symlink_to(secret)
    for path in ("folder/secret", "file"):
        with pytest.raises(InvalidArgument):
            workspace.read(place, path)
        with pytest.raises(InvalidArgument):
            workspace.write(place, path, b"x")
    assert secret.read_text() == "s"


def test_a_pipe_is_no_file_and_is_not_waited_for(place: Path) -> None:
    os.mkfifo(place / "pipe")
    with pytest.raises(InvalidArgument, match="not a plain file"):
        workspace.read(place, "pipe")
    with pytest.raises(NotFound):
        workspace.read(place, "nothing")


def test_fifty_kilobytes_are_read_at_a_time_and_no_more_is_written(
    broker: FakeBroker, place: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """K37."""
    (place / "big").write_bytes(b"x" * (workspace.MOST + 7))
    assert run_tool(broker.path, ["read", "big"]) == 0
    shown = capfd.readouterr()
    assert len(shown.out) == workspace.MOST
    assert "continue with --start" in shown.err
    assert run_tool(broker.path, ["read", "big", "--start", str(workspace.MOST)]) == 0
    assert capfd.readouterr().out == "x" * 7
    with pytest.raises(LimitReached):
        workspace.write(place, "bigger", b"x" * (workspace.MOST + 1))


def test_an_edit_names_one_place(place: Path) -> None:
    workspace.write(place, "a", b"one one")
    (place / "a").chmod(0o755)
    for old in ("one", "two", ""):
        with pytest.raises(InvalidArgument, match="not once"):
            workspace.edit(place, "a", old, "x")
    workspace.edit(place, "a", "e o", "e, o")
    assert (place / "a").read_text() == "one, one"
    assert (place / "a").stat().st_mode & 0o777 == 0o755
    assert [path.name for path in place.iterdir()] == ["a"]


def marked_processes(mark: str) -> list[int]:
    return list(program._marked_processes(mark))


GRANDCHILDREN = (
    "import os, subprocess, sys, time\n"
    "subprocess.Popen(['sleep', '1000'])\n"
    "subprocess.Popen(['sleep', '1000'], start_new_session=True)\n"
    "print('made', flush=True)\n"
    "time.sleep(1000)\n"
)


def test_at_its_time_the_whole_group_is_killed_and_processes_that_left_it_too(
    broker: FakeBroker, place: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """K37: grandchildren included."""
    del place
    began = time.monotonic()
    with pytest.raises(TimedOut, match="did not end in 1 s and was killed"):
        run_tool(broker.path, ["bash", "--timeout", "1", "--", sys.executable, "-c", GRANDCHILDREN])
    assert time.monotonic() - began < at_most(10)
    assert capfd.readouterr().out == "made\n"
    assert marked_processes(GRANT) == []
    assert end_reports(broker) == ["timeout"]


def test_what_a_program_leaves_running_ends_with_it(broker: FakeBroker, place: Path) -> None:
    del place
    command = ["sh", "-c", "sleep 1000 & setsid sleep 1000 & exit 0"]
    assert run_tool(broker.path, ["bash", "--", *command]) == 0
    assert marked_processes(GRANT) == []


def test_output_without_end_is_cut(
    broker: FakeBroker, place: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    del place
    with pytest.raises(TimedOut):
        run_tool(broker.path, ["bash", "--timeout", "0.5", "--", "yes"])
    shown = capfd.readouterr()
    assert len(shown.out) == workspace.MOST
    assert "cut" in shown.err


@pytest.mark.parametrize(
    ("words", "kind"), [(["no-such-program"], NotFound), (["/etc/passwd"], InvalidArgument)]
)
def test_what_cannot_be_started_is_said_and_ends_the_grant(
    broker: FakeBroker, place: Path, words: list[str], kind: type[HiveError]
) -> None:
    del place
    with pytest.raises(kind):
        run_tool(broker.path, ["bash", "--", *words])
    assert end_reports(broker) == ["failed"]


def test_a_daemon_that_is_gone_when_it_ends_does_not_spoil_the_use(
    broker: FakeBroker, place: Path
) -> None:
    del place

    def refuse(_: Message) -> Message:
        raise NotFound("no grant")

    broker.answers["EndTool"] = refuse
    assert run_tool(broker.path, ["bash", "--", "true"]) == 0


@pytest.mark.parametrize(
    ("arguments", "asked"),
    [
        (["bash", "echo", "-n", "hi"], ["echo", "-n", "hi"]),
        (["--timeout=9", "run_command", "--task", "3f", "echo", "a"], ["echo", "a"]),
        (["bash", "echo", "--", "--task", "b"], ["echo", "--", "--task", "b"]),
        (["bash", "--", "echo", "c"], ["echo", "c"]),
    ],
)
def test_a_program_may_stand_without_the_two_dashes_in_front(
    broker: FakeBroker, place: Path, arguments: list[str], asked: list[str]
) -> None:
    assert place.is_dir()
    assert run_tool(broker.path, arguments) == 0
    assert [params["argument"] for params in broker.params_of("UseTool")] == [asked]


@pytest.mark.parametrize("start", ["-1", "9" * 20, "x"])
def test_a_place_that_no_file_has_is_refused_before_anything_is_asked(
    broker: FakeBroker, place: Path, start: str
) -> None:
    workspace.write(place, "a", b"x")
    with pytest.raises(SystemExit) as refused:
        run_tool(broker.path, ["read", "a", "--start", start])
    assert refused.value.code == 2
    assert broker.params_of("UseTool") == []
