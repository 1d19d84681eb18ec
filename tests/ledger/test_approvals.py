"""Approvals, generations, waves and hellos as rows."""

from __future__ import annotations

from pathlib import Path

import pytest
from each import for_each

from hive_core.errors import Internal, NotFound
from hive_core.ledger.approvals.rollouts import RolloutAgent
from hive_core.ledger.approvals.storage import ApprovalRequest
from hive_core.ledger.core.ledger import Ledger
from hive_core.ledger.machines.check_ins import CheckIn
from hive_core.model.config.approval import (
    COURSE,
    FINALS,
    Approval,
    ApprovalKind,
    ApprovalState,
    Binding,
    Effect,
    Generation,
)
from hive_core.model.states import IllegalTransition

COMMIT = "ab" * 20


def approval_request(agent: str = "a", requester: str = "p", **more: object) -> ApprovalRequest:
    fields: dict[str, object] = {
        "kind": ApprovalKind.CONFIG, "agent": agent, "requester": requester, "source": agent,
        "message": "why", "binding": Binding(COMMIT), "job": "j", **more,
    }  # fmt: skip
    return ApprovalRequest(**fields)  # type: ignore[arg-type]


def create_approval(
    ledger: Ledger, now: float = 1.0, request: ApprovalRequest | None = None
) -> Approval:
    return ledger.approvals.create(request or approval_request(), now, now + 100)


def test_an_approval_comes_back_from_disk_as_it_was_made(folder: Path) -> None:
    ledger = Ledger.open(folder / "hive.db", primed=0)
    with ledger.transaction():
        result = create_approval(ledger, request=approval_request(review={"generation": 1}))
        binding = Binding(COMMIT, "t" * 40, "sha256-x", "b" * 40, "l", "m")
        ledger.approvals.record_review(
            result.id, binding, Effect.RESTART, {"secrets": ["k"]}, {"files": 3}
        )
    ledger.close()
    ledger = Ledger.open(folder / "hive.db", primed=0)
    again = ledger.approvals.get(result.id)
    assert again is not None
    assert (again.binding, again.effect) == (binding, Effect.RESTART)
    assert (dict(again.requested), dict(again.review)) == ({"secrets": ["k"]}, {"files": 3})
    assert (again.state, again.created, again.expires) == (ApprovalState.RECEIVED, 1.0, 101.0)
    assert len(result.id) == 12
    assert int(result.id, 16) >= 0
    ledger.close()


def test_a_decision_has_its_operator_and_time_and_the_end_has_its_time(ledger: Ledger) -> None:
    with ledger.transaction():
        result = create_approval(ledger)
        pending = ledger.approvals.move(result.id, "check", 2.0)
        assert (pending.decided_by, pending.decided, pending.ended) == ("", None, None)
        approved = ledger.approvals.move(result.id, "approve", 3.0, by="0")
        assert (approved.decided_by, approved.decided, approved.open) == ("0", 3.0, True)
        for at, event in enumerate(("build", "deploy", "watch")):
            ledger.approvals.move(result.id, event, 4.0 + at)
        failed = ledger.approvals.move(result.id, "fail", 9.0, reason="no hello")
    assert (failed.state, failed.reason, failed.ended) == (ApprovalState.FAILED, "no hello", 9.0)
    assert (failed.decided_by, failed.decided) == ("0", 3.0)
    assert ledger.approvals.open() == []


@for_each(
    "event, state",
    [
        (event, state)
        for event in sorted({move.event for move in COURSE.transitions})
        for state in sorted(FINALS)
    ],
)
def test_nothing_leads_out_of_an_end_not_even_past_the_code(
    ledger: Ledger, state: ApprovalState, event: str
) -> None:
    """Attack 21: an approval is used once."""
    with ledger.transaction():
        result = create_approval(ledger)
        for step in _way(state):
            ledger.approvals.move(result.id, step, 2.0)
        with pytest.raises(IllegalTransition):
            ledger.approvals.move(result.id, event, 3.0)
        with pytest.raises(Internal):
            ledger.connection.run("UPDATE approvals SET state = 'approved'")


def _way(goal: str) -> list[str]:
    """Events that lead to a state."""
    ways: dict[str, list[str]] = {COURSE.start: []}
    while goal not in ways:
        for move in COURSE.transitions:
            if move.source in ways:
                ways.setdefault(move.to, [*ways[move.source], move.event])
    return ways[goal]


def test_a_first_state_other_than_received_is_refused_by_the_database(ledger: Ledger) -> None:
    sql = (
        "INSERT INTO approvals (id, kind, agent, requester, source, message, binding, state,"
        " created, expires) VALUES ('x', 'config', '', '', '', '', '{}', 'approved', 0, 0)"
    )
    with pytest.raises(Internal), ledger.transaction():
        ledger.connection.run(sql)


def test_pages_are_the_newest_first_of_one_requester_or_of_all(ledger: Ledger) -> None:
    with ledger.transaction():
        ids = [
            create_approval(ledger, n, approval_request(requester="pq"[n % 2])).id for n in range(6)
        ]
        ledger.approvals.move(ids[0], "refuse", 9.0)
    page = ledger.approvals.page(None, 4)
    assert [approval.id for approval in page] == ids[:1:-1]
    assert [approval.id for approval in ledger.approvals.page(page[-1].id, 4)] == ids[1::-1]
    assert [approval.id for approval in ledger.approvals.page(None, 9, "p")] == [
        ids[4],
        ids[2],
        ids[0],
    ]
    assert [approval.id for approval in ledger.approvals.page(None, 9, "p", open_=True)] == [
        ids[4],
        ids[2],
    ]
    assert ledger.approvals.page("no such", 9) == []


