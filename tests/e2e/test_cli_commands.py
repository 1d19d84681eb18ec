"""The operator's commands on real containers."""

from __future__ import annotations

import json

import pytest
from e2e.command_host import make_command_host
from e2e.hivehost import HiveHost
from e2e.schema import faults
from e2e.shared_hosts import SharedHost

from hive_core.agent import catalog
from hive_core.cli.core.reference import OUTPUTS

pytestmark = pytest.mark.lab
DEFINITION = """---
name: reviewer
description: Reads what others wrote.
hive:
  role: worker
---
You read what others wrote.
"""


@pytest.fixture(scope="module")
def host(shared_host: SharedHost) -> HiveHost:
    return make_command_host(shared_host)


def test_create_returns_once_the_agent_runs(host: HiveHost) -> None:
    host.hive("agent", "create", "quick", "--", "sleep", "1000")
    shown = host.run("systemctl", "is-active", "hive-agent@quick.service").stdout
    assert shown == "active\n"
    first = host.run("pgrep", "-P", str(host.main_pid("quick"))).stdout.split()[0]
    mapping = host.run("cat", f"/proc/{first}/uid_map").stdout.split()
    assert mapping[0] == "0"
    assert int(mapping[1]) >= 524288
    host.hive("destroy", "quick", "--yes")


def test_a_program_that_does_not_exist_is_named_with_what_a_container_sees(
    host: HiveHost,
) -> None:
    said = host.fails(3, "agent", "create", "nope", "--", "/home/x/prog")
    assert "nope wrote: " in said
    assert "/home/x/prog" in said
    assert "pass a script with --file" in said
    assert "nope ended with 127" in said
    host.hive("destroy", "nope", "--yes")


def test_a_name_in_use_is_refused(host: HiveHost) -> None:
    assert "taken" in host.fails(1, "agent", "create", "worker")


def test_the_tree_as_json_and_in_lines(host: HiveHost) -> None:
    """K39: the CLI shows what the dashboard shows."""
    (root,) = host.json("tree")
    assert root["name"] == "root"
    assert root["parent"] is None
    assert {child["name"] for child in root["children"]} == {"lead", "other"}
    lead = next(child for child in root["children"] if child["name"] == "lead")
    (worker,) = lead["children"]
    assert (worker["name"], worker["parent"], worker["role"]) == ("worker", "lead", "worker")
    assert worker["state"] == "running"
    drawn = host.hive("tree").splitlines()
    assert drawn[0].startswith("root")
    assert any(line.startswith(("│   └── worker", "    └── worker")) for line in drawn)
    assert max(map(len, drawn)) <= 80


def _things(host: HiveHost) -> dict[str, list[str]]:
    """One of each thing; by command, the words that show it."""
    git = ("git", "-C", "/agents/worker/config")
    host.inside("worker", *git, "commit", "--quiet", "--allow-empty", "--message", "as it is")
    commit = host.inside("worker", *git, "rev-parse", "HEAD").strip()
    words = {"agent": "worker", "commit": commit, "message": "as it is"}
    asked = str(host.ask("lead", "RequestApplyCommit", **words)["approval"])
    task = str(host.call("AssignTask", agent="worker", description="read the log")["task"])
    plan = str(host.ask("worker", "CreatePlan", task=task, steps=[{"title": "read it"}])["plan"])
    host.ask("lead", "OpenQueue", name="jobs", may_put=["children"], may_take=["children"])
    host.ask("lead", "Put", queue="lead/jobs", body="one")
    items = [{"prompt": "Which port?", "options": ["80", "443"]}]
    question = str(host.ask("lead", "Ask", to="operator", items=items)["question"])
    host.ask("lead", "StoreArtifact", name="notes", text="something")
    host.ask("lead", "ReportUsage", tokens_in=7)
    host.close_connections()
    host.hive("trigger", "set", "lead", "dawn", "wake up", "--at", "2030-01-01")
    (trigger,) = host.json("trigger", "list")
    host.hive("remind", "lead", "look again", "--in", "3600")
    host.run("tee", "/root/reviewer.md", text=DEFINITION)
    host.hive("definition", "load", "/root/reviewer.md")
    return {
        "approval show": [asked], "task show": [task], "plan list": [task], "plan show": [plan],
        "trigger fires": [str(trigger["id"])], "question show": [question],
    }  # fmt: skip


SHOWN = {
    "status": [], "why": ["lead", "stop", "worker"], "inbox list": ["lead"], "logs": ["worker"],
    "events": [], "restore": [], "converge": ["--dry-run"], "gc": ["--dry-run"],
    "move": ["worker", "--parent", "other", "--dry-run"], "approval list": [], "history": [],
    "cost": [], "budget show": [], "queue list": [], "queue take": ["lead/jobs"], "task list": [],
    "trigger list": [], "artifact list": [], "survey": [], "question list": [],
    "escalation list": [], "reminder list": ["lead"], "role list": [], "tool list": ["worker"],
    "definition list": [], "definition show": ["reviewer"], "agent list": [],
    "secret list": ["worker"], "budget list": [], "meta log": [], "quarantine": [],
    "turn list": ["worker"], "model list": [], "phase show": [], "task assign": ["other", "dig"],
}  # fmt: skip


