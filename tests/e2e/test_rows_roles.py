"""Roles, tools, definitions and the log, asked through the sockets in the containers: T1, T7, K1,
K2, K26, K29, K30, K37 and Q39."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator
from typing import Any

import pytest
from e2e.authority_tree import make_authority_host
from e2e.hivehost import HiveHost
from e2e.kills import tell_with_kills
from e2e.shared_hosts import SharedHost

pytestmark = pytest.mark.lab

SECRET = "correct horse battery staple"  # noqa: S105 - that is what it is
REVIEWER = """---
name: reviewer
description: Reviews a branch.
tools: [Read, 'Bash(git:*)']
maxTurns: 2
hive:
  role: worker
  title: Reviewer
  tier: tactical
  requirePlan: true
  limits: {memory: 256M, budgetUsd: 5}
  network: none
---
You review what others wrote.
"""


@pytest.fixture(scope="module")
def host(shared_host: SharedHost) -> HiveHost:
    """Of the tree of authority ann is a lead, cid a worker and tom a task; ada is an architect."""
    made = make_authority_host(shared_host)
    made.grow(ada={"role": "architect"})
    return made


def tool(host: HiveHost, agent: str, *words: str) -> tuple[int, str, str]:
    """Exit status, output and complaint of `hive-agent tool` in a container."""
    done = host.enter(agent, "hive-agent", "tool", *words, check=False)
    return done.returncode, done.stdout, done.stderr


def last(host: HiveHost, **wanted: object) -> dict[str, Any]:
    """The newest event with these fields."""
    return next(
        event for event in reversed(host.events(last=200))
        if all(event[key] == value for key, value in wanted.items())
    )  # fmt: skip


def test_a_worker_executes_and_a_manager_does_not(host: HiveHost) -> None:
    """T1: a manager's `command` gives NotAllowed and an event."""
    assert tool(host, "cid", "command", "--", "echo", "done") == (0, "done\n", "")
    assert last(host, operation="use_tool", caller="cid")["fields"]["argument"] == "echo done"
    assert last(host, operation="end_tool", caller="cid")["fields"]["status"] == "ok"
    for manager in ("ann", "root"):
        status, out, err = tool(host, manager, "command", "--", "echo", "done")
        assert (status, out) == (5, "")
        assert "cannot use bash: you plan and delegate" in err
        event = last(host, operation="use_tool", caller=manager)
        assert (event["allowed"], event["rule"]) == (False, "tools")
    assert tool(host, "ada", "bash", "--", "true")[0] == 5


def test_files_stay_below_the_workspace_and_programs_end_in_time(host: HiveHost) -> None:
    """K37: 50 KB, and the whole group is killed."""
    host.run(
        "hive", "shell", "cid", "--", "sh", "-c",
        "printf 'one two' | hive-agent tool write_file docs/a.txt",
    )  # fmt: skip
    assert tool(host, "cid", "edit", "docs/a.txt", "--old", "two", "--new", "three")[0] == 0
    assert tool(host, "cid", "file_reader", "docs/a.txt")[1] == "one three"
    for path in ("../../etc/passwd", "/etc/passwd"):
        assert tool(host, "cid", "read", path)[0] == 2
    tool(host, "cid", "bash", "--", "sh", "-c", "head -c 60000 /dev/zero | tr '\\0' x >big")
    assert len(tool(host, "cid", "read", "big")[1]) == 50 * 1024
    spawns = "sleep 4321 & setsid sleep 4321 & sleep 4321"
    status, _, err = tool(host, "cid", "bash", "--timeout", "1", "--", "sh", "-c", spawns)
    assert status == 124, err
    assert host.inside("cid", "pgrep", "-f", "sleep 4321", check=False) == ""
    assert last(host, operation="end_tool", caller="cid")["fields"]["status"] == "timeout"


def test_nothing_is_executed_before_the_plan_is_approved(host: HiveHost) -> None:
    """T7: the lock is the daemon's."""
    task = host.ask("ann", "AssignTask", agent="cid", description="paint it", plan_required=True)[
        "task"
    ]
    status, _, err = tool(host, "cid", "bash", "--", "true")
    assert (status, task in err) == (5, True)
    plan = host.ask("cid", "CreatePlan", task=task, steps=[{"title": "one"}])
    assert not plan.error, plan
    assert tool(host, "cid", "bash", "--", "true")[0] == 5
    host.ask("ann", "Send", to="cid", body="approved, go on")
    assert tool(host, "cid", "bash", "--", "true")[0] == 5
    assert not host.ask("ann", "ApprovePlan", task=task, plan=plan["plan"]).error
    assert tool(host, "cid", "bash", "--task", task, "--", "true")[0] == 0
    assert not host.ask("cid", "FinishTask", task=task, status="success", summary="red").error