def test_recent_and_waiting_requesters_are_counted(ledger: Ledger) -> None:
    with ledger.transaction():
        old = create_approval(ledger, 1.0, approval_request(requester="old"))
        done = create_approval(ledger, 1.0, approval_request(requester="done"))
        ledger.approvals.move(done.id, "refuse", 2.0)
        late = create_approval(ledger, 50.0, approval_request(requester="late"))
        ledger.approvals.move(late.id, "refuse", 51.0)
    assert sorted(ledger.approvals.requesters(since=40.0)) == [("late", False), ("old", True)]
    assert ledger.approvals.find_all([old.id, "nothing"]) == [old]


def test_only_undecided_ones_expire(ledger: Ledger) -> None:
    with ledger.transaction():
        first, second = create_approval(ledger, 0.0), create_approval(ledger, 50.0)
        for approval in (first, second):
            ledger.approvals.move(approval.id, "check", 51.0)
        approved = create_approval(ledger, 0.0)
        for event in ("check", "approve"):
            ledger.approvals.move(approved.id, event, 51.0)
    assert [approval.id for approval in ledger.approvals.past_deadline(100.0)] == [first.id]
    assert [approval.id for approval in ledger.approvals.past_deadline(150.0)] == [
        first.id,
        second.id,
    ]
    with pytest.raises(NotFound), ledger.transaction():
        ledger.approvals.move("nothing", "expire", 1.0)


@pytest.mark.parametrize("years", [10, -10])
def test_what_is_due_moves_along_when_the_clock_is_set(ledger: Ledger, years: int) -> None:
    """Row R16."""
    by = years * 365 * 86_400.0
    now = 2e9
    with ledger.transaction():
        result = create_approval(ledger, now)
        ledger.approvals.move(result.id, "check", now)
        ledger.generations.put(Generation("a", 1, COMMIT, result.id, now))
        ledger.hellos.put(CheckIn("a", now, 1))
        ledger.shifts.move(by, now + by, 1.0)
    again = ledger.approvals.get(result.id)
    assert again is not None
    assert (again.created, again.expires) == (now + by, now + by + 100)
    assert not ledger.approvals.past_deadline(now + by + 99)
    assert ledger.approvals.past_deadline(now + by + 100)
    generation, hello = ledger.generations.newest("a"), ledger.hellos.get("a")
    assert generation is not None
    assert hello is not None
    assert (generation.at, hello.at) == (now + by, now + by)


def generation(number: int, agent: str = "a", failed: str = "") -> Generation:
    return Generation(agent, number, COMMIT, "x", float(number), fields={"n": 1}, failed=failed)


def test_the_newest_generation_that_did_not_fail_is_in_force(ledger: Ledger) -> None:
    generations = ledger.generations
    with ledger.transaction():
        assert (generations.next("a"), generations.newest("a")) == (1, None)
        for number in range(1, 4):
            generations.put(generation(number))
        generations.put(generation(1, "b"))
        generations.fail("a", 3, "no hello")
    newest = generations.newest("a")
    assert newest == generation(2)
    assert generations.get("a", 3) == generation(3, failed="no hello")
    assert (generations.next("a"), generations.next("b")) == (4, 2)


def test_generations_beyond_the_kept_go_but_never_the_one_in_force(ledger: Ledger) -> None:
    generations = ledger.generations
    with ledger.transaction():
        for number in range(1, 8):
            generations.put(generation(number, failed="" if number < 3 else "bad"))
        gone = generations.prune("a", 3)
    assert [row.number for row in gone] == [4, 3, 1]
    assert [row.number for row in generations.all("a")] == [7, 6, 5, 2]
    assert generations.newest("a") == generation(2)
    assert generations.next("a") == 8


def test_generations_are_paged_over_all_agents(ledger: Ledger) -> None:
    with ledger.transaction():
        for number in range(1, 4):
            ledger.generations.put(generation(number))
            ledger.generations.put(generation(number, "b"))
    first = ledger.generations.page(None, 3)
    last = first[-1]
    second = ledger.generations.page(None, 9, (last.at, last.agent, last.number))
    assert [(row.agent, row.number) for row in (*first, *second)] == [
        ("b", 3), ("a", 3), ("b", 2), ("a", 2), ("b", 1), ("a", 1),
    ]  # fmt: skip
    assert [row.number for row in ledger.generations.page("b", 2)] == [3, 2]
    with ledger.transaction():
        ledger.generations.drop("b")
    assert ledger.generations.all("b") == []


def test_a_rollout_is_open_until_each_agent_has_come_out(ledger: Ledger) -> None:
    waves = ledger.rollouts
    with ledger.transaction():
        for wave, agent in enumerate(("a", "b")):
            waves.put("r", wave, agent)
        waves.set_state("r", "a", "running", "one")
        waves.set_state("r", "a", "done")
        assert waves.open() == ["r"]
        waves.set_state("r", "b", "stopped")
    assert waves.open() == []
    assert waves.agents("r") == [
        RolloutAgent("r", 0, "a", "one", "done"),
        RolloutAgent("r", 1, "b", "", "stopped"),
    ]


def test_the_last_hello_counts(ledger: Ledger) -> None:
    with ledger.transaction():
        ledger.hellos.put(CheckIn("a", 1.0, 1, COMMIT))
        ledger.hellos.put(CheckIn("a", 2.0, 2, COMMIT, "/nix/store/x", "broken"))
    assert ledger.hellos.get("a") == CheckIn("a", 2.0, 2, COMMIT, "/nix/store/x", "broken")
    with ledger.transaction():
        ledger.hellos.drop("a")
    assert ledger.hellos.get("a") is None
