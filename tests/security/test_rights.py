"""Attacks 35, 38, 40 and 42: rights that are lost, replayed, borrowed or brought back."""

from __future__ import annotations

from fixtures.world import Reply, World, rows, world

from hive_core import varlink
from hive_core.broker.connection import ClientConnection
from hive_core.errors import HIVE
from hive_core.model.wire.record import OPERATOR
from hive_core.testing import MemoryJournal


def test_attack_42_repeating_a_call_without_effect_has_no_effect_later(
    world: World,
) -> None:
    first = world.call("root", "move", agent="a1", parent="a", idempotency_key="k")
    world.call(OPERATOR, "move", agent="a1", parent="b")
    assert world.call("root", "move", agent="a1", parent="a", idempotency_key="k") == first
    assert world.hive.topology.parent("a1") == "b"


def test_attack_42_a_key_used_after_losing_rights_returns_its_first_result(
    world: World,
) -> None:
    first = world.call("a", "stop", agent="a1", idempotency_key="k")
    world.finish(first["job"])
    world.call(OPERATOR, "start", agent="a1")
    world.call(OPERATOR, "move", agent="a1", parent="b")
    before = world.ledger.runs.get(world.uuid("a1"))
    assert world.call("a", "stop", agent="a1", idempotency_key="k") == first
    assert world.ledger.runs.get(world.uuid("a1")) == before
    assert world.fault("a", "stop", agent="a1") == "NotFound"


def test_attack_42_a_key_belongs_to_one_caller_and_one_call(world: World) -> None:
    world.call("a", "stop", agent="a1", idempotency_key="k")
    assert world.fault("a", "kill", agent="a1", idempotency_key="k") == "Conflict"
    assert world.fault("a", "stop", agent="a2", idempotency_key="k") == "Conflict"
    assert world.fault("b", "stop", agent="a1", idempotency_key="k") == "NotFound"
    assert world.fault("a", "stop", agent="a1", idempotency_key="k" * 129) == "InvalidArgument"


def test_attack_40_a_new_agent_of_the_same_name_has_no_keys_mail_jobs_or_lists(
    world: World,
) -> None:
    world.call(OPERATOR, "allow", agent="a1", other="b")
    job = world.call("a1", "wake", body="mine", idempotency_key="k")
    stopped = world.call("a1", "restart", agent="a11")["job"]
    world.call(OPERATOR, "send", to="a1", body="secret")
    world.call(OPERATOR, "destroy", agent="a1")
    world.call("a", "spawn", name="a1")
    assert rows(world.call("a1", "recv")["messages"]) == []
    assert rows(world.call("a1", "list_messages", dead=True)["messages"]) == []
    assert world.fault("a1", "get_job", id=stopped) == "NotFound"
    assert world.fault("a1", "send", to="b", body="x") == "NotFound"
    assert world.call("a1", "wake", body="mine", idempotency_key="k") != job


def test_attack_40_a_reply_does_not_go_to_a_new_agent_of_the_same_name(world: World) -> None:
    world.call(OPERATOR, "allow", agent="b", other="a1")
    letter = world.call("b", "send", to="a1", body="x")["id"]
    assert world.fault("a1", "send", to="b", body="x", reply_to=letter) == ""
    world.call(OPERATOR, "destroy", agent="b", recursive=True)
    world.call("root", "spawn", name="b")
    assert world.fault("a1", "send", to="b", body="x", reply_to=letter) == "NotFound"


def test_attack_38_following_a_log_ends_when_the_right_is_lost(world: World) -> None:
    journal: MemoryJournal = world.reads.journal
    journal.write(world.uuid("a11"), "before")
    following = world.ask("a", "get_logs", agent="a11", more=True)
    world.call(OPERATOR, "move", agent="a1", parent="b")
    journal.write(world.uuid("a11"), "after")
    world.run()
    assert "after" not in str(following.replies)
    assert "NotFound" in str(following.replies[-1])


