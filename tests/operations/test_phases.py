"""The phases of a queen: the cause and effect of each step, and the end of a run."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import pytest
from each import for_each
from fixtures.phases import (
    CALLERS,
    EDI,
    OPERATIONS,
    RUN,
    STA,
    ask,
    letters,
    move_to,
    moves,
    phase,
    queen_world,
    refusal,
)
from fixtures.world import World, fields, rows, texts

from hive_core.errors import InvalidArgument, NotAllowed
from hive_core.ledger.phases.storage import PhaseState
from hive_core.model.agents.phase import QueenPhase, phase_edge


@pytest.fixture(name="hive")
def _hive() -> Iterator[World]:
    with queen_world() as it:
        yield it


# Edge x caller.


@for_each("source, operation", list(product(QueenPhase, OPERATIONS)))
def test_only_the_parties_of_an_edge_move_the_queen_along_it(
    source: QueenPhase, operation: str
) -> None:
    """Q2, Q6, Q50."""
    target = OPERATIONS[operation][0]
    edge = phase_edge(source, target)
    causes = {cause.value for cause in edge.causes if edge.by == operation} if edge else set()
    if source is target is RUN and operation == "run_agent_with_input":
        causes = {"user", "queen"}  # one more task
    with queen_world() as hive:
        move_to(hive, source)
        earlier = len(letters(hive))
        for caller in CALLERS:  # what is refused changes nothing
            party = {"operator": "user", "queen": "queen"}.get(caller, "")
            refused = refusal(hive, caller, operation)
            assert (not refused) == (party in causes), (caller, refused)
            if not refused:
                break
            assert (phase(hive), len(letters(hive))) == (source, earlier)
        else:
            return
        check_move(hive, source, target, earlier)
    if {"user", "queen"} <= causes:
        with queen_world() as hive:
            move_to(hive, source)
            earlier = len(letters(hive))
            ask(hive, "operator", operation)
            check_move(hive, source, target, earlier, party="user")


def check_move(
    hive: World, source: QueenPhase, target: QueenPhase, earlier: int, party: str = ""
) -> None:
    """Who moves herself is not told; an event says who did it."""
    assert phase(hive) == target
    if source is target:
        assert len(letters(hive)) == earlier
        return
    before, after, cause = moves(hive)[-1]
    assert (before, after) == (source, target)
    assert cause == party or not party
    assert len(letters(hive)) - earlier == (cause == "user")


def test_a_message_about_a_move_has_the_phase_the_colony_and_the_tools(hive: World) -> None:
    """Q6."""
    ask(hive, "operator", "open_colony")
    (letter,) = letters(hive)
    lines = str(letter["body"]).splitlines()
    assert lines[0] == "phase: staging, colony: wu"
    tools = [str(row["name"]) for row in rows(hive.call("queen", "list_toolset")["tools"])]
    assert lines[1] == f"tools: {', '.join(tools)}"
    assert letter["relation"] == "daemon"


def test_the_phase_outlives_the_daemon(hive: World) -> None:
    move_to(hive, RUN)
    hive.kill()
    assert phase(hive) == "running"
    assert hive.call("queen", "list_toolset")["phase"] == "running"


def test_a_row_of_an_older_version_is_read_and_an_unknown_one_refused(hive: World) -> None:
    """Q5."""
    move_to(hive, STA)
    uuid = hive.uuid("queen")

    def write(name: str) -> None:
        with hive.ledger.transaction():
            hive.ledger.connection.run("UPDATE phases SET phase = ?", (name,))

    for name, now in (("planning", "staging"), ("working", "running"), ("reviewing", "editing")):
        write(name)
        assert phase(hive) == now
    write("incubating")
    assert hive.fault("queen", "send", to="root", body="x") == "InvalidArgument"
    assert hive.fault("operator", "get_phase") == "InvalidArgument"
    with pytest.raises(InvalidArgument, match="no phase 'incubating'"):
        hive.ledger.phases.get(uuid)


# The judge.


def test_a_call_outside_of_the_phase_is_refused_and_recorded(hive: World) -> None:
    """Q4."""
    move_to(hive, STA)
    with pytest.raises(NotAllowed) as refused:
        hive.call("queen", "assign_task", agent="wu", description="x")
    assert refused.value.fields["rule"] == "phase"
    assert "your phase staging does not have assign_task" in refused.value.reason
    assert "run_agent_with_input" in refused.value.reason
    event = hive.events()[-1]
    assert (event["operation"], event["allowed"], event["rule"]) == ("assign_task", False, "phase")


@pytest.mark.parametrize("now", list(QueenPhase))
def test_a_queen_reports_an_expired_credential_in_every_phase(hive: World, now: QueenPhase) -> None:
    """Q36: the text that every role is shown tells her to."""
    hive.call("operator", "grant_capability", agent="queen", capability="secret:news")
    hive.call("operator", "set_secret", agent="queen", key="news", value="x-hush-4711-x")
    move_to(hive, now)
    (row,) = rows(hive.call("queen", "list_credentials")["credentials"])  # Q35: for her reminder
    assert row["key"] == "news"
    reported = hive.call("queen", "report_expired_credential", key="news", message="401")
    assert reported["error"] == "credential_expired"
    tools = rows(hive.call("queen", "list_toolset")["tools"])
    assert "report_expired_credential" in {row["name"] for row in tools}


def test_a_queen_executes_what_her_phase_has(hive: World) -> None:
    """Q3, T1."""
    grant = {"tool": "edit", "argument": ["a.txt"]}
    assert hive.fault("queen", "use_tool", **grant) == ""
    move_to(hive, STA)
    with pytest.raises(NotAllowed, match="your phase staging does not have edit"):
        hive.call("queen", "use_tool", **grant)
    assert hive.fault("queen", "use_tool", tool="bash", argument=["ls"]) == ""
    assert hive.fault("lead", "use_tool", tool="bash", argument=["ls"]) == "NotAllowed"


def test_what_the_daemon_goes_on_with_was_judged_when_it_began(hive: World) -> None:
    hive.call("queen", "run_parallel_workers", tasks=[{"task": "a"}, {"task": "b"}], concurrency=1)
    worker = next(name for name in hive.hive.specs if name.startswith("w-"))
    ask(hive, "operator", "open_colony")
    hive.call("operator", "destroy", agent=worker)
    hive.advance(5)
    (batch,) = rows(hive.call("operator", "list_batches", agent="queen")["batches"])
    assert batch["state"] == "running"
    assert any(name.startswith("w-") for name in hive.hive.specs), "a worker in its place"


# The colony.


def test_a_colony_is_a_worker_below_the_queen(hive: World) -> None:
    """Q50."""
    hive.call("operator", "spawn", name="other", role="worker", parent="lead")
    hive.call("queen", "spawn", name="sub", role="lead")
    for name in ("other", "sub", "queen"):
        assert hive.fault("operator", "open_colony", colony=name) == "InvalidArgument"
    assert hive.fault("operator", "open_colony", colony="wu", agent="lead") == "InvalidArgument"
    ask(hive, "operator", "open_colony", goal="g", criteria="c", constraints="n")
    colony = hive.call("operator", "get_phase")["colony"]
    assert isinstance(colony, dict)
    assert (colony["name"], colony["title"], colony["status"]) == ("wu", "Reader", "stopped")
    assert [colony[key] for key in ("goal", "criteria", "constraints")] == ["g", "c", "n"]
    assert "bash" in texts(colony["tools"])


@pytest.mark.parametrize("source", [STA, RUN, EDI])
def test_a_colony_whose_agent_is_destroyed_is_closed(source: QueenPhase) -> None:
    with queen_world() as hive:
        move_to(hive, source)
        hive.call("operator", "destroy", agent="wu")
        hive.advance(0)
        assert phase(hive) == "independent"
        assert moves(hive)[-1][1:] == ("independent", "system")
        assert "is gone" in str(letters(hive)[-1]["body"])
        assert hive.call("queen", "get_phase")["colony"] is None


def test_a_new_queen_begins_independent(hive: World) -> None:
    move_to(hive, RUN)
    uuid = hive.uuid("queen")
    hive.call("operator", "destroy", agent="queen", recursive=True)
    assert hive.ledger.phases.get(uuid) == PhaseState(uuid)
    hive.call("operator", "spawn", name="queen", role="daemon", profile="queen", runtime="builtin")
    assert phase(hive) == "independent"


def test_an_agent_without_phases_has_none(hive: World) -> None:
    assert hive.fault("operator", "get_phase", agent="lead") == "InvalidArgument"
    assert hive.fault("lead", "get_phase") == "InvalidArgument"
    assert hive.call("lead", "list_toolset")["phase"] == ""
    hive.call("operator", "destroy", agent="queen", recursive=True)
    assert hive.fault("operator", "get_phase") == "InvalidArgument"


def test_the_built_in_queen_works_by_rules_without_phases(hive: World) -> None:
    """K33."""
    hive.call("operator", "destroy", agent="queen", recursive=True)
    hive.call("operator", "spawn", name="queen", role="daemon", profile="queen", command=["q"])
    assert hive.fault("operator", "get_phase") == "InvalidArgument"
    at = {"when": {"every": 3600.0}, "action": {"kind": "message", "text": "again"}}
    assert hive.fault("queen", "set_trigger", name="daily", **at) == ""
    assert hive.fault("queen", "use_tool", tool="bash", argument=["ls"]) == "NotAllowed"


def test_a_persona_is_the_operator_s_and_its_reason_is_logged(hive: World) -> None:
    """Q13."""
    hive.call("operator", "set_persona", persona="Ada", reason="the user chose")
    assert hive.call("queen", "get_phase")["persona"] == "Ada"
    assert fields(hive.events()[-1])["reason"] == "the user chose"
    assert "Ada" not in str(hive.events())
    move_to(hive, STA)
    assert hive.call("queen", "get_phase")["persona"] == "Ada"
    assert hive.fault("queen", "set_persona", persona="Eve") == "NotAllowed"


# Who asks the user (rows Q1, Q31).


@pytest.mark.parametrize(("caller", "error"), [
    ("queen", ""), ("root", ""), ("lead", "NotAllowed"), ("wu", "NotAllowed"),
    ("operator", "NotAllowed"),
])  # fmt: skip
def test_only_the_queen_and_roots_ask_the_user(hive: World, caller: str, error: str) -> None:
    items = ["Which?", {"prompt": "Or?", "options": ["a", "b"]}]
    assert hive.fault(caller, "ask_user", items=items) == error
    assert len(hive.mail("operator")) == (not error)


def test_a_queen_asks_the_user_in_every_phase() -> None:
    for source in QueenPhase:
        with queen_world() as hive:
            move_to(hive, source)
            assert hive.call("queen", "ask_user", items=["Which?"])["to"] == "operator"


def test_credentials_are_listed_by_name(hive: World) -> None:
    """Q3."""
    hive.call("operator", "set_secret", agent="wu", key="mail", value="s3cret")
    hive.call("operator", "grant_capability", agent="wu", capability="secret:news")
    listed = rows(hive.call("root", "list_credentials", agent="wu")["credentials"])
    assert [(row["key"], row["stored"], row["readable"]) for row in listed] == [
        ("mail", True, False), ("news", False, True),
    ]  # fmt: skip
    assert hive.fault("wu", "list_credentials", agent="queen") == "NotAllowed"
    assert hive.fault("operator", "list_credentials") == "InvalidArgument"
