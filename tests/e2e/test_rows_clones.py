"""Clones of real sessions (rows Z1 to Z17), each in the container of its agent."""

from __future__ import annotations

import json
from typing import Any

import pytest
from e2e.clone_host import (
    BOB,
    deploy,
    prepare_clone_host,
    propose,
    records,
    run_turn,
    wait_for_approval,
)
from e2e.hivehost import HiveHost
from e2e.shared_hosts import SharedHost
from environments import need_environment

pytestmark = pytest.mark.lab

# Name, user, capabilities and no_new_privs of the fork server and of what it forked.
FORKED = r"""
cd /proc; for name in hive-forkserver hive-runtime; do
  sed -sn '/^\(Name\|Uid\|CapEff\|NoNewPrivs\):/p' $(grep -lx $name */comm | sed s/comm/status/) |
    awk '{printf "%s ", $2} END {print ""}'
done
"""


@pytest.fixture(scope="module")
def host(shared_host: SharedHost) -> HiveHost:
    need_environment("runtime")
    return prepare_clone_host(shared_host, agents=BOB)


def subagent_events(host: HiveHost, agent: str) -> list[dict[str, Any]]:
    """What the log has of the sub-agents of an agent: opened, closed."""
    rows = [row for row in host.own_events() if row["kind"] == "subagent"]
    own = {row["fields"]["sub"] for row in rows if row["caller"] == agent}
    return [row["fields"] for row in rows if row["fields"]["sub"] in own]


def test_a_session_forks_a_clone_which_runs_as_its_own_user(host: HiveHost) -> None:
    """Z1, Z8, Z11: model, session, sockets, a process of another user, metering, the result."""
    said = run_turn(host, "bob", "fork it")
    opened, closed = subagent_events(host, "bob")
    assert opened["sub_kind"] == "clone"
    assert said == f"my clone had uid {opened['uid']}", said
    assert (closed["status"], closed["model_calls"]) == ("success", 2)
    (result,) = [row for row in records(host, "bob") if row["t"] == "result"]
    answer = json.loads(result["content"])
    assert (answer["status"], answer["error"]) == ("success", None)
    assert answer["content"] == f"uid {opened['uid']}"
    for metadata in (answer["metadata"], closed["metadata"]):
        assert (metadata["agent"], metadata["model"]) == ("clone", "actor-1")
        assert metadata["provider"]
        assert metadata["latency_ms"] > 0
        assert metadata["usage"]["output_tokens"] > 0
    used = [row for row in host.own_events() if row["operation"] == "use_tool"]
    assert used[-1]["fields"]["sub"] == opened["sub"]
    assert host.inside("bob", "ls", "/run/hive/sub") == ""
    assert host.inside("bob", "ls", "/agents/bob/state/sub") == ""
    # The runtime was forked by a server that can take a user and end a process, and no more.
    server, runtime = host.inside("bob", "sh", "-c", FORKED).splitlines()
    assert server.split() == ["hive-forkserver", "0", "00000000000000e0", "1"]
    assert runtime.split() == ["hive-runtime", "1000", "0000000000000000", "1"]


def test_the_first_request_of_a_clone_begins_as_the_next_one_of_its_parent(host: HiveHost) -> None:
    """Z2, Z3, Z13, Q51: tools, system prompt and history are the same bytes, by their digest.

    hive-model measures it: the prefix of a request is all of it but the last message.
    """
    calls = [row["fields"] for row in host.own_events()
             if row["kind"] == "model" and row["caller"] == "bob"]  # fmt: skip
    first, clone, after, parent = calls
    assert [bool(call.get("sub")) for call in calls] == [False, True, True, False]
    assert clone["prefix"] == parent["prefix"]
    assert len({first["prefix"], clone["prefix"], after["prefix"]}) == 3