def test_attack_38_calls_after_a_move_in_the_same_batch_are_decided_by_the_new_tree(
    world: World,
) -> None:
    """All of them arrived before anything was decided. A slow read is judged when it is done."""
    replies = dict[str, bytes]()

    def arrives(label: str, party: str, method: str, **parameters: object) -> None:
        def keep_reply(data: bytes, _closing: bool) -> None:  # noqa: FBT001 - as Line.send is called
            replies[label] = data

        message: varlink.Message = {"method": HIVE + method, "parameters": parameters}
        world.broker.receive(ClientConnection(party, 0, keep_reply), [varlink.encode(message)[:-1]])

    arrives("move", OPERATOR, "Move", agent="a1", parent="b")
    arrives("stop", world.uuid("a"), "Stop", agent="a1")
    arrives("spawn", world.uuid("a"), "Spawn", name="late", parent="a1")
    arrives("read", world.uuid("a"), "GetLogs", agent="a11")
    arrives("stop by its parent", world.uuid("b"), "Stop", agent="a1")
    world.broker.serve_batch()
    world.run()
    refused = {name for name, data in replies.items() if b"NotFound" in data}
    assert refused == {"stop", "spawn", "read"}
    assert len(replies) == 5


def test_attack_40_a_destroyed_agent_is_not_served_on_an_open_connection(
    world: World,
) -> None:
    gone = world.uuid("a2")
    waiting = world.ask("a2", "recv", wait=50)
    world.call(OPERATOR, "destroy", agent="a2")
    world.call("a", "spawn", name="a2")
    world.call(OPERATOR, "send", to="a2", body="for the new one")
    assert "for the new one" not in str(waiting.replies)
    calls: dict[str, Reply] = {"whoami": {}, "wake": {"body": "x"}, "list_agents": {}}
    for operation, params in calls.items():
        answer = world.ask_as(gone, operation, params).replies[-1]
        assert str(answer.get("error")).endswith("NotFound")


def test_attack_35_a_parent_cannot_use_the_capability_of_a_child(world: World) -> None:
    world.call(OPERATOR, "grant_capability", agent="a1", capability="secret:key")
    world.call(OPERATOR, "grant_capability", agent="a1", capability="meta.update")
    for capability in ("network:host", "secret:key", "meta.update", "meta.update:nixpkgs"):
        for parent in ("a", "a1"):
            assert (
                world.fault("a", "spawn", name="x", parent=parent, capabilities=[capability])
                == "NotAllowed"
            )
    # Nor does the child hand on what nobody may.
    assert world.fault("a1", "spawn", name="x", capabilities=["network:host"]) == "NotAllowed"


def test_attack_35_no_role_is_reached_indirectly(world: World) -> None:
    world.grow("a/w:worker", "a/l")
    assert world.fault("w", "spawn", name="x", role="lead") == "NotAllowed"
    world.call("w", "spawn", name="t", role="task")
    # A parent that may have leads cannot hang one below one that may not.
    assert world.fault("a", "spawn", name="x", parent="w", role="lead") == "NotAllowed"
    assert world.fault("a", "move", agent="l", parent="w") == "NotAllowed"
    assert world.fault("a", "move", agent="l", parent="t") == "NotAllowed"


def test_attack_35_limits_are_not_exceeded_through_a_descendant_with_more() -> None:
    gib = 1 << 30
    with world(None) as made:
        made.call(OPERATOR, "spawn", name="a", limits={"memory_max": gib})
        made.call(OPERATOR, "spawn", name="rich", parent="a", limits={"memory_max": 64 * gib})
        big = {"memory_max": 2 * gib}
        assert made.fault("a", "spawn", name="x", parent="rich", limits=big) == "LimitReached"
        assert made.fault("a", "spawn", name="x", limits=big) == "LimitReached"
        assert made.fault("a", "move", agent="rich", parent="a") == ""


def test_attack_35_quotas_are_not_exceeded_by_moves() -> None:
    with world(None) as made:
        made.call(OPERATOR, "spawn", name="a")
        made.call(OPERATOR, "spawn", name="small", parent="a", subtree={"agents": 1})
        made.grow("a/x", "x/y", "a/z")
        assert made.fault("a", "move", agent="x", parent="small") == "LimitReached"
        assert made.fault("a", "move", agent="z", parent="small") == ""
        assert made.fault("a", "move", agent="y", parent="small") == "LimitReached"


def test_attack_39_no_move_makes_a_loop_or_exceeds_the_depth(world: World) -> None:
    for parent in ("a1", "a11"):
        for caller in ("a", "root", OPERATOR):
            assert world.fault(caller, "move", agent="a1", parent=parent) == "NotAllowed"
    names = [f"d{number}" for number in range(29)]
    for above, name in zip(["b1", *names], names, strict=False):
        world.call(OPERATOR, "spawn", name=name, parent=above)
    assert world.fault(OPERATOR, "spawn", name="deep", parent=names[-1]) == "InvalidArgument"
    assert world.fault(OPERATOR, "move", agent="a", parent=names[-1]) == "InvalidArgument"
