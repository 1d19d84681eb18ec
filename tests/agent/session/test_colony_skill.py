"""A queen hands a skill of her workspace to a colony, whose session installs it (Q14, Q18)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from fixtures.fake_model import ModelAnswer
from fixtures.session_host import NAME, SessionHost, session_host
from fixtures.world import world

from hive_core.agent import skills

SKILL = "---\nname: bees\ndescription: What is new about bees.\n---\nLook first.\n"


@pytest.fixture(name="host")
def _host(tmp_path: Path) -> Iterator[SessionHost]:
    with world(None, "root/lead:lead") as made:
        made.call(
            "operator", "spawn", name=NAME, role="daemon", profile="queen", runtime="builtin",
            parent="lead",
        )  # fmt: skip
        with session_host(made, tmp_path) as host:
            yield host


def test_a_queen_hands_over_the_skill_that_she_wrote(host: SessionHost) -> None:
    colony = {"name": "reader", "task": "Know what is new.", "skill_path": "skills/bees"}
    host.model.script = [
        ModelAnswer(calls=[("a", "create_colony", colony)]),
        ModelAnswer(calls=[("b", "edit", {"path": "skills/bees/SKILL.md", "new": SKILL})]),
        ModelAnswer(calls=[("c", "create_colony", colony)]),
        ModelAnswer("done"),
    ]  # fmt: skip
    host.start()
    host.send("Prepare it.", "root")
    host.until(lambda: "closed" in host.kinds())
    contents = {row["call"]: str(row["content"]) for row in host.of_kind("result")}
    assert "SKILL.md has no front matter" in contents["a"]
    assert '"created":true' in contents["c"]
    view = host.world.call("operator", "get_colony", agent="reader")
    assert (view["conversation"], view["turn"], view["skill"]) == ("main", 1, "bees")


def test_a_session_installs_its_skill_for_its_tools_to_read(host: SessionHost) -> None:
    """Q18: it is in the prompt, and its files belong to the user of the session."""
    host.notify("skill", f'{{"name": "bees"}}\n{SKILL}')
    host.model.script = [
        ModelAnswer(calls=[("a", "read_skill", {"name": "bees"})]), ModelAnswer("done"),
    ]  # fmt: skip
    host.start()
    host.send("hello", "root")
    host.until(lambda: "closed" in host.kinds())
    assert "`bees`: What is new about bees." in host.model.bodies[0].decode()
    folder = host.state / "skills"
    assert (folder / "bees" / "SKILL.md").stat().st_mode & 0o777 == 0o644
    assert skills.read_skill("bees", folder) == "Look first.\n"
    assert "Look first." in str(host.of_kind("result")[0]["content"])
    letters = [row["from"] for row in host.of_kind("input") if row["kind"] == "mail"]
    assert letters == ["root"]
