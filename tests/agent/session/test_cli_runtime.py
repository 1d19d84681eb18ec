"""A session whose model is run by a CLI: its turns, what interrupts them, and its grants.

The CLI is a stand-in that speaks the lines of Claude Code; tests/clis has the real ones.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from each import for_each
from fixtures import own_server
from fixtures.cli_host import CliHost, cli_host
from fixtures.world import fields

from hive_core.agent.gate import GateRequest, ToolUse, requested_tools
from hive_core.agent.session.runtimes.claude import ClaudeDialect
from hive_core.agent.session.runtimes.cli_dialect import CliPlace, CliTurn
from hive_core.errors import InvalidArgument

AGENT = Path(__file__).parents[1] / "run_hive_agent.py"
GATE = """
import sys
from hive_core.agent.gate import run_gate
sys.exit(run_gate(sys.argv[1], ["begin"], 0.3))
"""
PATCH = "*** Begin Patch\n*** Add File: a.txt\n+x\n*** End Patch"
FAKE = Path(__file__).parents[2] / "fixtures/fake_claude.py"


@pytest.fixture(name="host")
def _host(tmp_path: Path) -> Iterator[CliHost]:
    program = tmp_path / "clis/bin/claude"
    program.parent.mkdir(parents=True)
    shutil.copy(FAKE, program)
    program.chmod(0o755)
    with cli_host(tmp_path, "claude", tmp_path / "clis") as host:
        yield host


def starts(host: CliHost) -> list[dict[str, Any]]:
    file = host.state / "home/starts"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def test_each_letter_is_a_turn_of_one_conversation_of_the_cli(host: CliHost) -> None:
    host.begin()
    host.send("who are you?")
    assert host.until(host.replies) == ["well"]
    host.send("and now?")
    host.until_count(host.replies, 2)
    host.until(lambda: host.kinds().count("closed") == 2)
    assert host.kinds()[:8] == [
        "open", "input", "input", "system", "cli", "response", "end", "closed",
    ]  # fmt: skip
    first, second = starts(host)
    session = host.of_kind("cli")[0]["session"]
    assert first["words"][-2:] == ["--session-id", session]
    # The process goes on; what it is called for is in a file that the agent cannot change.
    assert (second["words"], second["pid"]) == (first["words"], first["pid"])
    assert len({first["letter"], second["letter"]} - {""}) == 2
    assert "who are you?" in first["prompt"]
    assert "You were interrupted" not in second["prompt"]
    system = host.of_kind("system")[0]["text"]
    assert word_after(first, "--system-prompt") == system
    assert first["served"] is False
    assert "`mcp__hive__send`" in str(system)
    environment = first["environment"]
    assert environment["ANTHROPIC_BASE_URL"] == f"http://127.0.0.1:{host.port}"
    assert environment["ANTHROPIC_API_KEY"] == "hive"
    # What the program has names of its own for, which may be aliases of models of hive too.
    families = ("SONNET", "OPUS", "HAIKU", "FABLE")
    assert {environment[f"ANTHROPIC_DEFAULT_{name}_MODEL"] for name in families} == {"fake"}
    noted = fields(host.events("note_event")[0])["own"]
    assert isinstance(noted, dict)
    assert (noted["model"], noted["tokens_in"], noted["cache_read"]) == ("fake-1", 20, 5)


def test_a_cli_has_the_tools_of_own_servers_from_its_session_and_no_servers(
    host: CliHost, tmp_path: Path
) -> None:
    words = json.dumps([sys.executable, str(own_server.__file__), "plain"])
    (tmp_path / "agent.toml").write_text(f"[mcp.own]\ncommand = {words}\ntools = ['echo']\n")
    host.environment["HIVE_CONFIG"] = str(tmp_path)
    host.begin()
    host.send("who are you?")
    assert host.until(host.replies) == ["well"]
    (start,) = starts(host)
    assert start["served"] is True
    assert list(json.loads(word_after(start, "--mcp-config"))["mcpServers"]) == ["hive"]
    assert "servers of your own" in word_after(start, "--system-prompt")


def word_after(start: Mapping[str, Any], flag: str) -> str:
    return str(start["words"][start["words"].index(flag) + 1])


def test_a_killed_turn_goes_on_in_the_same_conversation_and_says_so(host: CliHost) -> None:
    host.begin()
    task = host.assign("hang around")
    host.until(lambda: starts(host))
    host.kill()
    host.begin()
    host.until(lambda: len(starts(host)) == 2)
    first, second = starts(host)
    assert second["words"][-2:] == ["--resume", first["words"][-1]]
    assert second["prompt"].startswith("<reminder>\nYou were interrupted")
    assert "hang around" in second["prompt"]
    assert first["environment"]["ANTHROPIC_CUSTOM_HEADERS"] == f"x-hive-task: {task}"
    assert host.kill(signal.SIGTERM) == 0


def test_a_stop_ends_the_program_and_urgent_mail_interrupts_it(host: CliHost) -> None:
    host.begin()
    host.send("hang")
    host.until(lambda: starts(host))
    host.send("now!", "operator", priority=0)
    assert host.until(host.replies) == ["well"]
    assert "now!" in starts(host)[1]["prompt"]
    task = host.assign("hang again")
    host.until(lambda: len(starts(host)) == 3)
    host.world.call("lead", "cancel_task", task=task, reason="enough")
    host.until(lambda: host.task(task)["state"] == "cancelled")
    host.until(lambda: "closed" in host.kinds(f"task-{task}"))


def test_a_cli_that_fails_is_told_to_the_parent_with_its_last_words(host: CliHost) -> None:
    host.begin()
    host.send("fail")
    (issue,) = host.until(
        lambda: [row for row in host.world.mail("lead") if row["kind"] == "escalation"]
    )
    assert "claude ended with 3: no luck today" in str(issue["body"])


def test_a_used_up_budget_leads_to_one_call_without_tools(host: CliHost) -> None:
    host.begin()
    task = host.assign("a budget that is small")
    host.until(lambda: host.task(task)["state"] == "done")
    second = starts(host)[1]
    assert word_after(second, "--tools") == ""
    assert json.loads(word_after(second, "--mcp-config")) == {"mcpServers": {}}
    assert "x-hive-hand-back: 1" in second["environment"]["ANTHROPIC_CUSTOM_HEADERS"]
    result = host.task(task)["result"]
    assert isinstance(result, Mapping)
    assert (result["status"], result["summary"]) == ("partial", "well")


def test_a_cli_that_the_host_has_not_installed_is_named(host: CliHost) -> None:
    (host.clis / "bin/claude").unlink()
    host.begin()
    process = host.server.processes[-1]
    host.server.serve_until(lambda: process.poll() is not None)
    assert process.wait() == 78
    assert process.stderr is not None
    assert "`hive runtime install claude`" in process.stderr.read()


def gate(host: CliHost, verb: str, use: Mapping[str, object], **environment: str) -> Any:  # noqa: ANN401 - JSON
    """What the hook answers; None: its status denies."""
    place = host.server.folder / "use.json"
    place.write_text(json.dumps(use))
    out = host.server.folder / "gate.out"
    words = f"exec {sys.executable} {AGENT} gate {verb} <{place} >{out}"
    host.server.start(
        "worker", ["sh", "-c", words], HOME=str(host.state / "home"),
        HIVE_WORKSPACE=str(host.workspace), **environment,
    )  # fmt: skip
    process = host.server.processes[-1]
    host.server.serve_until(lambda: process.poll() is not None)
    text = out.read_text()
    if process.returncode:
        assert process.returncode == 2
        return None
    return json.loads(text)["hookSpecificOutput"] if text else {}


def test_a_use_has_a_grant_from_the_hook_before_it_to_the_hook_after_it(host: CliHost) -> None:
    use = {"tool_use_id": "t/1", "tool_name": "Bash", "tool_input": {"command": "ls -l"}}
    assert gate(host, "begin", use)["permissionDecision"] == "allow"
    (event,) = host.events("use_tool")
    assert fields(event)["argument"] == "ls -l"
    assert host.events("end_tool") == []
    assert gate(host, "end", use) == {}
    (event,) = host.events("end_tool")
    assert fields(event)["status"] == "ok"
    assert gate(host, "fail", use) == {}  # it was returned before
    other = {**use, "tool_name": "WebFetch"}
    assert gate(host, "begin", other)["permissionDecision"] == "deny"


def test_until_its_plan_is_approved_a_use_is_denied_with_the_reason(host: CliHost) -> None:
    task = host.assign("with a plan")
    host.world.call("worker", "begin_task", task=task)
    host.world.call("worker", "create_plan", task=task, steps=["look"])
    use = {"tool_use_id": "t", "tool_name": "Write",
           "tool_input": {"file_path": str(host.workspace / "f")}}  # fmt: skip
    answer = gate(host, "begin", use, HIVE_TASK=task)
    assert answer["permissionDecision"] == "deny"
    assert "plan" in answer["permissionDecisionReason"]
    own = {"tool_use_id": "t", "tool_name": "mcp__hive__get_plan", "tool_input": {}}
    assert gate(host, "begin", own)["permissionDecision"] == "allow"


def test_without_a_daemon_or_with_input_that_is_none_a_use_is_denied(host: CliHost) -> None:
    assert gate(host, "begin", {"tool_name": "Bash"}) is None
    use = {"tool_use_id": "t", "tool_name": "Bash", "tool_input": {"command": "ls"}}
    answer = gate(host, "begin", use, HIVE_SOCKET="/nowhere")
    assert answer is None or answer["permissionDecision"] == "deny"


@for_each(
    "name, values, needed",
    [
        ("Bash", {"command": "git log"}, GateRequest("bash", ["git", "log"], 600.0)),
        ("Bash", {"command": "a | b"}, GateRequest("bash", ["sh", "-c", "a | b"], 600.0)),
        ("Read", {"file_path": "WORK/a/../b.txt"}, GateRequest("read", ["b.txt"])),
        ("Write", {"file_path": "c.txt"}, GateRequest("edit", ["c.txt"])),
        ("Glob", {"pattern": "*"}, GateRequest("list", [])),
        ("Grep", {"pattern": "x", "path": "WORK/src"}, GateRequest("search", ["src"])),
        ("mcp__hive__send", {}, None),
        ("apply_patch", {"command": PATCH}, GateRequest("edit", ["a.txt"])),
        ("apply_patch", {"command": PATCH.replace("a.txt", "../a.txt")}, "command"),
        ("apply_patch", {"command": "no patch"}, "command"),
        ("Read", {"file_path": "/etc/passwd"}, "file_path"),
        ("Read", {"file_path": "WORK/link"}, "file_path"),
        ("Edit", {"file_path": "WORK/../../x"}, "file_path"),
        ("Edit", {"file_path": "WORK"}, "file_path"),
        ("Bash", {"command": "x", "run_in_background": True}, "run_in_background"),
        ("Agent", {}, "tool_name"),
        ("mcp__other__send", {}, "tool_name"),
    ],
)
def test_what_a_tool_of_a_cli_needs(
    tmp_path: Path, name: str, values: dict[str, object], needed: GateRequest | str | None
) -> None:
    if not (tmp_path / "link").is_symlink():
        (tmp_path / "link").symlink_to("/etc/passwd")
    paths = {key: str(value).replace("WORK", str(tmp_path)) if isinstance(value, str) else value
             for key, value in values.items()}  # fmt: skip
    use = ToolUse("t", name, paths)
    if isinstance(needed, str):
        with pytest.raises(InvalidArgument) as refusal:
            requested_tools(use, tmp_path)
        assert refusal.value.field == needed
    else:
        assert requested_tools(use, tmp_path) == ([] if needed is None else [needed])


def test_the_command_line_of_claude_loads_no_settings_of_the_agent(tmp_path: Path) -> None:
    place = CliPlace(["hive-agent"], "/b.sock", tmp_path, tmp_path, os.geteuid())
    turn = CliTurn("S", "hi", "SYSTEM", "fake", tools={"bash": "execution", "send": "operation"})
    words = ClaudeDialect().words("claude", turn, place)
    for flag, value in (
        ("--setting-sources", ""), ("--permission-mode", "dontAsk"), ("--tools", "Bash"),
    ):  # fmt: skip
        assert words[words.index(flag) + 1] == value
    assert "--strict-mcp-config" in words
    settings = json.loads(words[words.index("--settings") + 1])
    (hook,) = settings["hooks"]["PreToolUse"][0]["hooks"]
    assert hook["command"] == (
        "hive-agent gate begin || { echo the hook of hive failed >&2; exit 2; }"
    )


def test_a_gate_ends_by_itself_before_the_cli_would_go_on_without_it(tmp_path: Path) -> None:
    """Both CLIs run the tool when a hook takes too long, so a daemon that is slow must not help."""
    use = {"tool_use_id": "1", "tool_name": "Bash", "tool_input": {"command": "ls"}}
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(path := str(tmp_path / "silent"))
        silent.listen()
        done = subprocess.run(
            [sys.executable, "-c", GATE, path], input=json.dumps(use).encode(),
            capture_output=True, check=False, timeout=30,
        )  # fmt: skip
    assert (done.returncode, done.stdout) == (-signal.SIGALRM, b"")
