"""A session whose model is run by an agent of the Agent Client Protocol.

The agent is a stand-in; tests/clis has real ones.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from each import for_each
from fixtures.cli_host import CliHost, cli_host
from fixtures.world import fields

from hive_core.agent.server_tools import ANSWER_SECONDS
from hive_core.agent.session.runtimes.acp_custom import AcpSettings
from hive_core.agent.session.runtimes.acp_gate import AcpGate, AcpTools
from hive_core.agent.session.runtimes.cli_dialect import CliPlace, CliTurn
from hive_core.agent.session.runtimes.opencode import OpencodeDialect
from hive_core.cli.host.runtime import NO_SETTINGS
from hive_core.errors import InvalidArgument

TOOLS = AcpTools({"send": "operation"}, "hive_1")
FAKE = Path(__file__).parents[2] / "fixtures/fake_acp.py"


@pytest.fixture(name="host")
def _host(tmp_path: Path) -> Iterator[CliHost]:
    program = tmp_path / "agent"
    shutil.copy(FAKE, program)
    program.chmod(0o755)
    config = tmp_path / "config"
    config.mkdir()
    settings = f'[acp]\ncommand = "{program} --acp"\nenvironment = {{ MINE = "yes" }}\n'
    (config / "agent.toml").write_text(settings)
    with cli_host(tmp_path, "acp", tmp_path) as host:
        host.environment["HIVE_CONFIG"] = str(config)
        yield host


def calls(host: CliHost, method: str = "session/prompt") -> list[dict[str, Any]]:
    file = host.state / "home/calls"
    rows = map(json.loads, file.read_text().splitlines()) if file.exists() else ()
    return [row for row in rows if row["method"] == method]


def prompt_text(row: Mapping[str, Any]) -> str:
    return str(row["params"]["prompt"][0]["text"])


@pytest.mark.parametrize(
    ("table", "reason"),
    [("[acp]\ncommand = 'my-agent --acp'\n",
      "this container lacks 'my-agent', the `command` of [acp] in {file}"),
     ("", "[acp] of {file} names no `command`")],
)  # fmt: skip
def test_a_program_that_is_not_there_is_named_with_its_file_and_what_helps(
    host: CliHost, table: str, reason: str
) -> None:
    file = Path(host.environment["HIVE_CONFIG"]) / "agent.toml"
    file.write_text(table)
    host.begin()
    process = host.server.processes[-1]
    host.server.serve_until(lambda: process.poll() is not None)
    assert process.wait() == 78
    assert process.stderr is not None
    (line,) = process.stderr.read().splitlines()
    assert line.startswith(f"hive-agent: cannot run acp: {reason.format(file=file)}")
    assert line.endswith("(see docs/how-to/acp.md)")


def test_each_letter_is_a_prompt_of_one_process_with_the_operations_of_hive(host: CliHost) -> None:
    host.begin()
    host.send("who are you?")
    assert host.until(host.replies) == ["well"]
    host.send("and now?")
    host.until_count(host.replies, 2)
    first, second = calls(host)
    assert first["pid"] == second["pid"]
    assert first["params"]["sessionId"] == second["params"]["sessionId"]
    assert prompt_text(first).startswith("<instructions>")
    assert "<instructions>" not in prompt_text(second)
    (hello,) = calls(host, "initialize")
    assert hello["params"]["clientCapabilities"]["fs"] == {
        "readTextFile": False, "writeTextFile": False,
    }  # fmt: skip
    (opened,) = calls(host, "session/new")
    (server,) = opened["params"]["mcpServers"]
    assert re.fullmatch("hive_[0-9a-f]{8}", server["name"])
    assert server["args"][-1] == "mcp"
    environment = opened["environment"]
    assert (environment["MINE"], environment["OPENAI_API_KEY"]) == ("yes", "hive")
    assert environment["OPENAI_BASE_URL"] == f"http://127.0.0.1:{host.port}/v1"


def test_each_use_has_a_grant_for_as_long_as_it_runs(host: CliHost) -> None:
    host.begin()
    host.send("run it")
    assert host.until(host.replies) == ["well"]
    (event,) = host.events("use_tool")
    assert fields(event)["argument"] == "ls -l"
    (event,) = host.events("end_tool")
    assert fields(event)["status"] == "ok"
    assert (host.workspace / "ran").read_text() == "ran\n"


def test_until_its_plan_is_approved_a_use_is_rejected_and_the_agent_is_told_why(
    host: CliHost,
) -> None:
    host.assign("run it, with a plan", plan_required=True)
    host.begin()
    host.until(lambda: len(calls(host)) >= 2)
    assert not (host.workspace / "ran").exists()
    assert "hive refused" in prompt_text(calls(host)[1])
    assert "plan" in prompt_text(calls(host)[1])


def test_a_use_without_a_question_is_judged_too_and_ends_the_agent_when_refused(
    host: CliHost,
) -> None:
    host.begin()
    host.send("sneak")
    assert host.until(host.replies) == ["well"]
    assert len(host.events("use_tool")) == 1
    host.assign("sneak, with a plan", plan_required=True)
    (issue,) = host.until(
        lambda: [row for row in host.world.mail("lead") if row["kind"] == "escalation"]
    )
    assert "acp used a tool without asking" in str(issue["body"])


def test_a_killed_turn_goes_on_in_the_same_conversation_and_says_so(host: CliHost) -> None:
    host.begin()
    host.send("hang around")
    host.until(lambda: calls(host))
    os.kill(calls(host)[0]["pid"], signal.SIGKILL)
    assert host.until(host.replies) == ["well"]
    (loaded,) = calls(host, "session/load")
    first, second = calls(host)
    assert loaded["params"]["sessionId"] == first["params"]["sessionId"]
    assert second["params"]["sessionId"] == first["params"]["sessionId"]
    assert prompt_text(second).startswith("<reminder>\nYou were interrupted")
    assert "hang around" in prompt_text(second)


def test_urgent_mail_interrupts_and_a_used_up_budget_leads_to_one_call_without_tools(
    host: CliHost,
) -> None:
    host.begin()
    host.send("hang")
    host.until(lambda: calls(host))
    host.send("now!", "operator", priority=0)
    assert host.until(host.replies) == ["well"]
    assert calls(host, "session/cancel")
    task = host.assign("a budget that is small")
    host.until(lambda: host.task(task)["state"] == "done")
    assert "last call" in prompt_text(calls(host)[-1])
    assert calls(host, "session/load")[-1]["params"]["mcpServers"] == []


def test_settings_that_are_wrong_are_named(tmp_path: Path) -> None:
    file = tmp_path / "agent.toml"
    assert AcpSettings.read(file) == AcpSettings()
    for text in ("acp = 1", "[acp]\ncommand = [1]", "[acp]\nother = 1", "[acp", "[acp]\ncommand=1"):
        file.write_text(text)
        with pytest.raises(InvalidArgument):
            AcpSettings.read(file)


@for_each(
    "use, reason",
    [
        ({"kind": "fetch", "rawInput": {"url": "http://x"}}, "fetch"),
        ({"kind": "edit", "locations": [{"path": "/etc/passwd"}]}, "workspace"),
        ({"kind": "edit"}, "0 files"),
        ({"kind": "read", "locations": [{"path": str(row)} for row in range(9)]}, "9 files"),
        ({"kind": "execute"}, "no command"),
        ({"kind": "other", "title": "task"}, "no tool"),
        ({"kind": "execute", "title": "hive_1_send", "rawInput": {}}, "no command"),
        ({"kind": "other", "title": "hive_1_stop"}, "no tool"),
        ({"kind": "other", "title": "hive_send"}, "no tool"),  # a tool of another server
        (
            {"kind": "other", "title": "x", "_meta": {"claudeCode": {"toolName": "hive_send"}}},
            "no tool",
        ),
        ({"title": "x"}, "no tool"),
        ({"toolCallId": "", "kind": "execute", "rawInput": {"command": "ls"}}, "no id"),
        ({"kind": "execute", "rawInput": {"command": "ls"}}, "cannot"),  # no daemon
    ],
)
def test_what_cannot_be_judged_is_rejected(
    tmp_path: Path, use: dict[str, object], reason: str
) -> None:
    gate = AcpGate(str(tmp_path / "none"), tmp_path, "", TOOLS, 0.1)
    options = [{"optionId": kind, "kind": kind} for kind in ("allow_once", "reject_once")]
    call = {"toolCallId": "a", **use}
    answer = gate.decide({"toolCall": call, "options": options})
    assert answer == {"outcome": {"outcome": "selected", "optionId": "reject_once"}}
    assert reason in gate.refusals[0]
    assert gate.decide({"toolCall": call})["outcome"] == {"outcome": "cancelled"}


def test_an_operation_of_hive_needs_no_grant_but_the_answer_for_one_use(tmp_path: Path) -> None:
    gate = AcpGate("/nowhere", tmp_path, "", TOOLS)
    use = {"toolCallId": "a", "kind": "other", "title": "hive_1_send"}
    once = [{"optionId": "1", "kind": "allow_once"}, {"optionId": "2", "kind": "allow_always"}]
    answer = gate.decide({"toolCall": use, "options": once})
    assert answer["outcome"] == {"outcome": "selected", "optionId": "1"}
    answer = gate.decide({"toolCall": {**use, "toolCallId": "b"}, "options": once[1:]})
    assert answer["outcome"] == {"outcome": "cancelled"}


@for_each("kind", ["other", "think", "switch_mode", "", "of its own"])
def test_a_use_of_any_kind_that_ends_without_a_question_needs_a_grant(
    tmp_path: Path, kind: str
) -> None:
    gate = AcpGate(str(tmp_path / "none"), tmp_path, "", TOOLS, 0.1)
    use = {"toolCallId": "a", "kind": kind, "title": "hive_send"}
    gate.note({**use, "status": "in_progress"})
    with pytest.raises(InvalidArgument, match="hive has no tool"):
        gate.note({"toolCallId": "a", "status": "completed"})
    own = {"toolCallId": "b", "kind": kind, "title": "hive_1_send"}
    gate.note({**own, "status": "in_progress"})
    gate.note({"toolCallId": "b", "title": "sent to lead", "status": "completed"})
    failed = {"toolCallId": "c", "kind": kind, "title": "x", "status": "failed"}
    gate.note(failed)  # it was not run


def test_a_tool_that_the_model_made_up_is_answered_by_opencode_without_a_grant(
    tmp_path: Path,
) -> None:
    tools = AcpTools({"send": "operation"}, harmless=OpencodeDialect.harmless)
    gate = AcpGate("/nowhere", tmp_path, "", tools)
    gate.note({"toolCallId": "a", "kind": "other", "title": "invalid", "status": "pending"})
    gate.note({"toolCallId": "a", "title": "Invalid Tool", "status": "completed"})
    with pytest.raises(InvalidArgument, match="hive has no tool"):
        gate.note({"toolCallId": "b", "title": "task", "status": "completed"})
    with pytest.raises(InvalidArgument, match="names no command"):
        gate.note({"toolCallId": "c", "kind": "execute", "title": "invalid", "status": "completed"})


def test_opencode_asks_before_each_use_and_reads_no_settings_of_the_agent(tmp_path: Path) -> None:
    place = CliPlace(["hive-agent"], "/b.sock", tmp_path, tmp_path, None)
    tools = {"bash": "execution", "edit": "execution", "send": "operation"}
    turn = CliTurn("S", "hi", "SYSTEM", "fake", tools=tools, task="T", max_output=5, context=9)
    environment = OpencodeDialect().environment(turn, place)
    settings = json.loads(environment["OPENCODE_CONFIG_CONTENT"])
    asked = {"*": "deny", "hive_*": "allow", "bash": "ask", "edit": "ask"}
    for permission in (
        settings["permission"], settings["agent"]["hive"]["permission"],
        json.loads(environment["OPENCODE_PERMISSION"]),
    ):  # fmt: skip
        assert permission == {**asked, "external_directory": "ask"}
    assert settings["agent"]["hive"]["prompt"] == "SYSTEM"
    # It gives up waiting for a tool after half a minute by itself; a sub-agent may take longer.
    assert settings["experimental"]["mcp_timeout"] > 1000 * ANSWER_SECONDS
    provider = settings["provider"]["hive"]
    assert provider["options"]["headers"] == {"x-hive-task": "T"}
    for name in ("XDG_CONFIG_HOME", "OPENCODE_TEST_HOME"):
        assert environment[name] == f"/opt/hive/clis/{NO_SETTINGS}"
    turn.locked = True
    locked = json.loads(OpencodeDialect().environment(turn, place)["OPENCODE_PERMISSION"])
    assert "ask" not in (locked.get("bash"), locked.get("edit"))