def test_a_role_bounds_what_an_agent_creates_does_and_reaches(host: HiveHost) -> None:
    """K1, K2, K26: asked on every call, refused with an event."""
    spawn = {"name": "new", "role": "task"}
    for caller, method, parameters, error in (
        ("ada", "Spawn", spawn, "NotAllowed"),
        ("tom", "Spawn", spawn, "NotAllowed"),
        ("cid", "Spawn", {"name": "new", "role": "worker"}, "NotAllowed"),
        ("cid", "Spawn", {**spawn, "tier": "strategic"}, "InvalidArgument"),
        ("ann", "Spawn", {"name": "new", "tier": "strategic"}, "NotAllowed"),
        ("ann", "Spawn", {"name": "new", "role": "kernel"}, "InvalidParameter"),
        ("tom", "Send", {"to": "cid", "body": "x"}, "NotAllowed"),
        ("tom", "Stop", {"agent": "cid"}, "NotAllowed"),
    ):  # fmt: skip
        assert host.ask(caller, method, **parameters).error == error, (caller, method, parameters)
    assert last(host, caller="tom", operation="stop")["allowed"] is False
    host.hive("cap", "grant", "ada", "spawn")
    refused = host.ask("ada", "Spawn", **spawn)
    assert refused.reason == "cannot spawn under ada: your role may not create agents"
    host.hive("cap", "revoke", "ann", "spawn")
    assert host.ask("ann", "Spawn", name="new", role="task").error == "NotAllowed"
    host.hive("cap", "grant", "ann", "spawn")
    shown = host.json("role", "list")
    assert {row["role"] for row in shown} == {
        "daemon", "agent", "architect", "lead", "worker", "task",
    }  # fmt: skip


def test_an_agent_is_made_from_a_definition(host: HiveHost) -> None:
    """What the operator wrote in Markdown is what an agent gets, and its first message."""
    host.run(
        "sh", "-c", "mkdir -p /etc/hive/agents; cat >/etc/hive/agents/reviewer.md", text=REVIEWER
    )
    assert host.hive("definition", "lint") == ""
    host.hive("definition", "load")
    host.hive("agent", "create", "rita", "--parent", "ann", "--definition", "reviewer")
    me = host.ask("rita", "Whoami").parameters
    assert (me["role"], me["title"], me["tier"]) == ("worker", "Reviewer", "tactical")
    (letter,) = host.mail("rita")
    assert (letter["kind"], letter["body"]) == ("definition", "You review what others wrote.")
    assert tool(host, "rita", "bash", "--", "git", "--version")[0] == 0
    assert tool(host, "rita", "bash", "--", "sh", "-c", "git --version; id")[0] == 5
    assert host.ask("rita", "SetDefinition", name="mine").error == "NotAllowed"
    assert me["limits"]["memory_max"] == 256 << 20
    (purse,) = host.ask("rita", "GetUsage")["budgets"]
    assert (purse["agent"], purse["left"]) == ("rita", 5_000_000)


def test_a_definition_bounds_every_task_of_its_agents(host: HiveHost) -> None:
    """Each task needs a plan, and has the turns of the definition."""
    task = host.ask("ann", "AssignTask", agent="rita", description="review it")["task"]
    assert host.call("GetTask", task=task)["task"]["plan_required"] is True
    use = {"tool": "bash", "argument": ["git", "status"], "task": task}
    assert host.ask("rita", "UseTool", **use).error == "NotAllowed"
    plan = host.ask("rita", "CreatePlan", task=task, steps=[{"title": "look"}])["plan"]
    assert not host.ask("ann", "ApprovePlan", task=task, plan=plan).error
    assert not host.ask("rita", "UseTool", **use).error
    assert not host.ask("rita", "ReportUsage", task=task, iterations=2).error
    assert host.ask("rita", "UseTool", **use).error == "LimitReached"
    assert not host.ask("rita", "FinishTask", task=task, status="partial", summary="so far").error


def events_after(host: HiveHost, agent: str, after: int) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = host.ask(agent, "Subscribe", after=str(after))["events"]
    return events


def test_events_are_followed_and_on_disk_once_across_crashes_of_the_daemon(host: HiveHost) -> None:
    """K29, Q39; attack 62."""
    tell_with_kills(
        host, _an_agent_follows_its_subtree_and_resumes(host), _the_files_have_every_event(host)
    )


def _an_agent_follows_its_subtree_and_resumes(host: HiveHost) -> Iterator[None]:
    """K29, Q39: resume from any number; events of other agents do not show."""
    start = int(host.ask("ann", "Subscribe")["next"])
    host.ask("cid", "NoteEvent", kind="step", text="one")
    host.ask("rival", "NoteEvent", kind="step", text="not for ann")
    yield
    host.ask("cid", "NoteEvent", kind="step", text="two")
    result = [event for event in events_after(host, "ann", start) if event["kind"] == "own.step"]
    assert [event["fields"]["text"] for event in result] == ["one", "two"]
    assert {event["caller"] for event in result} == {"cid"}
    assert not [event for event in events_after(host, "tom", start) if event["kind"] == "own.step"]
    assert host.ask("ann", "Subscribe", agents=["rival"]).error == "NotFound"
    forged = host.ask("cid", "NoteEvent", kind="crash", fields={"caller": "daemon"})
    assert forged["kind"] == "own.crash"
    assert last(host, kind="own.crash")["caller"] == "cid"


