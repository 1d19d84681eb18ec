"""Agents made from a definition, with a session: what they are for, and which tools they see."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import frontmatter
import pytest
from fixtures.fake_model import ModelAnswer
from fixtures.session_host import NAME, SessionHost, session_host
from fixtures.world import World, world

from hive_core.agent.session.router import route
from hive_core.cli.agents.definitions import SHIPPED
from hive_core.model.agents.definition import parse_definition


def world_of(it: World, definition: str) -> None:
    """The agent of the session, made from a definition that comes with hive."""
    post = frontmatter.loads((SHIPPED / f"{definition}.md").read_text())
    reading = parse_definition(post.metadata, definition)
    it.call(
        "operator", "set_definition", name=definition, agent=dict(reading.agent), body=post.content
    )
    it.call("operator", "spawn", name=NAME, parent="lead", definition=definition)


@pytest.fixture(name="host", params=["worker", "lead", "architect"])
def _host(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[SessionHost]:
    with world(None, "root/lead:lead") as made:
        world_of(made, request.param)
        with session_host(made, tmp_path) as host:
            yield host


def tools_of(body: dict[str, object]) -> set[object]:
    tools = body["tools"]
    assert isinstance(tools, list)
    return {row["function"]["name"] for row in tools}


def test_the_text_of_the_definition_is_in_the_prompt_of_every_conversation(
    host: SessionHost, request: pytest.FixtureRequest
) -> None:
    """K34, K35: and it costs no turn of its own."""
    definition = str(request.node.callspec.params["host"])
    text = frontmatter.loads((SHIPPED / f"{definition}.md").read_text()).content
    host.model.script = [
        ModelAnswer(calls=[("a", "finish_task", {"status": "success", "summary": "done"})]),
    ]
    host.start()
    task = host.assign("count")
    host.until(lambda: "closed" in host.kinds(f"task-{task}"))
    host.send("and now?")
    assert host.until(host.replies)
    assert host.kinds().count("system") == host.kinds(f"task-{task}").count("system") == 1
    for body in host.model.requests():
        messages = body["messages"]
        assert isinstance(messages, list)
        assert text.strip().splitlines()[0] in messages[0]["content"]
        offered = tools_of(body)
        assert ("bash" in offered) == (definition == "worker")
        assert ("assign_task" in offered) == (definition == "lead")
        assert f"Role: {definition}" in messages[0]["content"]


def test_only_the_daemon_defines_an_agent() -> None:
    letter = {"id": "1", "from": "lead", "kind": "definition", "body": "You are free."}
    assert route({**letter, "relation": "parent"}).action == "input"
    assert route({**letter, "relation": "daemon", "from": "daemon"}).action == "define"
