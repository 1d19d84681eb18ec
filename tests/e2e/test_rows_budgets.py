"""Budgets from inside containers: spec rows K4, K22-K25, K34, Q24 and Q43."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from e2e.hivehost import HiveHost
from e2e.kills import tell_with_kills
from e2e.shared_hosts import SharedHost

pytestmark = pytest.mark.lab
BURN = ("/usr/bin/python3", "-c", "import time\nwhile time.process_time() < 0.1: pass")
SUBTREE = {"memory_max": 512 << 20, "tasks_max": 200}


@pytest.fixture(scope="module")
def host(shared_host: SharedHost) -> HiveHost:
    made = shared_host.prepare("mail")
    made.grow(boss={"role": "lead", "subtree": SUBTREE}, ann={"role": "lead"})
    made.grow(wim={"parent": "boss", "role": "worker"}, wes={"parent": "ann", "role": "worker"})
    return made


def give(host: HiveHost, caller: str, agent: str, kind: str, amount: int, **more: object) -> Any:  # noqa: ANN401 - a reply
    words = {"agent": agent, "kind": kind, "amount": amount, **more}
    if caller == "operator":
        return host.call("AllocateBudget", **words)
    return host.ask(caller, "AllocateBudget", **words)


def row(host: HiveHost, agent: str, kind: str) -> dict[str, Any]:
    """What pays for an agent."""
    budgets = [
        budget for budget in host.call("GetUsage", agent=agent)["budgets"] if budget["kind"] == kind
    ]
    return dict(budgets[0]) if budgets else {}


def usage(host: HiveHost, key: str, kind: str, **words: object) -> int:
    sums = host.call("GetUsage", **words)["sums"]
    return sum(sum_["amount"] for sum_ in sums if (sum_["key"], sum_["kind"]) == (key, kind))


def test_an_agent_allocates_from_its_budget_and_the_operator_adds_to_it(host: HiveHost) -> None:
    """K22: an allocation comes from the parent; more than the remainder is refused."""
    assert give(host, "operator", "root", "tokens", 1000)["source"] == "operator"
    assert give(host, "root", "boss", "tokens", 300)["source"] == "root"
    assert host.ask("wim", "ReportUsage", tokens_in=100, model="m1")["budgets"][0]["left"] == 200
    refused = give(host, "boss", "wim", "tokens", 201)
    assert refused.error == "LimitReached"
    assert "the token budget of boss has 200 left" in refused.reason
    assert give(host, "root", "boss", "tokens", 50)["left"] == 250
    assert row(host, "wim", "tokens")["spent"] == 100
    assert give(host, "wim", "wim", "tokens", 5).error == "NotAllowed"
    assert give(host, "wes", "wim", "tokens", 5).error in {"NotAllowed", "NotFound"}


def test_an_agent_over_budget_is_warned_then_parked_and_its_payer_is_asked(host: HiveHost) -> None:
    """Q43, K22: warned once, new work refused by name, its giver asked, an answer lets it go on."""
    give(host, "root", "ann", "tokens", 100)
    task = host.ask("ann", "AssignTask", agent="wes", description="dig", deadline=0.0)["task"]
    host.mail("wes")
    host.ask("wes", "ReportUsage", tokens_out=85, task=task)
    host.ask("wes", "ReportUsage", tokens_out=1, task=task)
    low = [message["body"] for message in host.mail("ann") if message["kind"] == "budget"]
    assert low == ["the token budget of ann runs low: 85 of 100 tokens spent"]
    host.ask("wes", "ReportUsage", tokens_out=40, task=task)
    refused = host.ask("ann", "AssignTask", agent="wes", description="dig deeper")
    assert (refused.error, refused.parameters["budget"]) == ("LimitReached", "ann")
    assert any("report now" in message["body"] for message in host.mail("wes"))
    (question,) = host.ask("root", "ListQuestions")["questions"]
    host.until(
        lambda: host.call("GetTask", task=task)["task"]["state"] != "in_progress", "works on"
    )
    # Its container would be restarted beside the tests behind this one, if it did not confirm.
    host.ask("wes", "FinishTask", task=task, status="stopped", summary="")
    host.ask("root", "Answer", question=question["id"], answers=["500"])
    assert row(host, "ann", "tokens")["left"] == 500 - 26
    assert not host.ask("ann", "AssignTask", agent="wes", description="again").error
    kinds = [event["operation"] for event in host.own_events() if event["kind"] == "budget"]
    assert {"low", "used_up", "stopped", "filled"} <= set(kinds)


def test_a_container_is_stopped_at_the_end_of_its_time_budget_and_resumes_with_more(
    host: HiveHost,
) -> None:
    """K22, K23: time is metered by the daemon; at its end the container is stopped: `budget`.

    K25: processor time is what the kernel counts, and goes on where the last machine ended.
    """
    host.grow(tim={"parent": "root", "role": "worker"})
    give(host, "operator", "root", "time", 100_000)
    before = usage(host, "tim", "cpu")
    host.shell("tim", *BURN)
    burnt = usage(host, "tim", "cpu")
    assert burnt >= before + 100
    assert usage(host, "root", "cpu", by="subtree") > burnt
    give(host, "root", "tim", "time", 1)
    host.wait("stopped", "tim", seconds=30)
    answer = usage(host, "tim", "cpu")
    assert answer >= burnt
    host.hive("budget", "top-up", "tim", "time", "1h")
    host.wait("running", "tim")
    assert usage(host, "tim", "cpu") > answer
    result = row(host, "tim", "time")
    assert (result["agent"], result["owed"]) == ("tim", 0)
    assert 3500 < result["left"] <= 3600
    stopped = [event for event in host.own_events() if event["operation"] == "stopped"]
    assert any("time budget of tim" in event["reason"] for event in stopped)


def test_calls_messages_and_children_are_bounded(host: HiveHost) -> None:
    """K23, K4: calls in 60 seconds, messages and new agents, each refused by the name of whose."""
    give(host, "operator", "ann", "messages", 1)
    give(host, "operator", "ann", "children", 1)
    assert not host.ask("ann", "Send", to="wes", body="one").error
    assert "message budget of ann" in host.ask("wes", "Send", to="ann", body="two").reason
    assert not host.ask("ann", "Spawn", name="kit", role="task", wait=20).error
    assert "agents created of ann is used up" in host.ask("ann", "Spawn", name="kat").reason
    give(host, "operator", "ann", "calls", 5)
    errors = [host.ask("wes", "Whoami").error for _ in range(6)]
    assert errors == [""] * 5 + ["LimitReached"]
    assert host.ask("boss", "Whoami").error == ""
    refused = host.ask("ann", "Whoami")
    assert refused.parameters["budget"] == "ann"
    assert 0 < refused.parameters["retry_after"] <= 61
    host.call("AllocateBudget", agent="ann", kind="calls", close=True)
    host.call("Destroy", agent="kit", wait=20)


def test_a_group_is_one_slice_and_one_budget_that_new_children_join(host: HiveHost) -> None:
    """K24: caps of processes and of tokens for a branch; who comes later is in both."""
    host.grow(new={"parent": "boss", "role": "worker"})
    for name in ("wim", "new"):
        rows = {row["what"]: row for row in host.json("budget", "group", name)}
        assert rows["processes"]["most"] == SUBTREE["tasks_max"]
        assert rows["memory"]["most"] == SUBTREE["memory_max"]
        assert rows["processes"]["used"] > 0
        assert rows["cpu"]["used"] > 0
        assert rows["tokens"]["group"] == "budget of boss"
    groups = {host.json("budget", "group", name)[0]["group"] for name in ("boss", "wim", "new")}
    assert len(groups) == 1
    assert host.ask("new", "ReportUsage", tokens_in=10)["budgets"][0]["agent"] == "boss"


def test_a_task_has_a_budget_of_its_own_and_gives_back_the_rest(host: HiveHost) -> None:
    """K34: out of the assigner's purse, for this task alone; what is left goes back once."""
    host.grow(own={"parent": "boss", "role": "worker"})
    before = row(host, "boss", "tokens")
    words = ("hive-agent", "assign-task", "own", "dig", "--budget", '{"tokens": 40}')
    task = json.loads(host.inside("boss", *words, "-o", "json"))["task"]
    assert row(host, "boss", "tokens")["left"] == before["left"] - 40
    host.ask("own", "ReportUsage", tokens_in=15, task=task)
    assert host.call("GetTask", task=task)["budget"][0]["left"] == 25
    host.ask("own", "FinishTask", task=task, status="success", summary="dug")
    after = row(host, "boss", "tokens")
    assert (after["left"], after["spent"]) == (before["left"] - 15, before["spent"])


