"""list_events: the audit log."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from fixtures.world import World, fields, names, rows

import hive_core
from hive_core.errors import InvalidArgument
from hive_core.model.wire.record import EVENT_KINDS

PACKAGE = Path(hive_core.__file__).parent

CONTRACT = {
    "seq", "time", "kind", "caller", "operation", "target", "allowed", "rule", "reason", "commit",
    "request",
}  # fmt: skip


def test_an_event_has_the_fields_of_the_contract(world: World) -> None:
    """Row H27."""
    world.call("root", "stop", agent="a1")
    event = world.events()[-1]
    assert event.keys() >= CONTRACT
    assert (event["caller"], event["target"], event["allowed"]) == ("root", "a1", True)
    assert (event["caller_uuid"], event["target_uuid"]) == (world.uuid("root"), world.uuid("a1"))
    assert event["commit"] == world.hive.commit


def test_numbers_have_no_gaps_and_the_chain_holds(world: World) -> None:
    """Row H27."""
    world.fault("a1", "stop", agent="a2")
    seqs = names(world.events(), "seq")
    assert seqs == list(range(1, len(seqs) + 1))
    assert world.ledger.events.verify() is None


def test_mutations_and_refusals_are_listed_and_reads_are_counted(world: World) -> None:
    """Row H27."""
    count = len(world.events())
    world.call("a1", "whoami")
    world.call("a1", "list_agents")
    assert len(world.events()) == count
    world.fault("a1", "get_logs", agent="a2")
    world.call("a1", "send", to="a2", body="x")
    assert names(world.events()[count:], "operation") == ["get_logs", "send"]


def test_bodies_of_messages_are_not_in_the_log(world: World) -> None:
    """Row K29: secrets do not leak into the record."""
    world.call("a1", "send", to="a2", body="the password")
    assert "the password" not in str(world.events())


def test_a_hidden_target_is_recorded_as_it_was_named(world: World) -> None:
    world.fault("a1", "stop", agent="b1")
    event = world.events()[-1]
    assert (event["target"], event["allowed"]) == ("b1", False)


@pytest.mark.parametrize(
    ("caller", "operation", "params", "judged"),
    [
        ("operator", "spawn", {"name": "new"}, ""),
        ("operator", "spawn", {"name": "new", "parent": "a"}, "a"),
        ("a", "spawn", {"name": "new"}, "a"),
        ("a", "spawn_agent_and_assign_task", {
            "name": "new", "agent_role": "Tester", "task_description": "x", "agent_type": "worker",
        }, "a"),
    ],
)  # fmt: skip
def test_the_event_of_a_creation_names_the_new_agent_and_against_whom_it_was_judged(
    world: World, caller: str, operation: str, params: dict[str, object], judged: str
) -> None:
    world.call(caller, operation, **params)
    *_, event = (entry for entry in world.events() if entry["operation"] == operation)
    assert (event["target"], event["target_uuid"]) == ("new", world.uuid("new"))
    assert fields(event)["judged"] == judged
    of_new = world.call("operator", "list_events", agents=["new"], kinds=["change"])["events"]
    assert names(of_new, "operation") == [operation]


def test_a_refused_creation_has_the_agent_against_which_it_was_judged_as_target(
    world: World,
) -> None:
    world.fault("a", "spawn", name="new", parent="b")
    event = world.events()[-1]
    assert (event["allowed"], event["target"]) == (False, "b")
    assert "judged" not in fields(event)


def test_the_event_of_a_restore_names_the_agent_that_came_back(world: World) -> None:
    uuid = world.uuid("a11")
    world.call("operator", "destroy", agent="a11")
    world.call("operator", "restore", id=uuid)
    event = world.events()[-1]
    assert (event["operation"], event["target"], event["target_uuid"]) == ("restore", "a11", uuid)


def test_the_uid_behind_the_operator_stands_in_its_events(world: World) -> None:
    """Attack 35: on whose behalf."""
    assert "uid" in fields(world.events()[0])


def test_pages_follow_each_other_and_end(world: World) -> None:
    total, after, seen = len(world.events()), None, 0
    for _ in range(20):
        page = world.call("operator", "list_events", after=after, limit=3)
        seen += len(rows(page["events"]))
        after = page["next"]
        if after is None:
            break
    assert seen == total


def test_only_the_newest_can_be_asked_for(world: World) -> None:
    total = len(world.events())
    reply = world.call("operator", "list_events", last=2)
    assert names(reply["events"], "seq") == [total - 1, total]
    assert world.call("operator", "list_events", last=0)["events"] == []


def test_a_stream_gives_events_as_they_happen(world: World) -> None:
    last = str(len(world.events()))
    asked = world.ask("operator", "list_events", more=True, after=last)
    assert not asked.replies
    world.call("a1", "send", to="a2", body="x")
    world.fault("a1", "stop", agent="a2")
    entries = [name for page in asked.pages for name in names(page["events"], "operation")]
    assert (entries, asked.pending) == (["send", "stop"], True)


@pytest.mark.parametrize("after", ["x", "-1", "1" * 21])
def test_a_mark_that_is_no_number_is_refused(world: World, after: str) -> None:
    assert world.fault("operator", "list_events", after=after) == "InvalidArgument"


def test_the_log_is_the_operators(world: World) -> None:
    assert world.fault("root", "list_events") == "NotAllowed"
    assert world.fault("root", "count_reads", caller="a") == "NotAllowed"


def test_what_was_read_is_counted_and_can_be_asked_for(world: World) -> None:
    for _ in range(3):
        world.call("a1", "whoami")
    with world.ledger.transaction():
        world.ledger.events.reads.keep_counts()
    world.call("a1", "whoami")
    world.call("a1", "list_agents")
    reply = world.call("operator", "count_reads", caller="a1")
    assert reply["caller_uuid"] == world.uuid("a1")
    counts = {row["operation"]: row["count"] for row in rows(reply["reads"])}
    assert (counts["whoami"], counts["list_agents"]) == (4, 1)
    assert world.call("operator", "count_reads", caller=world.uuid("a1")) == reply
    assert world.call("operator", "count_reads", caller="nobody")["reads"] == []


def test_a_kind_that_no_event_has_is_refused(world: World) -> None:
    """`hive events --kind nonsense` ended with 0, and who follows it waits for ever."""
    for caller, operation in (("operator", "list_events"), ("a1", "subscribe")):
        with pytest.raises(InvalidArgument, match="no events of kind 'nonsense'; kinds are") as odd:
            world.call(caller, operation, kinds=["refusal", "nonsense"])
        assert odd.value.field == "kinds"
        with pytest.raises(InvalidArgument, match="did you mean refusal"):
            world.call(caller, operation, kinds=["refusel"])
        for kinds in (["refusal"], ["ta*"], ["own.step"], ["own.*"], ["o*"], []):
            assert world.fault(caller, operation, kinds=kinds) == ""


def constants(tree: ast.Module) -> dict[str, str]:
    """Words that have a name in a module."""
    result = dict[str, str]()
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else []
        targets = [node.target] if isinstance(node, ast.AnnAssign) else targets
        value = node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            result |= {target.id: value.value for target in targets if isinstance(target, ast.Name)}
    return result


def kinds_written(tree: ast.Module) -> Iterator[str]:
    """What stands in a module as the kind of an event that it writes, whichever it chooses."""
    named = constants(tree)
    for call in ast.walk(tree):
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
            continue
        if call.func.id not in ("AuditEntry", "Line", "_append_event"):
            continue
        result = [entry.value for entry in call.keywords if entry.arg == "kind"] + call.args
        kind = call.args[1:2] if call.func.id == "_append_event" else result[:1]
        for node in (node for entry in kind for node in ast.walk(entry)):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value
            elif isinstance(node, ast.Name) and node.id in named:
                yield named[node.id]


def test_the_daemon_writes_events_of_kinds_that_are_listed_only() -> None:
    """A caller can filter only by kinds that it can list."""
    texts = (file.read_text(encoding="utf-8") for file in PACKAGE.rglob("*.py"))
    writers = [text for text in texts if "from hive_core.ledger.audit.events import" in text]
    written = {kind for text in writers for kind in kinds_written(ast.parse(text))}
    assert {"task", "limit", "activity", "tool", "start", "revoked", "budget"} <= written
    assert written <= set(EVENT_KINDS)


def test_attack_62_notes_of_many_bytes_and_few_characters_hide_no_event(world: World) -> None:
    """A page is bounded in bytes: else its frame is refused, and the operator sees nothing."""
    for number in range(200):
        text = {"text": "語" * 1365, "fields": {"more": "語" * 600}}
        world.call(("a1", "a2")[number % 2], "note_event", kind="step", **text)
    listed = world.call("operator", "list_events", limit=1000)
    assert rows(listed["events"])
    assert listed["next"] is not None


def test_a_page_back_whose_events_were_deleted_meanwhile_is_empty(world: World) -> None:
    for _ in range(3):
        world.call("a1", "note_event", kind="step", fields={})
    world.call("a1", "send", to="a2", body="x")
    assert len(rows(world.call("operator", "list_events", kinds=["own.*"])["events"])) == 3
    log = world.ledger.events
    with world.ledger.transaction():
        assert log.notes.prune(world.clock.now() + 1) == 3
    page = world.call("operator", "list_events", before=str(log.last + 1), kinds=["own.*"])
    assert (page["events"], page.get("next")) == ([], None)


@pytest.mark.parametrize("text", ["", '{"kind":1}', "["])
def test_one_damaged_event_hides_no_other(world: World, text: str) -> None:
    """Its row says what is wrong with it; the check of the log names it too."""
    world.call("a1", "send", to="a2", body="x")
    log = world.ledger.events
    total, damaged = log.last, log.last - 1
    with world.ledger.transaction():
        world.ledger.connection.run("UPDATE events SET body = ? WHERE seq = ?", (text, damaged))

    pages = [world.call("operator", "list_events", **how)["events"]
             for how in ({}, {"last": 2}, {"before": str(total + 1)})]  # fmt: skip
    assert [len(rows(page)) for page in pages] == [total, 2, total]
    for page in pages:
        (row,) = [row for row in rows(page) if row["kind"] == "damaged"]
        assert row["seq"] == damaged
        assert "somebody changed its row in the ledger" in str(row["reason"])
        assert (row["caller"], row["target"], row["allowed"]) == ("", "", None)
    assert world.call("operator", "check_events")["broken_at"] == damaged