def test_json_outputs_have_their_published_schemas(host: HiveHost) -> None:
    questions = {**SHOWN, **_things(host)}
    assert questions.keys() == OUTPUTS.keys()
    operations = catalog.load()
    host.hive("agent", "create", "queen", "--definition", "queen")  # for `phase show`
    for command, (name, field) in OUTPUTS.items():
        operation = operations.get(name)
        assert operation is not None
        printed = host.json(*command.split(), *questions[command])
        schema = operation.entry["result"]
        assert isinstance(schema, dict)
        part = schema["properties"][field] if field else schema
        if command == "status":  # the command adds what it asks the host for
            added = ("models", "egress", "disk", "used")
            assert {printed.pop(name) is not None for name in added} == {True}
        assert faults(printed, part, schema) == [], command
        if command == "task assign":
            host.hive("task", "cancel", printed["task"])
    host.hive("destroy", "queen", "--yes")
    # Its agent ends it: to cancel a task that is begun ends the container some time later.
    ended = {"task": questions["task show"][0], "status": "failed", "summary": "read"}
    assert not host.ask("worker", "FinishTask", **ended).error
    for letter in host.json("inbox"):
        host.hive("inbox", "clear", letter["id"])


def test_status_counts_the_agents(host: HiveHost) -> None:
    document = host.json("status")
    assert document["agents"]["running"] == 4
    assert document["refused"] == []
    assert document["hived"]["version"]


def test_stop_and_start_an_agent_and_call_one_that_is_stopped(host: HiveHost) -> None:
    host.hive("stop", "other", "--grace", "1")
    assert host.hive("wait", "other", "--for", "stopped", "--timeout", "10") == "other stopped\n"
    assert "not running" in host.fails(3, "shell", "other")
    assert host.fails(124, "wait", "other", "--for", "running", "--timeout", "0.2")
    host.hive("start", "other")
    assert host.hive("wait", "--for", "running", "other") == "other running\n"


def test_an_unknown_name_exits_with_4_and_suggests_a_similar_one(host: HiveHost) -> None:
    assert "did you mean worker" in host.fails(4, "stop", "wroker")


def test_the_operator_exchanges_messages_with_an_agent(host: HiveHost) -> None:
    """T14: typed text is sent, replies are printed, and the inbox is empty afterwards."""
    assert host.hive("chat", "lead", text="good morning\n\nhow are you\n").splitlines() == [
        "GOOD MORNING", "HOW ARE YOU",
    ]  # fmt: skip
    assert host.hive("inbox", "-o", "name") == ""


def test_a_message_to_a_holding_agent_waits_in_its_inbox(host: HiveHost) -> None:
    sent = host.hive("send", "other", "for later").strip()
    (letter,) = host.json("inbox", "other")
    assert (letter["id"], letter["from"], letter["body"]) == (sent, "operator", "for later")
    got = json.loads(host.shell("other", "hive-agent", "recv"))
    host.shell("other", "hive-agent", "ack", got["messages"][0]["id"])
    assert host.json("inbox", "other") == []


def test_logs_are_shown_and_followed(host: HiveHost) -> None:
    assert "hello from the worker" in host.hive("logs", "worker")
    with host.lab.popen(["hive", "logs", "worker", "-f", "-n", "1"], stdout=-1) as follow:
        assert follow.stdout is not None
        assert "hello" in follow.stdout.readline()
        follow.kill()


def test_why_explains_allowed_and_denied_calls(host: HiveHost) -> None:
    assert host.hive("why", "lead", "stop", "worker").startswith("allowed\n")
    done = host.run("hive", "why", "worker", "stop", "lead", check=False)
    assert done.returncode == 5
    assert done.stdout.startswith("refused\n")
    document = json.loads(
        host.run("hive", "why", "worker", "stop", "lead", "-o", "json", check=False).stdout
    )
    assert document["allowed"] is False
    assert document["reason"] == "not your descendant"
    assert document["commit"]


def test_events_show_callers_operations_and_refusals(host: HiveHost) -> None:
    host.fails(5, "call", "Stop", '{"agent": "lead"}', "--as", "worker")
    lines = [json.loads(line) for line in host.hive("events", "-o", "jsonl").splitlines()]
    assert [line["seq"] for line in lines] == list(range(1, len(lines) + 1))
    refused = [line for line in lines if line["allowed"] is False]
    assert refused[-1]["caller"] == "worker"
    assert refused[-1]["operation"] == "stop"
    keys = {"seq", "time", "kind", "caller", "operation", "target", "allowed", "rule", "reason",
            "commit", "request"}  # fmt: skip
    assert all(keys <= line.keys() for line in lines)