# Every setting of clones, and two definitions: one stands for a clone, one is an agent of its own.
SETTINGS = """
[subagents]
enabled = true
agents_dir = "helpers"
max_depth = 3
ipc_mode = "artifact"
default_model = "actor"
timeout_seconds = 300
cleanup_temp_files = false
allow_clones = true
max_clone_fork_depth = 1
clone_sysprompt_followup = "FOLLOW <up>"
clone_userprompt_prefix = "PREFIX"
clone_disable_tools = ["bash", "hide:edit"]
"""
TWIN = '---\ntools: "."\n---\n'
REVIEWER = "---\nname: reviewer\ntools: [bash]\n---\nYou are a REVIEWER.\n"
# The records of the only sub-agent whose files are there.
LOG = "cat /agents/bob/state/sub/*/.session/*/log; rm -r /agents/bob/state/sub/*"


@pytest.fixture(scope="module")
def settings(host: HiveHost) -> None:
    """Give bob settings of its own, which keep the files of sub-agents."""
    deploy(host, "bob", {
        "agent.toml": SETTINGS, "helpers/twin.md": TWIN, "helpers/reviewer.md": REVIEWER,
    })  # fmt: skip


def kept_log(host: HiveHost) -> list[dict[str, Any]]:
    """What a sub-agent of bob has written, beginning with what it was given."""
    lines = host.inside("bob", "sh", "-c", LOG).splitlines()
    return [json.loads(line.split(" ", 2)[2]) for line in lines]


@pytest.mark.usefixtures("settings")
def test_the_settings_of_clones_hold_for_a_clone(host: HiveHost) -> None:
    """Z1, Z5, Z6, Z7, Z9, Z17: a follow-up, a prefix, and tools that it may not use."""
    assert run_turn(host, "bob", "fork your twin") == "my twin says: tool disabled: edit"
    (*_, opened, _) = subagent_events(host, "bob")
    assert (opened["sub_kind"], opened["clone_depth"]) == ("clone", 1)
    assert not {"bash", "edit"} & set(opened["tools"])  # the daemon refuses them too
    log = kept_log(host)
    (*_, system) = [row["text"] for row in records(host, "bob") if row["t"] == "system"]
    order = next(row for row in log if row["t"] == "fork")
    assert order["system"] == f"{system}\nFOLLOW <up>"
    shown = {row["name"] for row in order["tools"]}
    assert "bash" in shown
    assert "edit" not in shown
    after = log[log.index(order) :]
    answers = [row["content"] for row in after if row["t"] == "result"]
    assert any("tool disabled: bash" in text for text in answers), answers
    assert "system" not in [row["t"] for row in after]
    work = "find /agents/bob/state -name made"
    assert host.inside("bob", "sh", "-c", work) == ""


@pytest.mark.usefixtures("settings")
def test_a_named_sub_agent_has_a_prompt_of_its_own_and_is_killed_whole_at_its_time_limit(
    host: HiveHost,
) -> None:
    """Z10, Z11: no setting of clones is for it, and what it started ends with it."""
    before = len(subagent_events(host, "bob"))
    assert run_turn(host, "bob", "ask the reviewer") == "did not end in 4 s and was killed"
    opened, closed = subagent_events(host, "bob")[before:]
    assert (opened["depth"], opened.get("clone_depth", 0)) == (1, 0)
    assert opened["tools"] == ["bash"]
    assert closed["status"] == "timeout"
    assert host.inside("bob", "pgrep", "-f", "sleep 4711", check=False) == ""
    log = kept_log(host)
    (system,) = [row["text"] for row in log if row["t"] == "system"]
    assert "You are a REVIEWER." in system
    written = json.dumps([row for row in log if row["t"] != "fork"])
    assert not [word for word in ("FOLLOW", "PREFIX", "ask the reviewer") if word in written]


@pytest.mark.usefixtures("settings")
def test_a_setting_that_does_not_exist_is_refused_with_its_name(host: HiveHost) -> None:
    """Z9: before anybody is asked to approve it."""
    id_, _ = propose(host, "bob", {"agent.toml": f"{SETTINGS}max_dept = 1\n"})
    wait_for_approval(host, id_, "refused")
    assert "max_dept" in host.call("GetApproval", id=id_)["approval"]["reason"]
