"""history, rollback, update: what an agent ran with, and what it goes back to."""

from __future__ import annotations

import pytest
from fixtures.approvals import ONE, THREE, TWO, deploy, finish, remember, row, state, waits
from fixtures.world import World, rows, world

from hive_core.errors import Conflict, InvalidArgument, NotFound
from hive_core.model.config.approval import ApprovalKind
from hive_core.model.config.settings import NixSettings, Settings
from hive_core.model.wire.record import OPERATOR


def run_with(world: World, *commits: str) -> list[str]:
    """The agent a1 gets these one after the other; their approvals."""
    ids = []
    for commit in commits:
        id_ = waits(world, commit=commit)
        world.call(OPERATOR, "approve", id=id_, commit=commit)
        deploy(world, id_)
        world.advance(60)
        ids.append(id_)
    return ids


def history_rows(world: World, caller: str = "a", **more: object) -> list[tuple[object, ...]]:
    generations = world.call(caller, "history", **{"agent": "a1", **more})["generations"]
    keys = ("number", "commit", "current", "failed")
    return [tuple(entry[key] for key in keys) for entry in rows(generations)]


def test_the_history_tells_what_ran_and_what_runs(world: World) -> None:
    ids = run_with(world, ONE, TWO)
    with world.ledger.transaction():
        remember(world, world.uuid("a1"), THREE, ids[1])
        world.ledger.generations.fail(world.uuid("a1"), 3, "no hello")
    assert history_rows(world) == [
        (3, THREE, False, "no hello"), (2, TWO, True, ""), (1, ONE, False, ""),
    ]  # fmt: skip
    (*_, first) = rows(world.call("a1", "history")["generations"])
    assert (first["approval"], first["kind"], first["requester"]) == (ids[0], "config", "a")
    assert world.fault("b", "history", agent="a1") == "NotFound"
    assert world.fault("a2", "history", agent="a1") == "NotAllowed"


def test_the_operator_s_history_is_of_all_and_has_pages(world: World) -> None:
    run_with(world, ONE, TWO, THREE)
    with world.ledger.transaction():
        remember(world, world.uuid("b1"), ONE, "")
    result, after = [], None
    while True:
        page = world.call(OPERATOR, "history", limit=1, after=after)
        result += [
            (generation["agent"], generation["number"]) for generation in rows(page["generations"])
        ]
        after = page["next"]
        if after is None:
            break
    assert result == [("b1", 1), ("a1", 3), ("a1", 2), ("a1", 1)]
    odd = f"{world.uuid('a1')}:99"
    assert world.fault(OPERATOR, "history", after=odd) == "InvalidArgument"


def test_a_rollback_is_an_approval_of_the_operator_for_the_one_before(world: World) -> None:
    run_with(world, ONE, TWO)
    back = world.call(OPERATOR, "rollback", agent="a1")
    result = row(world, str(back["approval"]))
    assert (back["generation"], back["commit"]) == (1, ONE)
    assert (result.kind, result.state, result.decided_by) == (
        ApprovalKind.ROLLBACK,
        "approved",
        "uid:0",
    )
    assert (result.binding.commit, result.binding.base) == (ONE, TWO)
    assert result.review == {"generation": 1}
    with pytest.raises(Conflict, match="is in progress"):
        world.call(OPERATOR, "rollback", agent="a1")
    deploy(world, result.id)
    assert history_rows(world)[0] == (3, ONE, True, "")
    assert world.call(OPERATOR, "rollback", agent="a1")["commit"] == TWO


def test_a_generation_is_named_by_its_number_or_its_approval(world: World) -> None:
    ids = run_with(world, ONE, TWO, THREE)
    by_number = world.call(OPERATOR, "rollback", agent="a1", to="1")
    finish(world, str(by_number["approval"]), "void")
    by_approval = world.call(OPERATOR, "rollback", agent="a1", to=ids[0])
    assert (by_number["generation"], by_approval["generation"]) == (1, 1)
    finish(world, str(by_approval["approval"]), "void")
    for to in ("9", "0" * 12):
        with pytest.raises(NotFound):
            world.call(OPERATOR, "rollback", agent="a1", to=to)
    with pytest.raises(Conflict, match="it runs with"):
        world.call(OPERATOR, "rollback", agent="a1", to="3")


def test_what_failed_is_no_way_back(world: World) -> None:
    run_with(world, ONE, TWO, THREE)
    with world.ledger.transaction():
        world.ledger.generations.fail(world.uuid("a1"), 2, "no hello")
    with pytest.raises(InvalidArgument, match="failed"):
        world.call(OPERATOR, "rollback", agent="a1", to="2")
    assert world.call(OPERATOR, "rollback", agent="a1")["generation"] == 1


def test_without_a_generation_there_is_no_way_back(world: World) -> None:
    with pytest.raises(NotFound, match="no generations"):
        world.call(OPERATOR, "rollback", agent="a1")
    run_with(world, ONE)
    with pytest.raises(NotFound, match="no such generation"):
        world.call(OPERATOR, "rollback", agent="a1")


def test_rollbacks_use_up_no_requests(world: World) -> None:
    """Attack 23 counts what the operator is asked, not what it does."""
    run_with(world, ONE, TWO)
    for _ in range(6):
        back = world.call(OPERATOR, "rollback", agent="a1")
        finish(world, str(back["approval"]), "void")
    assert waits(world, commit=THREE)


NIX = Settings(nix=NixSettings(inputs={"nixpkgs": "github:a/b"}), images={"nix": None})


def test_an_update_of_what_is_built_needs_no_other_approval() -> None:
    """H26: its commit was approved, and so were the inputs; the right of H7 is enough."""
    with world(NIX, "root/a") as made:
        made.call(OPERATOR, "spawn", name="n", parent="a", image="nix")
        hit = made.call("a", "update", agent="n")
        (result,) = made.ledger.approvals.open()
        assert (hit["agents"], result.kind, result.state) == (
            ["n"],
            ApprovalKind.UPDATE,
            "approved",
        )
        assert (result.job, result.decided_by) == (hit["job"], made.uuid("a"))
        assert made.fault("a", "update", agent="n") == "Conflict"
        for event in ("build", "deploy", "watch"):
            with made.ledger.transaction():
                made.ledger.approvals.move(result.id, event, 1.0)
        finish(made, result.id, "confirm")
        job = made.ledger.jobs.get(str(hit["job"]))
        assert job is not None
        assert job.state == "done"


def test_attack_51_several_are_updated_in_waves() -> None:
    with world(NIX, "root/a") as made:
        for number in range(9):
            made.call(OPERATOR, "spawn", name=f"n{number}", parent="a", image="nix")
        hit = made.call("root", "update", agent="a", recursive=True)
        rollout = made.ledger.rollouts.agents(str(hit["job"]))
        assert [entry.wave for entry in rollout] == [0, 1, *[2] * 7]
        assert {entry.agent for entry in rollout} == {made.uuid(f"n{n}") for n in range(9)}
        assert made.ledger.approvals.open() == []
        job = made.ledger.jobs.get(str(hit["job"]))
        assert job is not None
        assert sorted(set(job.goals.values())) == ["approval:update", "running"]


def test_a_plain_agent_is_updated_as_before(world: World) -> None:
    before = world.ledger.runs.get(world.uuid("a1"))
    world.call("a", "update", agent="a1")
    after = world.ledger.runs.get(world.uuid("a1"))
    assert before is not None
    assert after is not None
    assert (after.nonce, after.reason) == (before.nonce + 1, "updated")
    assert world.ledger.approvals.page(None, 9) == []
    assert state(world, waits(world)) == "pending"
