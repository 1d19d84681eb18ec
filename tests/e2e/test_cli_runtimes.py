"""A coding CLI in a real container: its user, its folders, the port of its models, and the gate.

The CLI is a stand-in that speaks the lines of Claude Code; tests/clis has the real ones, in no
container.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from e2e.clone_host import prepare_clone_host, run_turn, wait_for_approval
from e2e.hivehost import HiveHost
from e2e.shared_hosts import SharedHost
from environments import need_environment

pytestmark = pytest.mark.lab

CLI = Path(__file__).parents[1] / "fixtures/fake_claude.py"
ACP = Path(__file__).parents[1] / "fixtures/fake_acp.py"
INSTALL = """
cd /usr/local/lib/hive-clis/claude; cat >bin/claude; chmod 755 bin/claude; echo 1 >.complete
"""
AS_TOOL = ("setpriv", "--reuid=1000", "--regid=1000", "--clear-groups", "--no-new-privs")
# A call of the model by the port that the CLI is told, with the key that it is told.
POST = """
import http.client, json
connection = http.client.HTTPConnection("127.0.0.1", 7001, timeout=30)
body = {"model": "writer", "max_tokens": 9, "messages": [{"role": "user", "content": "x"}]}
words = {"x-api-key": "hive", "content-type": "application/json"}
connection.request("POST", "/v1/messages", json.dumps(body), words)
answer = connection.getresponse()
print(answer.status, json.loads(answer.read())["content"][0]["text"])
"""
USE = {"tool_use_id": "one", "tool_name": "Bash", "tool_input": {"command": "id"}}
GATE = 'cd /agents/cody/state/work; printf %s "$1" | HIVE_TASK="$2" hive-agent gate "$3"'


@pytest.fixture(scope="module")
def host(shared_host: SharedHost) -> HiveHost:
    need_environment("runtime")
    made = prepare_clone_host(shared_host)
    made.run("mkdir", "-p", "/usr/local/lib/hive-clis/claude/bin")
    made.run("sh", "-ec", INSTALL, text=CLI.read_text())
    worker: dict[str, object] = {"parent": "root", "role": "worker"}
    made.grow(cody={**worker, "runtime": "claude", "model": "writer"}, ann=worker)
    return made


def gate(host: HiveHost, verb: str, task: str) -> dict[str, str]:
    """What a hook of the CLI decides about a use of Bash, as the user of the CLI."""
    home = ("env", "HOME=/agents/cody/state/home", "HIVE_WORKSPACE=/agents/cody/state/work")
    words = (*AS_TOOL, *home, "sh", "-c", GATE, "sh", json.dumps(USE), task, verb)
    said = host.enter("cody", *words, check=False)
    if not said.stdout:
        return {"status": str(said.returncode), "why": said.stderr}
    decision: dict[str, Any] = json.loads(said.stdout)["hookSpecificOutput"]
    return {"status": decision["permissionDecision"], "why": decision["permissionDecisionReason"]}


def test_a_cli_runs_as_the_user_of_tools_in_the_folders_of_its_agent(host: HiveHost) -> None:
    assert run_turn(host, "cody", "who are you?") == "well"
    (start,) = map(
        json.loads, host.inside("cody", "cat", "/agents/cody/state/home/starts").splitlines()
    )
    assert (start["uid"], start["folder"]) == (1000, "/tree/state/work")
    assert start["words"][0] == "-p"
    environment = start["environment"]
    assert {name: environment[name] for name in (
        "HOME", "HIVE_SOCKET", "ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY", "HIVE_WORKSPACE",
    )} == {
        "HOME": "/agents/cody/state/home", "HIVE_SOCKET": "/run/hive/broker.sock",
        "ANTHROPIC_BASE_URL": "http://127.0.0.1:7001", "ANTHROPIC_API_KEY": "hive",
        "HIVE_WORKSPACE": "/agents/cody/state/work",
    }  # fmt: skip
    owner = host.inside("cody", "stat", "-c", "%u %a", "/agents/cody/state/home").strip()
    assert owner == "1000 700"


def test_its_program_is_read_only_and_only_in_containers_with_this_runtime(host: HiveHost) -> None:
    write = "cp /bin/true /opt/hive/clis/bin/claude; touch /opt/hive/clis/x; rm -r /opt/hive/clis"
    said = host.enter("cody", "sh", "-c", write, check=False).stderr
    assert said.count("Read-only file system") >= 3, said
    assert host.inside("cody", "sh", "-c", "head -c 2 /opt/hive/clis/bin/claude") == "#!"
    assert host.inside("ann", "sh", "-c", "ls /opt/hive/clis 2>/dev/null", check=False) == ""


def test_its_user_calls_models_by_the_port_and_is_metered(host: HiveHost) -> None:
    """The key in the container is the word `hive`, which opens nothing."""
    said = host.inside("cody", *AS_TOOL, "/usr/bin/python3", "-Ic", POST)
    assert said == "200 well\n"
    calls = [row["fields"] for row in host.own_events()
             if row["kind"] == "model" and row["caller"] == "cody"]  # fmt: skip
    assert [(call["model"], call["tokens_in"]) for call in calls] == [("writer", 100)]


def test_its_gate_denies_while_a_plan_waits_and_passes_what_is_granted(host: HiveHost) -> None:
    # Its own session has begun the task too, and would ask about it after two answers.
    words = {"description": "paint it, and hang", "plan_required": True}
    task = host.call("AssignTask", agent="cody", **words)["task"]
    host.until(lambda: host.call("GetTask", task=task)["task"]["state"] != "queued", "not begun")
    assert gate(host, "begin", task)["status"] == "deny"
    plan = host.ask("cody", "CreatePlan", task=task, steps=["paint"])["plan"]
    refused = gate(host, "begin", task)
    assert refused["status"] == "deny"
    assert "plan" in refused["why"]
    assert not host.call("ApprovePlan", task=task, plan=plan).error
    assert gate(host, "begin", task)["status"] == "allow"
    assert gate(host, "end", task)["status"] == "0"
    uses = [(row["operation"], row["allowed"]) for row in host.own_events()
            if row["caller"] == "cody" and row["operation"].endswith("_tool")]  # fmt: skip
    assert uses == [
        ("use_tool", False),
        ("use_tool", False),
        ("use_tool", True),
        ("end_tool", True),
    ]
    host.call("CancelTask", task=task)


@pytest.mark.long
def test_its_gate_denies_without_the_daemon(host: HiveHost) -> None:
    """It waits for the daemon for 15 seconds first."""
    leader = host.call("Locate", agent="cody")["leader"]
    host.run("systemctl", "stop", "hived.service")
    try:
        use = json.dumps(USE)
        enter = ("nsenter", f"--target={leader}", "--all", "--", *AS_TOOL, "env", "HOME=/tmp")
        words = (*enter, "HIVE_SOCKET=/run/hive/broker.sock", "/opt/hive/bin/hive-agent", "gate")
        said = host.run(*words, "begin", check=False, text=use)
    finally:
        host.run("systemctl", "start", "hived.service")
        host.answers()
    assert said.returncode == 2 or '"deny"' in said.stdout, said


def test_an_agent_waits_for_its_cli_to_be_installed(host: HiveHost) -> None:
    """`hive agent create` names the command at once, and then the agent starts by itself."""
    mark = "/usr/local/lib/hive-clis/claude/.complete"
    host.run("mv", mark, f"{mark}.away")
    create = ("agent", "create", "late", "--runtime", "claude", "--model", "writer")
    said = host.run("hive", *create, check=False)
    reason = "its CLI is not there: run `hive runtime install claude`"
    assert said.returncode != 0
    assert reason in said.stderr
    (alarm,) = [row["text"] for row in host.json("todo") if row["kind"] == "alarm"]
    assert alarm == f"cannot reconcile agent late: {reason}"
    host.run("mv", f"{mark}.away", mark)
    host.wait("running", "late", seconds=90)


def test_the_steps_of_the_how_to_lead_to_an_agent_on_any_program_of_acp(host: HiveHost) -> None:
    """They are run as they stand there; the program and its model are those of this host."""
    page = (Path(__file__).parents[2] / "docs/how-to/acp.md").read_text()
    install, model, create, request, decide = read_blocks(page, "sh")
    assert "hive model test gpt" in model
    _, settings = read_blocks(page, "toml")
    host.run("sh", "-c", "cat >/tmp/my-agent", text=ACP.read_text())
    host.run("sh", "-c", "cat >/tmp/agent.toml", text=settings.replace('"gpt"', '"writer"'))
    host.run("sh", "-ec", f"cd /tmp\n{install}")
    host.run("sh", "-ec", create)
    asked = host.run("sh", "-ec", f"cd /tmp\n{request}").stdout
    approval = json.loads(asked.splitlines()[-1])["approval"]
    wait_for_approval(host, approval, "pending")
    show, approve, chat = decide.strip().splitlines()
    said = host.run("sh", "-ec", show.replace("ID", approval)).stdout
    (commit,) = re.findall(r"\b[0-9a-f]{40}\b", said)[:1]
    approve = approve.replace("ID", approval).replace("COMMIT", commit[:8])
    host.run("sh", "-ec", f"{approve} --yes")
    assert chat == "hive chat coder"
    assert run_turn(host, "coder", "who are you?") == "well"


def read_blocks(page: str, language: str) -> list[str]:
    """The blocks of code in this language."""
    return [dedent(text) for text in re.findall(rf"```{language}\n(.*?)```", page, re.DOTALL)]