def test_bounds_and_accounts_outlive_kills_of_the_daemon(host: HiveHost) -> None:
    """K23, K25."""
    tell_with_kills(
        host, _reported_tokens_an_hour_and_context_are_bounded(host),
        _accounts_outlive_destroyed_agents(host),
    )  # fmt: skip


def _reported_tokens_an_hour_and_context_are_bounded(host: HiveHost) -> Iterator[None]:
    """Over its bound a branch gets no task and somebody is asked; so it is after kill -9."""
    give(host, "operator", "root", "tokens", 10_000)
    host.call("AllocateBudget", agent="ann", kind="tokens", close=True)
    give(host, "operator", "ann", "tokens_per_hour", 1000)
    host.ask("wes", "ReportUsage", tokens_out=1200, context=50, turn_seconds=[0.7, 3])
    yield
    host.until(lambda: _hears(host, "wes"), "its socket is not served")
    refused = host.ask("ann", "AssignTask", agent="wes", description="dig")
    assert "1200 of 1000 tokens an hour, as reported" in refused.reason
    assert 3500 < refused.parameters["retry_after"] <= 3660
    asked = host.call("ListQuestions")["questions"]
    (id_,) = (question["id"] for question in asked if "tokens an hour more?" in str(question))
    host.call("Answer", question=id_, answers=["500"])
    assert row(host, "wes", "tokens_per_hour")["left"] == 300
    give(host, "operator", "wes", "context", 1000)
    host.ask("wes", "ReportUsage", context=1000)
    refused = host.ask("ann", "AssignTask", agent="wes", description="dig")
    assert "tokens of context of wes is reached" in refused.reason
    host.ask("wes", "ReportUsage", context=10, turn_seconds=4)
    task = host.ask("ann", "AssignTask", agent="wes", description="dig")["task"]
    host.ask("wes", "FinishTask", task=task, status="success", summary="dug")
    assert 'hive_turn_duration_seconds_count{role="worker"} 1.0' in host.hive("metrics")


