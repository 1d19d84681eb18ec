"""Attacks 38 and 40 on work: rights that are lost under way, and a name that is used again."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from fixtures.tasks import take
from fixtures.world import Reply, World, rows, texts, world

from hive_core.model.wire.record import OPERATOR

MARK = "of-the-first-one"


@pytest.fixture(name="hive")
def _hive() -> Iterator[World]:
    edges = ("root/lead:lead", "lead/bob:worker", "lead/ann:worker", "root/rival:lead")
    with world(None, *edges) as made:
        for capability in ("trigger", "artifact.write", "message.operator"):
            made.fault(OPERATOR, "grant_capability", agent="bob", capability=capability)
        yield made


def busy(hive: World) -> dict[str, str]:
    """All that bob can have of work, each with the mark in it; ids by which it may be asked for."""
    give = {"agent": "bob", "description": MARK, "plan_required": True}
    ids = {"task": str(hive.call("lead", "assign_task", **give)["task"])}
    ids["plan"] = str(hive.call("bob", "create_plan", task=ids["task"], steps=[MARK])["plan"])
    ids["question"] = str(hive.call("bob", "ask", items=[MARK])["question"])
    ids["wait"] = str(hive.call("bob", "wait_for")["wait_id"])
    later = hive.call("lead", "remind", to="bob", body=MARK, **{"in": 60})
    ids["reminder"] = str(later["reminder"])
    fires = {"when": {"interval": 60}, "action": {"kind": "message", "text": MARK}}
    ids["trigger"] = str(hive.call("lead", "set_trigger", agent="bob", name="t", **fires)["id"])
    hive.call("bob", "open_queue", name="q", may_put=["parent"])
    hive.call("ann", "open_queue", name="q", may_put=["bob"], may_take=["bob"])
    hive.call("lead", "put", queue="bob/q", body=MARK)
    ids["pipe"] = str(hive.call("lead", "open_pipe", agent="bob")["pipe"])
    hive.call("lead", "write_pipe", pipe=ids["pipe"], data=MARK)
    hive.call("bob", "keep_snapshot", data=MARK)
    hive.call("bob", "keep_turn", conversation="main", turn=1, status="done", text=MARK)
    hive.call("bob", "stream_turn", conversation="main", turn=2, text=MARK)
    hive.call("bob", "note_event", kind="k", text=MARK)
    hive.call("lead", "send", to="bob", body=MARK)
    return ids


def test_attack_40_a_new_agent_of_the_same_name_has_none_of_the_old_work(hive: World) -> None:
    ids, first = busy(hive), hive.uuid("bob")
    hive.call(OPERATOR, "destroy", agent="bob")
    hive.call(OPERATOR, "spawn", name="bob", parent="rival", role="worker")
    hive.advance(120)
    seen = []
    for operation in ("recv", "list_tasks", "list_waits", "list_reminders", "list_triggers",
                      "list_queues", "list_pipes", "list_questions", "list_artifacts",
                      "list_topics", "loose_ends", "get_snapshot", "get_usage", "list_turns",
                      "watch_turn"):  # fmt: skip
        for who in ("bob", "rival"):
            seen.append(json.dumps(hive.call(who, operation)))
    seen.append(json.dumps(hive.call("rival", "subscribe", after="1", agents=["bob"])))
    assert not [text for text in seen if MARK in text or first in text]
    asked = {
        "get_task": {"task": ids["task"]}, "get_plan": {"plan": ids["plan"]},
        "finish_task": {"task": ids["task"], "status": "success", "summary": ""},
        "cancel_question": {"question": ids["question"]}, "cancel_wait": {"wait": ids["wait"]},
        "cancel_reminder": {"reminder": ids["reminder"]}, "take": {"queue": "bob/q"},
        "list_fires": {"trigger": ids["trigger"]}, "read_pipe": {"pipe": ids["pipe"]},
        "put": {"queue": "ann/q", "body": "x"},
    }  # fmt: skip
    faults = {operation: hive.fault("bob", operation, **how) for operation, how in asked.items()}
    assert faults == dict.fromkeys(asked, "NotFound")


def test_attack_38_a_former_ancestor_decides_nothing_about_a_moved_agent(hive: World) -> None:
    """Asked, assigned and planned below one manager; moved to another before any decision."""
    ids = busy(hive)
    waiting = hive.ask("lead", "get_question", question=ids["question"], wait=50)
    watching = hive.ask("lead", "watch_task", task=ids["task"], more=True)
    hive.call(OPERATOR, "move", agent="bob", parent="rival")
    hive.advance(0)
    asked: dict[str, Reply] = {
        "answer": {"question": ids["question"], "answers": ["x"]},
        "relay_question": {"question": ids["question"]},
        "approve_plan": {"task": ids["task"], "plan": ids["plan"]},
        "reject_plan": {"task": ids["task"], "plan": ids["plan"], "reason": "x"},
        "cancel_task": {"task": ids["task"]}, "get_plan": {"plan": ids["plan"]},
        "assign_task": {"agent": "bob", "description": "x"},
        "inject_message": {"worker": "bob", "body": "x"},
    }  # fmt: skip
    for operation, how in asked.items():
        assert hive.fault("lead", operation, **how) in ("NotFound", "NotAllowed"), operation
    for exchange in (waiting, watching):
        assert not exchange.pending
        assert str(exchange.replies[-1]["error"]).rpartition(".")[2] in ("NotFound", "NotAllowed")
    fired = [event for event in hive.events() if event["kind"] == "trigger"]
    hive.advance(60)
    result = [event for event in hive.events() if event["kind"] == "trigger"][len(fired) :]
    assert result
    assert not [event for event in result if event["allowed"]]
    hive.call("rival", "answer", question=ids["question"], answers=["yes"])


def test_attack_38_of_two_concurrent_decisions_one_counts(hive: World) -> None:
    ids = busy(hive)
    answers = [
        hive.fault(who, "answer", question=ids["question"], answers=[who])
        for who in ("lead", OPERATOR, "lead")
    ]
    assert answers == ["", "Conflict", "Conflict"]
    newer = hive.call("bob", "create_plan", task=ids["task"], steps=["other"])["plan"]
    plans = [
        hive.fault(who, "approve_plan", task=ids["task"], plan=plan)
        for who, plan in (("lead", ids["plan"]), ("root", newer), ("lead", newer))
    ]
    assert plans == ["Conflict", "", "Conflict"]


def test_attack_38_deferred_work_is_not_done_after_the_right_is_lost(hive: World) -> None:
    """A batch goes on with the rights that its owner has then."""
    begun = hive.call("lead", "run_parallel_workers", tasks=["x", "y"], concurrency=1)
    (worker,) = texts(begun["workers"])
    hive.call(OPERATOR, "move", agent=worker, parent="rival")
    hive.call(OPERATOR, "revoke_capability", agent="lead", capability="spawn")
    take(hive, worker)
    hive.call(worker, "finish_task", status="success", summary="x")
    hive.advance(0)
    below = hive.hive.topology.subtree("lead")
    assert set(below) == {"lead", "bob", "ann"}
    reports = rows(hive.call("lead", "get_batch", batch=begun["batch"])["reports"])
    assert {report["state"] for report in reports} == {"ended"}
    assert hive.hive.topology.parent(worker) == "rival"
