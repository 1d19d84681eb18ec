"""The real CLIs as runtimes of a session, on a fake model: `scripts/test --clis`.

HIVE_TEST_CLIS names the folder with the installed ones; those that are missing are skipped.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from fixtures import own_server
from fixtures.cli_host import CliHost, cli_host
from fixtures.fake_model import ModelAnswer
from fixtures.session_host import NAME, children_of, end_process
from fixtures.world import fields

pytestmark = pytest.mark.clis
SECONDS = 240.0  # a bound for busy machines


@dataclass(frozen=True)
class CliCalls:
    """How the model of a CLI calls a command and an operation of hive."""

    command: Callable[[str, str], tuple[str, str, object]]
    operation: Callable[[str, str, dict[str, object]], tuple[str, str, object]]


CALLS = {
    "opencode": CliCalls(
        lambda id_, line: (id_, "bash", {"command": line, "description": "a command"}),
        lambda id_, name, values: (id_, f"hive_{name}", values),
    ),
    "codex": CliCalls(
        lambda id_, line: (id_, "exec_command", {"cmd": line}),
        lambda id_, name, values: (id_, f"mcp__hive.{name}", values),
    ),
    "claude": CliCalls(
        lambda id_, line: (id_, "Bash", {"command": line, "description": "a command"}),
        lambda id_, name, values: (id_, f"mcp__hive__{name}", values),
    ),
}


@pytest.fixture(name="runtime", params=list(CALLS))
def _runtime(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(name="host")
def _host(runtime: str, tmp_path: Path) -> Iterator[CliHost]:
    clis = Path(os.environ.get("HIVE_TEST_CLIS", "/nowhere")) / runtime
    if not (clis / "bin" / runtime).exists():
        pytest.skip(f"{runtime} is not installed in {clis.parent}")
    with cli_host(tmp_path, runtime, clis) as host:
        yield host


@pytest.mark.parametrize(
    "alias", ["sonnet", "opus", "haiku", "opusplan", "best", "default", "fable"]
)
def test_an_alias_of_hive_is_no_alias_of_claude(tmp_path: Path, alias: str) -> None:
    """Claude Code has names for its own newest models, and hive-model does not know these."""
    clis = Path(os.environ.get("HIVE_TEST_CLIS", "/nowhere")) / "claude"
    if not (clis / "bin" / "claude").exists():
        pytest.skip(f"claude is not installed in {clis.parent}")
    with cli_host(tmp_path, "claude", clis, alias) as host:
        host.assign("Say hello.")
        host.model.script = [ModelAnswer("hello")] * 3
        host.begin()
        host.until(lambda: len(host.model.requests()) > 0, SECONDS)
        assert {request["model"] for request in host.model.requests()} == {alias}


def body(host: CliHost, at: int) -> str:
    """What the model was sent, as text."""
    return json.dumps(host.model.requests()[at])


def test_a_task_is_done_with_its_own_tools_and_reported_over_mcp(
    host: CliHost, runtime: str
) -> None:
    calls, task = CALLS[runtime], host.assign("Count the lines.")
    host.model.script = [
        ModelAnswer("I count.", [calls.command("a", "echo one > notes.txt; wc -l notes.txt")]),
        ModelAnswer("", [calls.operation("b", "finish_task", {
            "task": task, "status": "success", "summary": "one line",
        })]),
        ModelAnswer("all is done"),
    ]  # fmt: skip
    host.begin()
    host.until(lambda: host.task(task)["state"] == "done", SECONDS)
    host.until(lambda: "closed" in host.kinds(f"task-{task}"), SECONDS)
    assert (host.workspace / "notes.txt").read_text() == "one\n"
    assert "1 notes.txt" in body(host, 1)
    result: Any = host.task(task)["result"]
    assert (result["status"], result["summary"]) == ("success", "one line")
    assert {headers.get("x-hive-task") for headers in host.model.headers} == {task}
    (end,) = host.of_kind("end", f"task-{task}")
    assert (end["status"], end["text"]) == ("done", "all is done")


def test_until_a_plan_is_approved_nothing_is_written_whatever_the_settings_say(
    host: CliHost, runtime: str
) -> None:
    """The agent has left settings that would allow all, in its home and in its workspace."""
    calls, task = CALLS[runtime], host.assign("Plan first.")
    _write_settings(host.state / "home")
    _write_settings(host.workspace)
    plan: dict[str, object] = {"task": task, "steps": ["write it"]}
    host.model.script = [
        ModelAnswer("", [calls.operation("a", "create_plan", plan)]),
        ModelAnswer("", [calls.command("b", "echo no > secret.txt")]),
        ModelAnswer("I wait."),
    ]
    host.begin()
    host.until(lambda: "closed" in host.kinds(f"task-{task}"), SECONDS)
    assert not (host.workspace / "secret.txt").exists()
    assert host.task(task)["state"] == "awaiting_plan_approval"
    assert "cannot use bash" in body(host, 2)


def test_a_tool_that_the_model_made_up_does_not_end_the_turn(host: CliHost) -> None:
    host.model.script = [ModelAnswer("", [("a", "no_such_tool", {})]), ModelAnswer("I see")]
    host.begin()
    host.send("begin")
    assert host.until(host.replies, SECONDS) == ["I see"]
    assert len(host.model.bodies) == 2


def test_a_used_up_budget_ends_the_work_with_a_report(host: CliHost, runtime: str) -> None:
    calls, task = CALLS[runtime], host.assign("Work until the budget ends.")
    refusal = {"message": "the budget of worker is used up", "type": "insufficient_quota",
               "code": "insufficient_quota"}  # fmt: skip
    host.model.script = [
        ModelAnswer("", [calls.command("a", "echo one > notes.txt")]),
        ModelAnswer(status=402, headers={"x-should-retry": "false"},
                    body={"type": "error", "error": refusal}),
        ModelAnswer("one of two is done"),
    ]  # fmt: skip
    host.begin()
    host.until(lambda: host.task(task)["state"] == "done", SECONDS)
    result: Any = host.task(task)["result"]
    assert (result["status"], result["summary"]) == ("partial", "one of two is done")
    assert len(host.model.bodies) == 3
    assert host.model.headers[-1].get("x-hive-hand-back") == "1"


def test_a_cli_that_is_killed_is_told_so_and_its_calls_to_hive_count_once(
    host: CliHost, runtime: str
) -> None:
    calls = CALLS[runtime]
    letter: dict[str, object] = {"to": "lead", "body": "on my way"}
    host.model.script = [
        ModelAnswer("", [calls.operation("a", "send", letter)]),
        ModelAnswer("", [calls.command("b", "echo hangs; sleep 300")]),
        ModelAnswer("back again"),
    ]
    host.begin()
    host.send("begin")
    host.until(lambda: len(host.events("use_tool")) == 1, SECONDS)
    (process,) = children_of(host.server.processes[-1].pid, f"{host.clis}/bin")
    end_process(process)
    host.until(lambda: "back again" in host.replies(), SECONDS)
    assert host.replies() == ["on my way", "back again"]
    assert "You were interrupted" in body(host, -1)


def _write_settings(folder: Path) -> None:
    settings = {
        "disableAllHooks": True,
        "permissions": {"allow": ["Bash", "Write", "Edit"], "defaultMode": "bypassPermissions"},
    }
    for name in ("settings.json", "settings.local.json"):
        file = folder / ".claude" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(settings))
    (folder / ".codex").mkdir()
    (folder / ".codex/config.toml").write_text(
        'notify = ["touch", "secret.txt"]\n'
        '[mcp_servers.other]\ncommand = "touch"\nargs = ["secret.txt"]\n'
    )


def test_a_tool_of_an_own_mcp_server_is_called_under_a_grant(
    host: CliHost, runtime: str, tmp_path: Path
) -> None:
    config = tmp_path / "config"
    config.mkdir()
    words = json.dumps([sys.executable, str(own_server.__file__), "good"])
    (config / "agent.toml").write_text(f"[mcp.own]\ncommand = {words}\nrequired = true\n")
    host.environment["HIVE_CONFIG"] = str(config)
    call = CALLS[runtime].operation
    host.model.script = [
        ModelAnswer("", [call("a", "mcp__own__echo", {"text": "hi"})]), ModelAnswer("done"),
        ModelAnswer("", [call("b", "mcp__own__echo", {"text": "no"})]), ModelAnswer("refused"),
    ]  # fmt: skip
    host.begin()
    host.send("Echo.")
    assert host.until(host.replies, SECONDS) == ["done"]
    assert "you said hi" in body(host, 1)
    assert "servers of your own" in body(host, 0)
    (grant,) = host.events("use_tool")
    assert (fields(grant)["tool"], fields(grant)["argument"]) == ("mcp", "own echo")
    assert [fields(row)["status"] for row in host.events("end_tool")] == ["ok"]
    # A plan that waits for approval locks them like every tool that executes.
    host.assign("Echo again.", plan_required=True)
    host.until(lambda: len(host.model.bodies) == 4, SECONDS)
    assert "cannot use mcp: " in body(host, 3)
    assert "you said no" not in body(host, 3)


def test_a_named_sub_agent_is_forked_on_the_built_in_runtime(
    host: CliHost, runtime: str, tmp_path: Path
) -> None:
    """Z1: by the name that its model sees, and a clone is refused with the reason."""
    agents = tmp_path / "config/agents"
    agents.mkdir(parents=True)
    (agents / "reviewer.md").write_text("---\ntools: Read\n---\nYou are a REVIEWER.\n")
    host.environment["HIVE_CONFIG"] = str(agents.parent)
    host.world.call("operator", "grant_capability", agent=NAME, capability="subagents")

    def link_model(folder: Path) -> None:
        (folder / "model.sock").symlink_to(host.model.path)

    host.server.on_subagent = link_model
    call = CALLS[runtime].operation
    named: dict[str, object] = {"agent": "reviewer", "task": "review it"}
    host.model.script = [
        ModelAnswer("", [call("a", "hive_fork_subagent", named)]),
        ModelAnswer("no faults"),
        ModelAnswer("", [call("b", "hive_fork_subagent", {"agent": "clone", "task": "x"})]),
        ModelAnswer("all is done"),
    ]  # fmt: skip
    host.begin()
    host.send("begin")
    assert host.until(host.replies, SECONDS) == ["all is done"]
    assert "You are a REVIEWER." in body(host, 1)
    assert "no faults" in body(host, 2)
    assert f"your conversation is kept by {runtime}" in body(host, 3)
    kinds = [fields(row)["sub_kind"] for row in host.world.events() if row["kind"] == "subagent"]
    assert kinds == ["named", "named"]


@pytest.mark.parametrize("runtime", ["codex"])  # commands of the others end with their calls
def test_a_command_of_codex_does_not_run_on_behind_its_turn(host: CliHost) -> None:
    line = "echo $$ > pid; sleep 300; echo late"
    host.model.script = [
        ModelAnswer("", [("a", "exec_command", {"cmd": line, "yield_time_ms": 300})]),
        ModelAnswer("well"), ModelAnswer("again"),
    ]  # fmt: skip
    host.begin()
    host.send("begin")
    assert host.until(host.replies, SECONDS) == ["well"]
    place = Path("/proc") / (host.workspace / "pid").read_text().strip()
    host.until(lambda: not place.exists(), SECONDS)
    host.send("again")
    host.until_count(host.replies, 2)


def test_a_killed_turn_goes_on_in_its_own_conversation(host: CliHost, runtime: str) -> None:
    calls = CALLS[runtime]
    host.model.script = [
        ModelAnswer("", [calls.command("a", "echo once >> log.txt")]),
        ModelAnswer("", [calls.command("b", "echo hangs; sleep 300")]),
        ModelAnswer("back again"),
    ]
    host.begin()
    host.send("begin")
    host.until(lambda: len(host.model.bodies) == 2, SECONDS)
    host.until(lambda: len(host.events("use_tool")) == 2, SECONDS)
    host.kill()
    host.begin()
    assert host.until(host.replies, SECONDS) == ["back again"]
    assert (host.workspace / "log.txt").read_text() == "once\n"
    assert "You were interrupted" in body(host, -1)
    assert "echo once >> log.txt" in body(host, -1)
    assert len({row["session"] for row in host.of_kind("cli")} - {""}) == 1
    host.model.script = [*host.model.script, ModelAnswer("still here")]
    host.send("and now?")
    host.until_count(host.replies, 2)
    assert "back again" in body(host, -1)


def test_an_agent_of_the_protocol_that_agent_toml_names_works_as_a_runtime(tmp_path: Path) -> None:
    """It is opencode, as its own users would start it."""
    clis = Path(os.environ.get("HIVE_TEST_CLIS", "/nowhere")) / "opencode"
    if not (program := clis / "bin/opencode").exists():
        pytest.skip(f"opencode is not installed in {clis.parent}")
    calls = CALLS["opencode"]
    with cli_host(tmp_path, "acp", clis) as host:
        provider = {
            "npm": "@ai-sdk/openai-compatible", "models": {"fake": {"name": "fake"}},
            "options": {"baseURL": f"http://127.0.0.1:{host.port}/v1", "apiKey": "hive"},
        }  # fmt: skip
        settings = {
            "model": "own/fake", "small_model": "own/fake", "provider": {"own": provider},
            "enabled_providers": ["own"], "permission": "ask",
            "agent": {"title": {"disable": True}},
        }  # fmt: skip
        config = tmp_path / "config"
        config.mkdir()
        environment = f"{{ OPENCODE_CONFIG_CONTENT = {json.dumps(json.dumps(settings))} }}"
        (config / "agent.toml").write_text(
            f'[acp]\ncommand = ["{program}", "acp"]\nenvironment = {environment}\n'
        )
        host.environment["HIVE_CONFIG"] = str(config)
        name = host.state / "session/acp-server"
        name.parent.mkdir(parents=True)
        name.write_text("hive_1")
        host.model.script = [
            ModelAnswer("", [calls.command("a", "echo one > notes.txt")]),
            ModelAnswer("", [calls.operation("b", "1_send", {"to": "lead", "body": "half"})]),
            ModelAnswer("all is done"),
        ]
        host.begin()
        host.send("begin")
        host.until(lambda: len(host.replies()) == 2, SECONDS)
        assert host.replies() == ["half", "all is done"]
        assert (host.workspace / "notes.txt").read_text() == "one\n"
        assert len(host.events("use_tool")) == len(host.events("end_tool")) == 1