def on_disk(host: HiveHost) -> list[int]:
    text = host.run("sh", "-c", "cat /var/lib/hive/events/*.jsonl").stdout
    return sorted(json.loads(line)["seq"] for line in text.splitlines())


def _the_files_have_every_event(host: HiveHost) -> Iterator[None]:
    """K29: JSON lines on disk, nothing lost and nothing doubled; attack 62: and no notes."""
    for number in range(2):
        host.ask("cid", "NoteEvent", kind="note", text=str(number))
        assert host.ask("cid", "Stop", agent="ann").error
        yield
    events = [json.loads(line) for line in host.hive("events", "-o", "jsonl").splitlines()]
    chain = [event["seq"] for event in events if not event["kind"].startswith("own.")]
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    host.until(lambda: on_disk(host)[-1] >= chain[-1], "the copy has caught up")
    assert on_disk(host)[: len(chain)] == chain
    assert len(chain) <= len(events) - 2
    modes = host.run("stat", "-c", "%a %G", "/var/lib/hive/events/events.jsonl").stdout.split()
    assert modes == ["640", "hive-operator"]


def journal(host: HiveHost, *words: str) -> list[dict[str, Any]]:
    text = host.run("journalctl", "-o", "json", "--no-pager", *words).stdout
    return [json.loads(line) for line in text.splitlines()]


def test_the_journal_has_fields_to_search_by(host: HiveHost) -> None:
    """K29, K30: message ids, and the trace of a task; what agents note is not in there."""
    task = host.ask("ann", "AssignTask", agent="cid", description="trace me")["task"]
    host.ask("cid", "NoteEvent", kind="step", task=task)
    host.ask("cid", "BeginTask", task=task)
    assert not host.ask("cid", "FinishTask", task=task, status="success", summary="done").error
    newest = last(host, kind="task")
    host.until(lambda: len(journal(host, f"HIVE_EVENT={newest['seq']}")) == 1, "it is there")
    result = journal(host, f"HIVE_TASK={task}")
    assert {row["_SYSTEMD_UNIT"] for row in result} == {"hived.service"}
    assert len({row["HIVE_TRACE_ID"] for row in result}) == 1
    by_kind = {row["HIVE_KIND"]: row["MESSAGE_ID"] for row in result}
    assert len(set(by_kind.values())) == len(by_kind) > 1
    assert "own.step" not in by_kind
    (end,) = journal(host, f"HIVE_EVENT={newest['seq']}")
    assert (end["HIVE_AGENT"], end["HIVE_PARENT"], end["HIVE_OP"]) == (
        "cid", "ann", newest["operation"],
    )  # fmt: skip


def test_a_registered_secret_is_stored_nowhere_else(host: HiveHost) -> None:
    """K29: proved by search, over everything that hived keeps and the whole journal."""
    host.hive("secret", "set", "cid", "token", text=SECRET)
    coded = b64encode(f"user:{SECRET}".encode()).decode()
    for text in (SECRET, coded):
        host.ask("cid", "NoteEvent", kind="leak", text=f"it is {text}", fields={"x": text})
        host.ask("cid", "UseTool", tool="bash", argument=["curl", "-u", text])
        host.ask("cid", "Stop", agent=text[:60])
    newest = host.events(last=1)[-1]["seq"]
    host.until(lambda: on_disk(host)[-1] >= newest, "the copy has caught up")
    for text in (SECRET, coded[8:-4]):
        hits = host.run("grep", "-rlF", "--exclude-dir=secrets", text, "/var/lib/hive", check=False)
        assert hits.stdout == ""
        logged = host.run("sh", "-c", f"journalctl --no-pager -o export | grep -aF '{text}'",
                          check=False).stdout  # fmt: skip
        assert "hived" not in logged
        assert "HIVE_EVENT" not in logged
    assert "***" in last(host, kind="own.leak")["fields"]["text"]


def test_prometheus_can_scrape_the_metrics(host: HiveHost) -> None:
    host.ask("ann", "Send", to="cid", body="x")
    text = host.hive("metrics")
    assert 'hive_agents{state="running"}' in text
    assert "hive_messages_total{" in text
    host.hive("metrics", "--write", "/tmp/hive.prom")
    assert "# TYPE hive_queue_depth gauge" in host.run("cat", "/tmp/hive.prom").stdout
