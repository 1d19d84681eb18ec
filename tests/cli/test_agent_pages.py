"""`hive agent show`, `set`, `create --file`: one agent on a page, and its spec changed."""

from __future__ import annotations

import json
import os
import subprocess
from collections import defaultdict
from pathlib import Path

import pytest
from cli.run import Hive

from hive_core.cli.agents.create import script_command
from hive_core.cli.agents.set_agent import show_limits
from hive_core.errors import InvalidArgument
from hive_core.varlink import Message

AGENT: Message = {
    "name": "lead", "uuid": "0-0", "role": "lead", "title": "Boss\x1b", "tier": "tactical",
    "model": "", "parent": "root", "path": ["root"], "children": ["bob"], "image": "host",
    "boot": False, "command": ["sh", "-c", "echo 'a b'"], "config": "c" * 40,
    "capabilities": ["spawn"], "allow": [], "tools": None, "limits": {"memory_max": 512 << 20},
    "subtree": {}, "max_children": 10, "after_task": None, "wakes": False, "state": "parked",
    "activity": "idle", "since": 1.0, "wanted": "running", "why": "ended with 3", "failures": 5,
    "next_start": None, "restart_needed": True, "unit": "hive-agent@lead.service", "inbox": 2,
    "tasks": 1, "last_end": {"at": 2.0, "code": 3, "reason": "ended with 3", "asked": False,
                             "output": "boom\x1b[2J"},
}  # fmt: skip
TASK: Message = {"id": "t1", "agent": "lead", "state": "in_progress", "title": "Sum"}
SUB: Message = {
    "id": "5ub", "name": "clone", "parent": "lead", "uid": 60001, "deadline": 4.0, "model_calls": 3,
}  # fmt: skip
COMMIT: Message = {"commit": "d" * 40, "message": "set command of lead\n\nby: operator"}


@pytest.fixture(autouse=True)
def _answers(hive: Hive) -> None:
    answers = hive.peer.answers
    answers["GetAgent"] = lambda _: dict(AGENT)
    answers["ListSecrets"] = lambda _: {"secrets": [{"key": "KEY", "readable": False}]}
    answers["ListTasks"] = lambda _: {"tasks": [TASK, {**TASK, "id": "t2", "agent": "bob"}]}
    answers["GetLogs"] = lambda _: {"lines": [{"time": 3.0, "unit": "u", "text": "hi\x1b"}]}
    answers["ListSubagents"] = lambda _: {"subagents": [SUB]}
    answers["MetaLog"] = lambda _: {"commits": [COMMIT]}


def test_the_page_has_spec_position_rights_limits_state_exit_tasks_and_log(hive: Hive) -> None:
    done = hive("agent", "show", "lead")
    assert done.status == 0
    for text in (
        "agent        lead  Boss⟨U+001B⟩", "place        root / lead", "children     bob",
        "command      sh -c 'echo '\"'\"'a b'\"'\"''", "state        parked, idle",
        "why          ended with 3", "wanted       running since 1970-01-01", "failures     5",
        "capabilities spawn", "secrets      KEY (not readable)", "limits       memory_max=512M",
        "exit status 3, unasked", "  boom⟨U+001B⟩[2J", "tasks        1 open",
        "  t1  in progress  Sum",
        "sub-agents   1 open",
        "  5ub  clone of lead, uid 60001, until 1970-01-01", "3 calls of models",
        "hi⟨U+001B⟩", "spec         changed; `hive restart lead`",
    ):  # fmt: skip
        assert text in done.out, text
    assert "t2" not in done.out
    assert "\x1b" not in done.out


def test_programs_get_the_same_as_json(hive: Hive) -> None:
    shown = json.loads(hive("agent", "show", "lead", "-o", "json").out)
    assert {key: shown[key] for key in AGENT} == AGENT
    assert [task["id"] for task in shown["open_tasks"]] == ["t1"]
    assert (shown["secrets"][0]["key"], shown["log"][0]["time"]) == ("KEY", 3.0)
    assert hive("agent", "show", "lead", "-o", "name").out == "lead\n"
    assert hive.peer.params_of("GetLogs")[0]["lines"] == 5


def changes(hive: Hive, *, restart: bool) -> None:
    hive.peer.answers["SetAgent"] = lambda _: {"changed": ["command"], "restart_needed": restart}


