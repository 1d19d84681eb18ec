"""A session of a queen: other tools and another prompt from the next request (Q6, Q10, Q12)."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from fixtures.fake_model import Json, ModelAnswer
from fixtures.session_host import NAME, SessionHost, session_host
from fixtures.world import rows, world

from hive_core.agent.prompt import logged_prompt

LONG = "Read the whole news of today and write down what is about bees, with sources."


@pytest.fixture(name="host")
def _host(tmp_path: Path) -> Iterator[SessionHost]:
    """The agent of the session is a queen; `wu` is her colony."""
    with world(None, "root/lead:lead") as made:
        made.call(
            "operator",
            "spawn",
            name=NAME,
            role="daemon",
            profile="queen",
            parent="lead",
            runtime="builtin",
        )
        made.call("operator", "spawn", name="wu", role="worker", parent=NAME)
        made.call("operator", "open_colony", colony="wu", goal="Know all about bees.")
        with session_host(made, tmp_path) as host:
            yield host


def system_of(body: Json) -> str:
    """The system prompt of a request."""
    first = rows(body["messages"])[0]
    assert first["role"] == "system"
    return str(first["content"])


def tools_of(body: Json) -> set[str]:
    return {str(row["function"]["name"]) for row in rows(body["tools"])}  # type: ignore[index]


def phases_of(host: SessionHost) -> list[str]:
    """The phase of each request, as its prompt says and its tools agree."""
    phases = []
    for body in host.model.requests():
        phase = system_of(body).split("## Your phase: ")[1].split("\n")[0]
        has_run, has_stop = (
            name in tools_of(body) for name in ("run_agent_with_input", "stop_worker")
        )
        assert has_run == (phase != "independent")
        assert has_stop == (phase == "running")
        phases.append(phase)
    return phases


def test_a_call_that_moves_the_queen_changes_her_next_request(host: SessionHost) -> None:
    host.model.script = [
        ModelAnswer(calls=[
            ("a", "run_agent_with_input", {"task": LONG}), ("b", "list_credentials", {}),
        ]),
        ModelAnswer("it runs"),
        ModelAnswer("it is done"),
    ]  # fmt: skip
    host.start()
    host.until(lambda: host.model.bodies)
    host.until(lambda: host.kinds().count("closed") == 1)
    assert phases_of(host) == ["staging", "running"]
    first, second = host.model.requests()
    assert "Goal: Know all about bees." in system_of(first)
    # The conversation goes on: only its system prompt is another one.
    assert rows(second["messages"])[1 : len(rows(first["messages"]))] == rows(first["messages"])[1:]
    assert len(host.of_kind("result")) == 2
    assert logged_prompt(host.state / "session", "main").decode() == system_of(second)
    # The end of the run moves her, and her message begins a turn in the new phase.
    (task,) = rows(host.world.call("wu", "list_tasks", only=True)["tasks"])
    host.world.call("wu", "finish_task", task=task["id"], status="success", summary="bees")
    host.until(lambda: host.kinds().count("closed") == 2)
    assert phases_of(host)[2:] == ["editing"]
    assert "success: bees" in host.model.bodies[2].decode()
    host.kill()
    host.start()
    host.send("and now?")
    host.until(lambda: host.kinds().count("closed") == 3)
    assert phases_of(host)[3:] == ["editing"]
    assert system_of(host.model.requests()[3]) == system_of(host.model.requests()[2])


def test_a_user_who_moves_the_queen_interrupts_her_request(host: SessionHost) -> None:
    held = threading.Event()
    host.model.script = [ModelAnswer("never read", held=held), ModelAnswer("closed")]
    host.start()
    host.until(lambda: host.model.bodies)
    host.world.call("operator", "close_colony")
    host.until(lambda: host.kinds().count("closed") == 1)
    held.set()
    assert phases_of(host) == ["staging", "independent"]
    assert "never read" not in host.model.bodies[1].decode()
    assert "phase: independent" in host.model.bodies[1].decode()