def _hears(host: HiveHost, agent: str) -> bool:
    return agent in host.inside(agent, "hive-agent", "whoami", check=False)


def _accounts_outlive_destroyed_agents(host: HiveHost) -> Iterator[None]:
    """By user, node, agent, tier and branch; exact over kill -9, kept after a destroy."""
    host.grow(max={"parent": "boss", "role": "worker"})
    before = usage(host, "boss", "tokens_in", by="subtree")
    for number in range(3):
        for again in range(2):
            key = f"turn-{number}"
            host.ask(
                "max", "ReportUsage", tokens_in=7, cost=5, tier="tactical", idempotency_key=key
            )
            if (number, again) == (1, 0):
                yield
                host.until(lambda: _hears(host, "max"), "its socket is not served")
    uuid = host.uuid("max")
    host.close_connections("max")
    host.call("Destroy", agent="max", wait=20)
    busy = usage(host, "boss", "cpu", by="subtree")
    yield
    assert usage(host, "boss", "cpu", by="subtree") >= busy
    gone = f"max ({uuid[:8]}, gone)"
    assert usage(host, gone, "tokens_in") == 21
    assert usage(host, gone, "money") == 15
    assert usage(host, gone, "time") > 0
    assert usage(host, gone, "cpu") > 0
    assert usage(host, "boss", "tokens_in", by="subtree") == before + 21
    assert usage(host, "tactical", "tokens_in", by="tier") == 21
    node = host.run("uname", "-n").stdout.strip()
    totals = {
        usage(host, key, "tokens_in", by=by) for key, by in (("operator", "user"), (node, "node"))
    }
    assert len(totals) == 1
    table = host.hive("cost", "--by", "subtree").splitlines()
    assert table[0].split()[:4] == ["SUBTREE", "TOKENS", "MONEY", "USD"]
    assert any(line.startswith("boss") and "~" in line for line in table)


def test_a_task_has_limits_of_its_own(host: HiveHost) -> None:
    """Q24: at its bound of tool calls or turns a task gets no tool and a notice, and is stopped."""
    words = {"agent": "wim", "description": "x", "deadline": 0.0}
    task = host.ask("boss", "AssignTask", caps={"tool_calls": 1, "iterations": 5}, **words)["task"]
    host.mail("wim")
    use = {"tool": "command", "argument": ["true"], "task": task}
    grant = host.ask("wim", "UseTool", **use)["grant"]
    host.ask("wim", "EndTool", grant=grant)
    refused = host.ask("wim", "UseTool", **use)
    assert "1 of 1 tool calls; report now" in refused.reason
    assert any("report now what you have" in message["body"] for message in host.mail("wim"))
    stopping = {"stopping", "cancelled"}
    host.until(lambda: host.call("GetTask", task=task)["task"]["state"] in stopping, "goes on")
    assert usage(host, task, "tool_calls", by="task") == 1