def test_a_change_shows_its_commit_and_that_a_restart_is_needed(hive: Hive) -> None:
    changes(hive, restart=True)
    done = hive("agent", "set", "lead", "--command", "sleep '9 9'", "--limit", "memory_max=1G",
                "--limit", "tasks_max=", "--title", "T")  # fmt: skip
    assert (done.status, done.out) == (0, "")
    assert done.err == (
        f"commit {'d' * 12}: set command of lead\n"
        "lead runs as before until its next start: `hive restart lead`\n"
    )
    asked = dict(hive.peer.params_of("SetAgent")[0])
    assert asked.pop("idempotency_key")
    assert asked == {
        "agent": "lead", "command": ["sleep", "9 9"], "title": "T",
        "limits": {"memory_max": 1 << 30, "tasks_max": None},
    }  # fmt: skip


def test_a_change_restarts_the_agent_on_request(hive: Hive) -> None:
    changes(hive, restart=True)
    hive.peer.answers["Restart"] = lambda _: {"agents": ["lead"]}
    assert hive("agent", "set", "lead", "--command", "", "--restart").status == 0
    assert hive.peer.params_of("SetAgent")[0]["command"] == []
    assert len(hive.peer.params_of("Restart")) == 1
    changes(hive, restart=False)
    assert hive("agent", "set", "lead", "--command", "", "--restart").status == 0
    assert len(hive.peer.params_of("Restart")) == 1


def test_a_restart_takes_up_an_earlier_change_too(hive: Hive) -> None:
    hive.peer.answers["SetAgent"] = lambda _: {"changed": [], "restart_needed": False}
    hive.peer.answers["GetAgent"] = lambda _: {"restart_needed": True}
    hive.peer.answers["Restart"] = lambda _: {"agents": ["lead"]}
    done = hive("agent", "set", "lead", "--limit", "tasks_max=5")
    assert done.err.startswith("lead: no change\nlead runs as before until its next start")
    assert hive("agent", "set", "lead", "--limit", "tasks_max=5", "--restart").status == 0
    assert len(hive.peer.params_of("Restart")) == 1


def test_no_change_is_reported_and_no_option_is_wrong_usage(hive: Hive) -> None:
    hive.peer.answers["SetAgent"] = lambda _: {"changed": [], "restart_needed": False}
    hive.peer.answers["GetAgent"] = lambda _: {"restart_needed": False}
    assert hive("agent", "set", "lead", "--title", "T").err == "lead: no change\n"
    assert hive("agent", "set", "lead").status == 2
    assert hive("agent", "set", "lead", "--command", "'").status == 2
    assert hive("agent", "set", "lead", "--limit", "memory_max=lots").status == 2


def test_limits_are_shown_in_the_form_of_the_options() -> None:
    limits = {"memory_max": 512 << 20, "disk": 3 << 29, "tasks_max": 4096}
    assert show_limits(limits) == "memory_max=512M disk=1.5G tasks_max=4096"
    assert show_limits({}) == "-"


def test_a_script_is_stored_with_the_agent_and_runs(hive: Hive, tmp_path: Path) -> None:
    script = tmp_path / "say it.py"
    script.write_text('#!/bin/sh\nprintf \'%s|\' "$0" "$@"; cat "$0" | wc -l\n')
    hive.peer.answers["Spawn"] = lambda _: {"name": "x", "uuid": "u"}
    assert hive("agent", "create", "x", "--file", str(script), "--", "a b", "$c").status == 0
    command = hive.peer.params_of("Spawn")[0]["command"]
    assert isinstance(command, list)
    home = tmp_path / "home"
    home.mkdir()
    for _ in range(2):  # at each start
        done = subprocess.run(
            [str(word) for word in command], cwd=home, capture_output=True, text=True, check=True
        )
        assert done.stdout == "./say it.py|a b|$c|2\n"
    assert os.listdir(home) == ["say it.py"]  # noqa: PTH208


@pytest.mark.parametrize("text", ["print('no first line')", "#!/bin/sh\n" + "x" * 30_000])
def test_a_script_that_cannot_be_stored_is_refused_with_a_remedy(text: str) -> None:
    with pytest.raises(InvalidArgument, match=r"line that names its interpreter|hive cp"):
        script_command(text, "x.py")


def test_a_program_outside_the_container_is_refused_before_the_start(
    hive: Hive, tmp_path: Path
) -> None:
    program = tmp_path / "agent.py"
    program.write_text("#!/usr/bin/python3\n")
    done = hive("agent", "create", "x", "--", str(program))
    assert done.status == 2
    assert "is not visible in a container" in done.err
    assert "--file" in done.err
    assert not hive.peer.params_of("Spawn")
    hive.peer.answers = defaultdict(lambda: lambda _: Message())
    for command in ("/bin/sh", "sleep", "/opt/tools/mine"):
        assert hive("agent", "create", "x", "--", command).status == 0
    assert hive("agent", "create", "x", "--image", "web", "--", str(program)).status == 0