def test_capabilities_and_routes_are_granted_and_revoked(host: HiveHost) -> None:
    host.hive("cap", "grant", "other", "meta.read")
    held = json.loads(host.hive("call", "whoami", "--as", "other"))["capabilities"]
    assert "meta.read" in held
    before = host.main_pid("other")
    host.hive("cap", "revoke", "other", "meta.read")
    # It may hold something of the repository, so it is restarted; who enters it waits for that.
    host.until(lambda: host.main_pid("other") not in (0, before), "it was not restarted")
    assert host.fails(2, "cap", "grant", "other", "everything")
    send = ("call", "send", '{"to": "worker", "body": "psst"}', "--as", "other")
    host.fails(4, *send)
    host.hive("allow", "other", "worker")
    host.hive(*send)
    host.hive("disallow", "other", "worker")
    host.fails(4, *send)


def test_attack_59_the_meta_repo_is_changed_in_a_clone_and_read_by_the_daemon(
    host: HiveHost,
) -> None:
    assert "spawn worker under lead" in host.hive("meta", "log")
    assert "worker" in host.hive("meta", "show")
    commit = "git -c user.name=op -c user.email=op@x commit --allow-empty -q -m 'a note by hand'"
    host.run("sh", "-ec", f"cd; git clone -q hive::meta noted; cd noted; {commit}; git push -q")
    assert "a note by hand" in host.hive("meta", "log", "-n", "1")
    assert host.run("find", "/var/lib/hive/meta", "!", "-user", "hive").stdout == ""
    closed = host.run("stat", "-c", "%a %U", "/var/lib/hive/meta", "/var/lib/hive/applied").stdout
    assert closed == "700 hive\n700 hive\n"
    assert host.hive("tree", "-o", "name").startswith("root\n")


def test_names_of_agents_are_completed(host: HiveHost) -> None:
    env = {"COMP_WORDS": "hive stop wo", "COMP_CWORD": "2", "_HIVE_COMPLETE": "bash_complete"}
    assert host.lab.run(["hive"], env=env).stdout == "plain,worker\n"
    script = host.hive("completion", "bash")
    assert "_HIVE_COMPLETE=bash_complete" in script


def test_destroy_and_restore(host: HiveHost) -> None:
    host.hive("agent", "create", "brief", "--parent", "other", "--", "sleep", "1000")
    uuid = json.loads(host.hive("call", "whoami", "--as", "brief"))["uuid"]
    host.inside("brief", "sh", "-c", "echo kept >/tree/state/file")
    host.fails(2, "destroy", "brief")
    host.hive("destroy", "brief", "--yes")
    host.fails(4, "stop", "brief")
    assert [row["id"] for row in host.json("restore") if row["name"] == "brief"] == [uuid]
    host.hive("restore", uuid)
    assert host.inside("brief", "cat", "/agents/brief/state/file") == "kept\n"
    host.hive("destroy", "brief", "--yes")


def test_a_move_prints_its_effects_and_the_moved_agent_keeps_running(host: HiveHost) -> None:
    before = host.pids("worker", "lead")
    dry = host.json("move", "worker", "--parent", "other", "--dry-run")
    assert (dry["restarts"], dry["live"]) == (["lead"], False)
    assert "restarts  lead\n" in host.hive("move", "worker", "--parent", "other")
    assert host.main_pid("worker") == before["worker"]
    assert host.main_pid("lead") not in (0, before["lead"])
    identity = json.loads(host.inside("worker", "cat", "/run/hive/identity.json"))
    assert identity["parent"] == "other"
    host.hive("move", "worker", "--parent", "lead")


def test_converge_and_gc_find_nothing_to_do(host: HiveHost) -> None:
    assert host.json("converge", "--dry-run")["steps"] == []
    assert "hive-web.socket is active" in host.run("hive", "doctor").stdout


def test_events_and_logs_are_followed_live(host: HiveHost) -> None:
    with host.lab.popen(["hive", "events", "-f", "-n", "1", "-o", "jsonl"], stdout=-1) as follow:
        assert follow.stdout is not None
        last = json.loads(follow.stdout.readline())
        host.fails(5, "call", "Stop", '{"agent": "lead"}', "--as", "worker")
        following = [json.loads(follow.stdout.readline())]
        while following[-1]["operation"] != "stop":
            following.append(json.loads(follow.stdout.readline()))
        assert following[0]["seq"] == last["seq"] + 1
        assert following[-1]["caller"] == "worker"
        follow.kill()
    count = "n=0; while sleep 0.1; do n=$((n + 1)); echo line $n; done"
    host.hive("agent", "create", "talker", "--", "sh", "-c", count)
    with host.lab.popen(["hive", "logs", "talker", "-f", "-n", "1"], stdout=-1) as follow:
        assert follow.stdout is not None
        numbers = [int(follow.stdout.readline().rpartition(" ")[2]) for _ in range(10)]
        follow.kill()
    assert numbers == list(range(numbers[0], numbers[0] + 10))
    host.hive("destroy", "talker", "--yes")


def test_without_a_daemon_commands_exit_with_69(host: HiveHost) -> None:
    host.run("systemctl", "stop", "hived.service")
    assert "is hived running" in host.fails(69, "status")
    host.run("systemctl", "start", "hived.service")
    assert host.hive("tree", "-o", "name").startswith("root\n")
