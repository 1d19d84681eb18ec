"""create_colony: all of it or nothing, what the worker inherits, and its skill (Q14, Q15, Q18)."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from each import for_each
from fixtures.world import Reply, World, fields, rows, texts, world
from hypothesis import given
from hypothesis import strategies as st

from hive_core.errors import HiveError, InvalidArgument
from hive_core.model.agents.agent import Role, Runtime
from hive_core.model.agents.machine import DesiredState
from hive_core.model.work.skill import check_skill

SKILL = "---\nname: bees\ndescription: How to find what is new about bees.\n---\nLook first.\n"
COLONY: Reply = {
    "name": "reader", "task": "Know what is new about bees, every day.",
    "skill_path": "skills/bees", "skill": SKILL, "source_conversation": "main", "source_turn": 3,
}  # fmt: skip


@pytest.fixture(name="hive")
def _hive() -> Iterator[World]:
    with world(None, "root/lead:lead") as it:
        it.call(
            "operator", "spawn", name="queen", role="daemon", profile="queen", runtime="builtin"
        )
        yield it


def create(hive: World, **more: object) -> Reply:
    return hive.call("queen", "create_colony", **{**COLONY, **more})


def test_a_colony_is_a_stopped_worker_with_its_task_and_its_skill(hive: World) -> None:
    """Q14, Q18: nothing starts."""
    reply = create(hive)
    assert (reply["name"], reply["skill"], reply["created"]) == ("reader", "bees", True)
    spec = hive.hive.spec("reader")
    assert (spec.role, spec.runtime) == (Role.WORKER, Runtime.BUILTIN)
    assert hive.hive.topology.parent("reader") == "queen"
    run = hive.ledger.runs.get(spec.id)
    assert run is not None
    assert run.wanted is DesiredState.STOPPED
    letters = {str(row["kind"]): str(row["body"]) for row in hive.mail("reader")}
    assert letters == {
        "definition": COLONY["task"], "skill": f'{{"name": "bees"}}\n{SKILL}',
    }  # fmt: skip
    assert [row["kind"] for row in hive.mail("root") + hive.mail("lead")] == []


def test_both_sides_say_where_a_colony_comes_from(hive: World) -> None:
    """Q15: the queen's event, and the worker's own view."""
    create(hive)
    (event,) = [row for row in hive.events() if row["operation"] == "create_colony"]
    noted = fields(event)
    assert (event["target"], noted["judged"]) == ("reader", "queen")
    assert (noted["colony"], noted["conversation"], noted["turn"]) == ("reader", "main", 3)
    for caller in ("reader", "queen", "operator"):
        view = hive.call(caller, "get_colony", agent="reader")
        assert (view["queen"], view["conversation"], view["turn"]) == ("queen", "main", 3)
    assert hive.fault("lead", "get_colony", agent="reader") == "NotFound"
    assert hive.fault("operator", "get_colony", agent="lead") == "NotFound"


def test_a_worker_inherits_tools_and_neither_persona_nor_queens_rights(hive: World) -> None:
    """Q15."""
    hive.call("operator", "set_persona", persona="Ada")
    create(hive, without_tools=["run_command"])
    spec = hive.hive.spec("reader")
    assert "bash" not in texts(list(spec.tools or ()))
    assert "read" in texts(list(spec.tools or ()))
    assert set(spec.capabilities) <= set(hive.hive.spec("queen").capabilities)
    assert "Ada" not in str(hive.mail("reader"))
    shown = {row["name"] for row in rows(hive.call("reader", "list_toolset")["tools"])}
    assert not shown & {"create_colony", "ask_user", "run_parallel_workers", "bash"}


def test_a_summary_is_told_where_it_is_asked_for(hive: World) -> None:
    assert hive.fault("queen", "create_colony", **COLONY, summary="x") == "InvalidArgument"
    assert hive.fault("queen", "create_colony", **COLONY, inherit="summary") == "InvalidArgument"
    create(hive, inherit="summary", summary="They like bees.")
    assert "They like bees." in str(hive.mail("reader")[0]["body"])


def segment(hive: World, **more: object) -> Reply:
    """The parameters that name a conversation which the queen has stored."""
    said = {"name": "segments/x", "text": "opaque", "visibility": "subtree", **more}
    row = hive.call("queen", "store_artifact", **said)
    return {"inherit": "full", "segment": row["id"], "segment_sha256": row["digest"]}


def test_a_conversation_is_named_with_its_digest_and_read_by_its_worker_alone(hive: World) -> None:
    """Q15, Q17: the daemon looks at none of its bytes."""
    named = segment(hive)
    create(hive, **named)
    (letter,) = [row for row in hive.mail("reader") if row["kind"] == "segment"]
    assert json.loads(str(letter["body"])) == {
        "artifact": named["segment"], "sha256": named["segment_sha256"],
    }  # fmt: skip
    assert hive.call("reader", "get_artifact", id=named["segment"])["data"]
    (event,) = [row for row in hive.events() if row["operation"] == "create_colony"]
    noted = fields(event)
    assert (noted["inherit"], noted["segment"], noted["sha256"]) == tuple(named.values())


def test_the_further_files_of_a_skill_are_named_with_their_digest(hive: World) -> None:
    """Q18."""
    row = hive.call("queen", "store_artifact", name="f", text="opaque", visibility="subtree")
    named = {"artifact": row["id"], "sha256": row["digest"]}
    params = {"skill_files": row["id"], "skill_files_sha256": row["digest"]}
    create(hive, **params)
    (letter,) = [row for row in hive.mail("reader") if row["kind"] == "skill"]
    assert json.loads(str(letter["body"]).partition("\n")[0]) == {"name": "bees", "files": named}
    wrong = {**COLONY, **params, "name": "other", "skill_files_sha256": "0" * 64}
    assert hive.fault("queen", "create_colony", **wrong) == "InvalidArgument"


def test_a_conversation_that_the_worker_could_not_read_is_refused(hive: World) -> None:
    named = segment(hive)
    foreign = hive.call("lead", "store_artifact", name="x", text="opaque", visibility="subtree")
    for wrong in (
        {"inherit": "none"}, {"segment": ""}, {"segment": "nothing"}, {"segment_sha256": "0" * 64},
        {"segment": foreign["id"]}, segment(hive, name="own", visibility="private"),
    ):  # fmt: skip
        fault = hive.fault("queen", "create_colony", **{**COLONY, **named, **wrong})
        assert fault == "InvalidArgument", wrong
    assert "reader" not in hive.hive.specs


def test_the_same_name_again_replaces_task_and_skill(hive: World) -> None:
    """Q14: idempotent by name."""
    first = create(hive)
    again = create(hive, task="Only on Mondays.")
    assert (again["uuid"], again["created"]) == (first["uuid"], False)
    assert hive.call("queen", "get_colony", agent="reader")["task"] == "Only on Mondays."
    assert [row["kind"] for row in hive.mail("reader")].count("definition") == 2
    hive.call("queen", "spawn", name="other", role="worker")
    assert hive.fault("queen", "create_colony", **{**COLONY, "name": "other"}) == "AlreadyExists"
    assert hive.fault("queen", "create_colony", **{**COLONY, "name": "lead"}) == "AlreadyExists"


@for_each("more", [
    {"skill": ""}, {"skill": "no front matter"}, {"skill": SKILL.replace("bees\n", "wasps\n")},
    {"skill": SKILL.replace("How to find what is new about bees.", "")},
    {"skill": SKILL.replace("Look first.", "")}, {"skill_path": "skills/Bees"},
    {"skill": SKILL.replace("How", "x" * 1025)}, {"without_tools": ["fly"]}, {"name": "No Name"},
])  # fmt: skip
def test_what_is_wrong_is_refused_before_anything_is_made(
    hive: World, more: dict[str, object]
) -> None:
    """Q14, Q18."""
    before = hive.ledger.head
    with pytest.raises(HiveError):
        create(hive, **more)
    assert hive.ledger.head == before
    assert "reader" not in hive.hive.specs


@pytest.mark.parametrize("caller", ["lead", "root", "operator"])
def test_only_a_queen_without_an_open_colony_prepares_one(hive: World, caller: str) -> None:
    assert hive.fault(caller, "create_colony", **COLONY) == "NotAllowed"
    create(hive)
    hive.call("operator", "open_colony", colony="reader")
    assert hive.fault("queen", "create_colony", **{**COLONY, "name": "more"}) == "NotAllowed"
    colony = hive.call("queen", "get_phase")["colony"]
    assert isinstance(colony, dict)
    assert colony["goal"] == COLONY["task"]


def test_the_number_of_colonies_is_bounded(hive: World) -> None:
    """Q16: as that of all children."""
    most = hive.hive.spec("queen").max_children
    for number in range(most):
        create(hive, name=f"r{number}")
    assert hive.fault("queen", "create_colony", **{**COLONY, "name": "more"}) == "LimitReached"


def test_a_run_says_which_credentials_have_no_value(hive: World) -> None:
    """Q19."""
    create(hive)
    hive.call("operator", "grant_capability", agent="reader", capability="secret:news")
    hive.call("operator", "open_colony", colony="reader")
    task = "Read the news of today and write down all that is about bees, with sources."
    reply = hive.call("queen", "run_agent_with_input", task=task)
    assert reply["warnings"] == ["without the credential news, which has no value"]
    hive.call("operator", "set_secret", agent="reader", key="news", value="x")
    assert hive.call("queen", "run_agent_with_input", task=task)["warnings"] == []


class Killed(BaseException):
    """The daemon ends here."""


def kill_at(hive: World, number: int) -> list[str]:
    """Have the daemon end at this step of the changes to come; the steps that it came to."""
    steps: list[str] = []

    def step(name: str) -> None:
        steps.append(name)
        if len(steps) == number:
            raise Killed

    hive.step = step
    return steps


def test_a_kill_at_each_step_leaves_nothing_or_all(hive: World) -> None:
    """Q14: agent, task, skill and conversation."""
    named = segment(hive)
    steps = kill_at(hive, 0)
    create(hive, name="whole", **named)
    count = len(steps)
    assert count >= 3
    for number in range(1, count + 1):
        name = f"r{number}"
        kill_at(hive, number)
        with pytest.raises(Killed):
            create(hive, name=name, **named)
        hive.step = lambda _: None
        hive.kill()
        hive.repo.recover(hive.ledger.head)  # as a daemon does when it starts
        parts = {
            name in hive.hive.specs,
            hive.fault("operator", "get_colony", agent=name) == "",
            any(row["target_name"] == name for row in hive.events() if "target_name" in row)
            or any(fields(row).get("colony") == name for row in hive.events()),
        }
        assert len(parts) == 1, steps
        create(hive, name=name, **named)
        kinds = [row["kind"] for row in hive.mail(name)]
        assert kinds[:3] == ["definition", "skill", "segment"]


@given(st.text(max_size=80), st.text(max_size=200))
def test_any_text_is_a_skill_or_a_typed_error(folder: str, text: str) -> None:
    try:
        name = check_skill(folder, text)
    except InvalidArgument as error:
        name = str(error.field)
    assert name
