"""open_subagent and close_subagent: parties inside an agent's container (rows Z4, Z14, H25)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fixtures.machines import end_machine, start_machines
from fixtures.model_calls import AGENTS, MODELS, TIERS, finish, model_events, reserve, sums
from fixtures.subagents import (
    allow_subagents,
    clone,
    close_sub,
    listening,
    open_sub,
    party,
    sub_events,
    sub_params,
)
from fixtures.world import Exchange, World, fields, rows, world

from hive_core.errors import HiveError, LimitReached, NotAllowed, NotFound
from hive_core.model.agents.subagent import FORK_TOOL, SUBAGENT_UIDS
from hive_core.model.config.settings import Settings

FORKS = [FORK_TOOL, "get_task"]


@pytest.fixture(name="world")
def _world() -> Iterator[World]:
    with world(Settings(models=TIERS), *AGENTS, models=MODELS) as made:
        allow_subagents(made, "a", "b")
        yield made


# Opening and closing


def test_a_sub_agent_has_a_party_an_inbox_sockets_and_a_uid_of_its_own(world: World) -> None:
    first, second = open_sub(world, "a"), clone(world, "a")
    id_, uuid = first["id"], world.uuid("a")
    assert first == {
        "id": id_, "party": f"{uuid}/{id_}", "uid": SUBAGENT_UIDS.start, "inbox": f"a/{id_}",
        "broker_socket": f"/run/hive/sub/{id_}/broker.sock",
        "model_socket": f"/run/hive/sub/{id_}/model.sock", "egress_socket": "",
        "depth": 1, "clone_depth": 0, "deadline": world.clock.now() + 300,
    }  # fmt: skip
    assert (second["depth"], second["clone_depth"]) == (1, 1)
    assert second["uid"] == SUBAGENT_UIDS.start + 1
    assert listening(world) == {str(opened["party"]): opened["uid"] for opened in (first, second)}
    assert world.call(party("a", first), "whoami")["subagent"] == id_
    assert world.call("a", "whoami")["subagent"] == ""


def test_a_network_is_given_at_the_opening_and_only_by_who_has_one(world: World) -> None:
    """H29: none by default; each of a line has rules of its own."""
    with pytest.raises(NotAllowed, match="a network: you have none"):
        open_sub(world, "a", network=["inherit"])
    world.call("operator", "grant_capability", agent="a", capability="network:egress-allowlist")
    plain = open_sub(world, "a", tools=FORKS)
    assert (plain["egress_socket"], world.reads.sockets.networked) == ("", set())
    with pytest.raises(NotAllowed, match="a network: you have none"):
        open_sub(world, party("a", plain), tools=[], network=["inherit"])
    wired = open_sub(world, "a", tools=FORKS, network=["WWW.Example.org.:443", "inherit"])
    below = open_sub(world, party("a", wired), tools=[], network=["www.example.org:443"])
    assert below["egress_socket"] == f"/run/hive/sub/{below['id']}/egress.sock"
    assert world.reads.sockets.networked == {wired["party"], below["party"]}
    listed = rows(world.call("a", "list_subagents")["subagents"])
    networks = {row["id"]: row["network"] for row in listed}
    assert networks == {
        plain["id"]: [], wired["id"]: ["www.example.org:443", "inherit"],
        below["id"]: ["www.example.org:443"],
    }  # fmt: skip
    assert fields(sub_events(world)[-1])["network"] == ["www.example.org:443"]
    assert world.fault("a", "open_subagent", **sub_params(network=["*:443"])) == "InvalidArgument"


def test_the_capability_is_off_by_default(world: World) -> None:
    with pytest.raises(NotAllowed, match="you do not hold the capability subagents"):
        open_sub(world, "a1")
    for caller, error in (("operator", "Conflict"), ("root", "NotAllowed")):
        assert world.fault(caller, "open_subagent", **sub_params()) == error
    assert world.hive.spec("root").capabilities
    assert not listening(world)


def test_a_closed_sub_agent_is_gone_and_its_end_is_an_event_with_what_it_used(
    world: World,
) -> None:
    opened = open_sub(world, "a")
    finish(world, reserve(world, "a", sub=opened["id"]))
    said = {
        "agent": "echo", "model": "sonnet", "provider": "one", "latency_ms": 7,
        "usage": {"input_tokens": 9, "output_tokens": 3}, "cost": 0.5,
    }  # fmt: skip
    world.advance(2)
    closed = close_sub(world, "a", opened["id"], metadata=said)
    assert closed == {
        "id": opened["id"], "seconds": 2.0, "model_calls": 1, "tokens_in": 90, "tokens_out": 30,
        "cost": 420,
    }  # fmt: skip
    begin, end = sub_events(world)
    assert (begin["operation"], end["operation"]) == ("open_subagent", "close_subagent")
    assert fields(begin)["tools"] == ["get_task", "list_artifacts"]
    assert fields(end)["metadata"] == said
    assert (fields(end)["status"], fields(end)["tokens_in"]) == ("success", 90)
    assert not listening(world)
    with pytest.raises(NotFound, match=f"sub-agent {opened['id']} is closed"):
        world.call(party("a", opened), "whoami")
    with pytest.raises(NotFound, match="no open sub-agent"):
        close_sub(world, "a", opened["id"])


def test_nothing_is_opened_with_a_tool_that_the_caller_does_not_have(world: World) -> None:
    with pytest.raises(NotAllowed, match="cannot open a sub-agent with bash, fly: no tool"):
        open_sub(world, "a", tools=["fly", "bash", "get_task"])
    assert not listening(world)


def test_of_two_openings_at_once_one_gets_the_last_place(world: World) -> None:
    """Both have their sockets when the handlers look again; those of the second are closed."""
    for _ in range(3):
        open_sub(world, "a")
    frames = [world.prepare(world.uuid("a"), "open_subagent", sub_params()) for _ in range(2)]
    world.run()
    assert sorted(type(_error(exchange)).__name__ for exchange in frames) == [
        "LimitReached", "NoneType",
    ]  # fmt: skip
    assert len(listening(world)) == 4


def _error(exchange: Exchange) -> HiveError | None:
    try:
        exchange.result()
    except HiveError as error:
        return error
    return None


# Limits


def test_the_number_of_open_sub_agents_of_one_agent_is_bounded(world: World) -> None:
    opened = [open_sub(world, "a") for _ in range(4)]
    with pytest.raises(LimitReached, match=r"the bound is \[subagents\] most") as refused:
        open_sub(world, "a")
    assert refused.value.fields["setting"] == "subagents.most"
    open_sub(world, "b")
    close_sub(world, "a", opened[0]["id"])
    assert open_sub(world, "a")["uid"] == SUBAGENT_UIDS.start + 4, "not the uid of a closed one"


def test_depths_are_written_by_the_daemon_and_bounded(world: World) -> None:
    """A sub-agent opens others from its own socket, which says how deep it is."""
    caller = party("a", clone(world, "a", tools=FORKS))
    with pytest.raises(LimitReached, match="max_clone_fork_depth"):
        clone(world, caller, tools=[])
    for depth in (2, 3):
        opened = open_sub(world, caller, tools=FORKS)
        assert (opened["depth"], opened["clone_depth"]) == (depth, 1)
        caller = party("a", opened)
    with pytest.raises(LimitReached, match=r"your depth is 3.*\[subagents\] max_depth"):
        open_sub(world, caller, tools=[])


def test_what_a_sub_agent_opens_ends_with_it_and_not_later(world: World) -> None:
    first = open_sub(world, "a", tools=FORKS, timeout_seconds=60)
    second = open_sub(world, party("a", first), tools=["get_task"], timeout_seconds=600)
    assert second["deadline"] == first["deadline"]
    stranger = party("a", open_sub(world, "a"))
    assert world.fault(stranger, "close_subagent", id=second["id"], status="error") == "NotAllowed"
    world.call(party("a", second), "send", to=first["inbox"], body="done")
    (letter,) = rows(world.call(party("a", first), "recv")["messages"])
    assert (letter["relation"], letter["from"]) == ("subagent", second["inbox"])
    assert world.fault(party("a", second), "send", to="a", body="x") == "NotAllowed"
    close_sub(world, "a", first["id"], status="cancelled")
    assert [fields(event)["status"] for event in sub_events(world)[3:]] == ["cancelled"] * 2
    assert world.fault(party("a", second), "whoami") == "NotFound"


def test_a_sub_agent_may_raise_nothing_by_what_it_says(world: World) -> None:
    opened = open_sub(world, "a")
    caller = party("a", opened)
    for claim in ({"depth": 0}, {"clone_depth": 0}, {"opener": ""}, {"uid": 0}, {"agent": "b"}):
        assert world.fault(caller, "open_subagent", **sub_params(**claim)) == "InvalidParameter"


def test_a_name_says_whether_it_is_a_clone(world: World) -> None:
    bad: list[dict[str, object]] = [
        {"name": "clone"}, {"kind": "clone"}, {"name": "../x"}, {"kind": "twin"},
        {"timeout_seconds": 0}, {"tools": "bash"},
    ]  # fmt: skip
    for params in bad:
        error = world.fault("a", "open_subagent", **sub_params(**params))
        assert error in ("InvalidArgument", "InvalidParameter")


# What it may do


def test_a_sub_agent_has_its_tools_and_never_more(world: World) -> None:
    caller = party("a", open_sub(world, "a"))
    assert [row["name"] for row in rows(world.call(caller, "list_toolset")["tools"])] == [
        "get_task", "list_artifacts",
    ]  # fmt: skip
    world.call(caller, "list_artifacts")
    refusals: dict[str, dict[str, object]] = {
        "spawn": {"name": "new"},
        "destroy": {"agent": "a1"},
        "stop": {"agent": "a1"},
        "list_agents": {},
        "request_apply_commit": {"commit": "0" * 40, "agent": "a", "message": "x"},
        "assign_task": {"agent": "a1", "title": "x", "description": "x"},
        "open_subagent": sub_params(),
        "close_subagent": {"id": "x", "status": "success"},
        "get_agent": {"agent": "a"},
        "list_events": {},
        "set_agent": {"agent": "a"},
        "keep_turn": {"conversation": "m", "turn": 1, "status": "done"},
        "wake": {"body": "x"},
    }
    for operation, params in refusals.items():
        with pytest.raises(NotAllowed) as refused:
            world.call(caller, operation, **params)
        assert refused.value.fields["rule"] == "subagent", operation


def test_a_tool_of_a_sub_agent_is_judged_as_its_agent(world: World) -> None:
    """A clone has the tools of its agent, and what they do is allowed to the agent, or not."""
    caller = party("a", clone(world, "a", tools=["destroy", "spawn", "finish_task", "ask"]))
    world.call(caller, "destroy", agent="a1")
    assert world.fault(caller, "destroy", agent="b") == "NotAllowed"
    world.call("operator", "revoke_capability", agent="a", capability="spawn")
    with pytest.raises(NotAllowed, match="you do not hold the capability spawn"):
        world.call(caller, "spawn", name="new")
    for operation, params in {
        "finish_task": {"task": "x", "status": "success"},
        "ask": {"to": "root", "text": "x"},
    }.items():
        assert world.fault(caller, operation, **params) in ("NotAllowed", "InvalidParameter")
    world.call("operator", "revoke_capability", agent="a", capability="subagents")
    with pytest.raises(NotAllowed, match="a no longer holds the capability subagents"):
        world.call(caller, "whoami")


def test_a_use_of_a_tool_of_execution_needs_the_tool(world: World) -> None:
    world.call("operator", "spawn", name="hand", parent="a", role="worker")
    allow_subagents(world, "hand")
    caller = party("hand", open_sub(world, "hand", tools=["read"]))
    world.call(caller, "use_tool", tool="read", argument=["notes.txt"])
    with pytest.raises(NotAllowed, match="none of the tools of this sub-agent"):
        world.call(caller, "use_tool", tool="bash", argument=["ls"])
    world.call("hand", "use_tool", tool="bash", argument=["ls"])


def test_its_calls_are_recorded_with_its_id(world: World) -> None:
    opened = open_sub(world, "a")
    world.call(party("a", opened), "send", to="a", body="done")
    world.fault(party("a", opened), "list_agents")
    sent, refused = (
        next(event for event in world.events() if event["operation"] == name)
        for name in ("send", "list_agents")
    )
    for event in (sent, refused):
        assert event["caller"] == opened["inbox"]
        assert fields(event)["sub"] == opened["id"]
        assert fields(event)["caller_name"] == opened["inbox"]


def test_a_key_of_a_sub_agent_is_not_that_of_its_agent(world: World) -> None:
    opened = open_sub(world, "a")
    key = {"idempotency_key": "same", "to": "a", "body": "x"}
    mine = world.call("a", "send", **key)
    theirs = world.call(party("a", opened), "send", **key)
    assert mine["id"] != theirs["id"]
    assert world.call(party("a", opened), "send", **key) == theirs


# Ends


def test_the_deadline_ends_it(world: World) -> None:
    opened = open_sub(world, "a", timeout_seconds=10)
    caller = party("a", opened)
    world.advance(9)
    world.call(caller, "whoami")
    world.advance(1)
    with pytest.raises(NotFound, match="is closed"):
        world.call(caller, "whoami")
    assert not listening(world)
    end = sub_events(world)[-1]
    assert (end["caller"], fields(end)["status"]) == ("daemon", "timeout")
    assert world.fault("a", "close_subagent", id=opened["id"], status="success") == "NotFound"


@pytest.mark.parametrize("how", ["ends", "starts", "destroyed"])
def test_it_ends_with_its_agent(world: World, how: str) -> None:
    start_machines(world, "a1", "b")
    allow_subagents(world, "a1")
    open_sub(world, "a1")
    other = open_sub(world, "b")
    if how == "ends":
        end_machine(world, "a1")
    elif how == "starts":
        end_machine(world, "a1")
        start_machines(world, "a1")
    else:
        world.call("operator", "destroy", agent="a1")
    assert listening(world) == {other["party"]: other["uid"]}
    assert [fields(event)["status"] for event in sub_events(world)[2:]] == ["cancelled"]


def test_a_restart_of_the_daemon_ends_all_and_says_so(world: World) -> None:
    opened = open_sub(world, "a", timeout_seconds=3600)
    uid = opened["uid"]
    world.restart()
    world.advance(0)
    with pytest.raises(NotFound, match="is closed"):
        world.call(party("a", opened), "whoami")
    assert rows(world.call("operator", "list_subagents")["subagents"]) == []
    end = sub_events(world)[-1]
    assert (end["reason"], fields(end)["sub"]) == ("the daemon was restarted", opened["id"])
    assert open_sub(world, "a")["uid"] != uid, "a process of the old one may still run"


# Calls of models


def test_its_calls_of_models_are_counted_to_its_agent_and_its_task(world: World) -> None:
    task = world.call("root", "assign_task", agent="a", title="think", description="x")["task"]
    opened = open_sub(world, "a", task=task)
    finish(world, reserve(world, "a", sub=opened["id"]))
    finish(world, reserve(world, "a"))
    assert sums(world, "tokens_in") == {("a", "measured"): 180}
    theirs, own = (fields(event) for event in model_events(world))
    assert (theirs["sub"], theirs["task"]) == (opened["id"], task)
    assert "sub" not in own
    (row,) = rows(world.call("operator", "list_subagents", agent="a")["subagents"])
    assert (row["model_calls"], row["tokens_in"], row["task"]) == (1, 90, task)


def test_no_model_is_called_for_a_closed_or_unknown_sub_agent(world: World) -> None:
    opened = open_sub(world, "a", timeout_seconds=5)
    for sub in ("nobody", open_sub(world, "b")["id"]):
        with pytest.raises(NotFound, match="it is closed"):
            reserve(world, "a", sub=sub)
    world.advance(5)
    with pytest.raises(NotFound, match="it is closed"):
        reserve(world, "a", sub=opened["id"])


# Who sees them


def test_who_may_list_them(world: World) -> None:
    opened = open_sub(world, "a")
    for caller in ("a", "root", "operator"):
        (row,) = rows(world.call(caller, "list_subagents", agent="a")["subagents"])
        assert (row["agent"], row["id"], row["parent"]) == ("a", opened["id"], "a")
    assert world.fault("a1", "list_subagents", agent="a") == "NotAllowed"
    assert world.fault("b", "list_subagents", agent="a1") == "NotFound"
    assert rows(world.call("b", "list_subagents")["subagents"]) == []


def test_an_agent_in_quarantine_opens_none_and_its_sub_agents_say_nothing(world: World) -> None:
    caller = party("a", open_sub(world, "a"))
    world.call("operator", "quarantine", agent="a", reason="odd")
    for who, operation, params in (
        ("a", "open_subagent", sub_params()), (caller, "send", {"to": "a", "body": "x"}),
    ):  # fmt: skip
        with pytest.raises(NotAllowed) as refused:
            world.call(who, operation, **params)
        assert refused.value.fields["rule"] == "quarantine"
