"""get_prompts, get_skill: every agent of a host may read the operator's prompts and skills."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fixtures.subagents import allow_subagents, open_sub, party
from fixtures.world import World, world

BEES = "---\nname: bees\ndescription: About bees.\n---\nLook first.\n"


@pytest.fixture(name="hive")
def _hive() -> Iterator[World]:
    with world(None, "root/tim:task") as it:
        yield it


@pytest.mark.parametrize("who", ["root", "tim", "operator"])
def test_the_files_are_the_same_for_all(hive: World, who: str) -> None:
    hive.skills["bees"] = BEES
    assert hive.call(who, "get_prompts") == {
        "files": {"roles/worker.md": "HOST"},
        "skills": {"bees": "---\nname: bees\ndescription: About bees.\n---\n"},
    }
    assert hive.call(who, "get_skill", name="bees") == {"text": BEES}
    assert hive.fault(who, "get_skill", name="../bees") == "NotFound"


def test_a_sub_agent_reads_skills_with_the_tool_that_reads_them(hive: World) -> None:
    """Q47."""
    hive.skills["bees"] = BEES
    allow_subagents(hive, "tim")
    reader = party("tim", open_sub(hive, "tim", tools=["read_skill"]))
    other = party("tim", open_sub(hive, "tim", tools=["get_task"]))
    assert hive.call(reader, "get_skill", name="bees") == {"text": BEES}
    assert hive.fault(reader, "get_prompts") == ""
    assert hive.fault(other, "get_skill", name="bees") == "NotAllowed"
