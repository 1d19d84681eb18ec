"""The definitions that come with hive: agents of the pipelines with a model (rows K33 to K36)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import frontmatter
import pytest
from each import for_each
from fixtures.world import World, rows, world

from hive_core.cli.agents import definitions
from hive_core.model.agents.agent import SESSION, AgentSpec, Profile, Role, Runtime
from hive_core.model.agents.definition import ParsedDefinition, parse_definition
from hive_core.runtime.prompts import render_system

FILES = sorted(definitions.SHIPPED.glob("*.md"))
ROLES = {
    "architect": Role.ARCHITECT, "lead": Role.LEAD, "maid": Role.DAEMON, "queen": Role.DAEMON,
    "worker": Role.WORKER,
}  # fmt: skip


def definition_of(file: Path) -> tuple[ParsedDefinition, str]:
    post = frontmatter.loads(file.read_text())
    return parse_definition(post.metadata, file.stem), post.content


@pytest.fixture(name="hive")
def _hive() -> Iterator[World]:
    with world(None, "root/lead:lead") as it:
        for file in FILES:
            reading, body = definition_of(file)
            it.call(
                "operator", "set_definition", name=reading.name, description=reading.description,
                agent=dict(reading.agent), body=body,
            )  # fmt: skip
        yield it


def test_there_is_one_for_each_kind_of_the_pipelines() -> None:
    assert [file.stem for file in FILES] == sorted(ROLES)


@for_each("file", FILES)
def test_each_is_read_without_a_warning(file: Path) -> None:
    reading, body = definition_of(file)
    assert reading.warnings == ()
    assert reading.name == file.stem
    assert reading.description
    assert body.strip()


@for_each("name", sorted(ROLES))
def test_the_operator_creates_an_agent_from_it_that_runs_its_session(
    hive: World, name: str
) -> None:
    """K33, K34, K35, K36."""
    hive.call("operator", "spawn", name=f"my-{name}", definition=name)
    spec = hive.hive.spec(f"my-{name}")
    assert (spec.role, spec.runtime) == (ROLES[name], Runtime.BUILTIN)
    assert tuple(spec.program) == SESSION
    (letter,) = [row for row in hive.mail(f"my-{name}") if row["kind"] == "definition"]
    assert letter["relation"] == "daemon"
    reply = hive.call("operator", "list_toolset", agent=f"my-{name}")
    text = render_system({
        "name": f"my-{name}", "role": spec.role.value, "profile": reply["profile"],
        "capabilities": list(spec.capabilities), "definition": str(letter["body"]),
        "tools": [str(row["name"]) for row in rows(reply["tools"]) if row["name"] != "read_skill"],
        "workspace": "/w",
    })  # fmt: skip
    assert str(letter["body"]).strip() in text


def test_a_lead_creates_workers_from_it(hive: World) -> None:
    hive.call("lead", "spawn", name="hand", definition="worker")
    assert hive.hive.spec("hand").runtime is Runtime.BUILTIN
    assert hive.hive.topology.parent("hand") == "lead"


def test_only_the_operator_creates_a_queen_and_there_is_one(hive: World) -> None:
    """K33."""
    hive.call("operator", "spawn", name="my-queen", definition="queen")
    assert hive.hive.built_in_agent(Profile.QUEEN) == "my-queen"
    assert hive.fault("operator", "spawn", name="q", definition="queen") == "AlreadyExists"
    hive.call("operator", "destroy", agent="my-queen")
    assert hive.fault("lead", "spawn", name="q", definition="queen", tier="operational") == (
        "NotAllowed"
    )
    assert hive.fault("operator", "spawn", name="q", profile="queen") == "InvalidArgument"
    hive.call("operator", "spawn", name="q", definition="queen")
    assert hive.fault("operator", "spawn", name="q2", definition="queen") == "AlreadyExists"


def test_a_definition_of_another_role_with_a_profile_is_refused(hive: World) -> None:
    wrong = {"role": "worker", "profile": "maid"}
    assert hive.fault("operator", "set_definition", name="x", agent=wrong) == "InvalidArgument"


# What an agent with a runtime creates runs a model too, unless the call says otherwise.


def spawn(hive: World, who: str, **more: object) -> AgentSpec:
    reply = hive.call(
        who, "spawn_agent_and_assign_task", agent_role="Hand", task_description="x",
        agent_type="worker", **more,
    )  # fmt: skip
    return hive.hive.spec(str(reply["name"]))


def test_a_new_agent_of_a_manager_with_a_runtime_has_that_runtime(hive: World) -> None:
    hive.call("operator", "spawn", name="boss", role="lead", runtime="builtin")
    spec = spawn(hive, "boss")
    assert (spec.runtime, tuple(spec.program)) == (Runtime.BUILTIN, SESSION)
    own = spawn(hive, "boss", command=["hive-agent", "worker"])
    assert (own.runtime, tuple(own.program)) == (None, ("hive-agent", "worker"))
    assert spawn(hive, "boss", definition="worker").runtime is Runtime.BUILTIN
    assert spawn(hive, "lead").runtime is None


def batch_workers(hive: World, who: str, **more: object) -> list[str]:
    before = set(hive.hive.specs)
    hive.call(who, "run_parallel_workers", tasks=["x"], **more)
    hive.run()
    return sorted(set(hive.hive.specs) - before)


def test_the_workers_of_a_batch_have_the_runtime_of_its_owner(hive: World) -> None:
    """Q20."""
    hive.call("operator", "spawn", name="chief", role="lead", runtime="builtin")
    (name,) = batch_workers(hive, "chief")
    assert hive.hive.spec(name).runtime is Runtime.BUILTIN
    assert tuple(hive.hive.spec(name).program) == SESSION
    (name,) = batch_workers(hive, "chief", spawn={"runtime": "builtin"})
    assert hive.hive.spec(name).runtime is Runtime.BUILTIN
    (name,) = batch_workers(hive, "chief", spawn={"command": ["true"]})
    assert (hive.hive.spec(name).runtime, hive.hive.spec(name).program) == (None, ("true",))
    (name,) = batch_workers(hive, "lead")
    assert tuple(hive.hive.spec(name).program) == ("hive-agent", "worker")
