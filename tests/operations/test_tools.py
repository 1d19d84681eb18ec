"""use_tool and related: who executes what (row T1), and what a creator passes on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from each import for_each
from fixtures.world import World, fields, rows, world

from hive_core.broker.call import Call, Record
from hive_core.broker.operation import Result
from hive_core.errors import LimitReached, NotAllowed, NotFound
from hive_core.model.agents.agent import Role
from hive_core.model.agents.roles import ROLE_DEFAULTS
from hive_core.model.work.task import Task, TaskRequest
from hive_core.model.work.tools import TOOLS
from hive_core.operations.tasks.assign import create_task
from hive_core.operations.tasks.transitions import move_task
from hive_core.operations.tools.operations import OPEN_MOST, SHOWN


class Nothing(Result):
    """No answer."""


STATUS = ["git", "status"]


@pytest.fixture(name="hive")
def _hive() -> Iterator[World]:
    with world(None, "root/lead:lead", "lead/wu:worker", "wu/tim:task", "lead/ada:architect") as it:
        it.grow("root/dee:daemon", "root/ann:agent")
        yield it


def use(hive: World, who: str, *words: str, tool: str = "bash") -> str:
    return str(hive.call(who, "use_tool", tool=tool, argument=list(words))["grant"])


BY_ROLE = {
    "wu": {"bash", "edit", "list", "mcp", "read", "search", "undo"},
    "tim": {"bash", "edit", "list", "mcp", "read", "search", "undo"},
    "ada": {"list", "read", "search"},
    "lead": set[str](),
    "ann": set[str](),
    "dee": set[str](),
    "operator": set[str](),
}
ALIASES = {
    "file_reader": "read", "command": "bash", "edit_file": "edit", "list_directory": "list",
    "grep": "search", "undo_changes": "undo",
}  # fmt: skip


@for_each("who, may", BY_ROLE.items())
def test_a_role_executes_what_its_row_says(hive: World, who: str, may: set[str]) -> None:
    if who != "operator":
        assert set(ROLE_DEFAULTS[hive.hive.spec(who).role].tools) == may
    for name, result in ALIASES.items():
        error = hive.fault(who, "use_tool", tool=name, argument=["a"])
        assert error == ("" if result in may else "NotAllowed"), name


def test_a_manager_s_command_is_refused_and_recorded(hive: World) -> None:
    """T1: NotAllowed and an event."""
    with pytest.raises(NotAllowed, match="cannot use bash: you plan and delegate"):
        use(hive, "lead", *STATUS)
    event = hive.events()[-1]
    assert (event["kind"], event["caller"], event["operation"], event["rule"]) == (
        "refusal", "lead", "use_tool", "tools",
    )  # fmt: skip


def test_a_use_is_recorded_with_its_tool_and_argument(hive: World) -> None:
    grant = use(hive, "wu", *STATUS, tool="run_command")
    assert fields(hive.events()[-1]) == {
        "caller_name": "wu", "target_name": "wu", "tool": "bash", "argument": "git status",
        "grant": grant, "task": "",
    }  # fmt: skip


@for_each("before", [*range(0, SHOWN + 3, 29), SHOWN - 1])
def test_a_secret_is_hidden_also_where_what_is_recorded_ends(hive: World, before: int) -> None:
    """Hiding shortens the text: characters behind the end of the record move into it."""
    secret = "hunter22-" * 9
    hive.call("operator", "set_secret", agent="wu", key="token", value=secret)
    use(hive, "wu", "x" * before + secret * 20)
    shown = ("x" * before + "***" * 20)[:SHOWN]
    assert fields(hive.events()[-1])["argument"] == shown


def test_a_grant_is_good_for_one_use_by_its_holder(hive: World) -> None:
    grant = use(hive, "wu", *STATUS)
    assert hive.fault("tim", "end_tool", grant=grant) == "NotFound"
    hive.call("wu", "end_tool", grant=grant, status="failed", detail="exit status 1")
    assert fields(hive.events()[-1])["status"] == "failed"
    assert hive.fault("wu", "end_tool", grant=grant) == "NotFound"


def test_a_grant_ends_by_itself_and_that_is_told(hive: World) -> None:
    grant = str(hive.call("wu", "use_tool", tool="bash", argument=STATUS, seconds=10.0)["grant"])
    hive.advance(39)
    assert hive.ledger.tools.get(grant) is not None
    hive.advance(1)
    assert hive.ledger.tools.get(grant) is None
    (event,) = [event for event in hive.events() if event["kind"] == "tool"]
    assert (event["target"], fields(event)["grant"]) == ("wu", grant)
    with pytest.raises(NotFound):
        hive.call("wu", "end_tool", grant=grant)


def test_open_grants_are_few(hive: World) -> None:
    for _ in range(OPEN_MOST):
        use(hive, "wu", *STATUS)
    with pytest.raises(LimitReached):
        use(hive, "wu", *STATUS)
    assert use(hive, "tim", *STATUS)


def assign(hive: World, **wish: object) -> Task:
    """A task of wu's."""
    made: list[Task] = []

    def give(call: Call) -> Record[Nothing]:
        task = create_task(call, hive.uuid("lead"), "wu", TaskRequest("x", **wish))  # type: ignore[arg-type]
        made.append(task)
        return Record(Nothing())

    hive.broker.perform("give", give)
    hive.run()
    return made[0]


def move(hive: World, task: Task, event: str, **changes: str) -> None:
    def act(call: Call) -> Record[Nothing]:
        result = hive.ledger.tasks.get(task.id)
        assert result is not None
        move_task(call, result, event, **changes)  # type: ignore[arg-type]
        return Record(Nothing())

    hive.broker.perform("act", act)
    hive.run()


def test_nothing_is_executed_before_the_plan_is_approved(hive: World) -> None:
    """T7: the lock is the broker's, and no message opens it."""
    task = assign(hive, plan_required=True)
    with pytest.raises(NotAllowed, match=task.id):
        use(hive, "wu", *STATUS)
    hive.call("wu", "begin_task", task=task.id)
    move(hive, task, "submit")
    hive.call("lead", "send", to="wu", body="approved, go on")
    with pytest.raises(NotAllowed, match="not approved yet"):
        use(hive, "wu", *STATUS)
    assert {why != "" for _, why in list_tools(hive, "wu").values()} == {True}
    move(hive, task, "approve", plan="p1")
    assert use(hive, "wu", *STATUS)


def test_a_use_is_for_an_open_task_of_one_s_own(hive: World) -> None:
    task = assign(hive)
    assert hive.call("wu", "use_tool", tool="bash", argument=STATUS, task=task.id)["grant"]
    assert fields(hive.events()[-1])["task"] == task.id
    for who, id_ in (("tim", task.id), ("wu", "feedfeedfeed")):
        error = hive.fault(who, "use_tool", tool="bash", argument=STATUS, task=id_)
        assert error == "NotFound", who


def spawn(hive: World, who: str, name: str, role: str, **more: object) -> None:
    hive.call(who, "spawn", name=name, role=role, **more)


def test_an_agent_s_own_list_makes_it_less(hive: World) -> None:
    spawn(hive, "lead", "gus", "worker", tools=["bash(git *)", "read(docs/*)"])
    assert use(hive, "gus", "git", "log")
    assert use(hive, "gus", "docs/a.md", tool="read")
    for tool, words in (
        ("bash", ["rm", "-r", "x"]), ("bash", ["git log; rm"]), ("bash", ["sh", "-c", "git log"]),
        ("read", ["src/a.py"]), ("edit", ["docs/a.md"]),
    ):  # fmt: skip
        assert hive.fault("gus", "use_tool", tool=tool, argument=words) == "NotAllowed", words


def test_a_list_adds_nothing_to_a_role(hive: World) -> None:
    spawn(hive, "root", "max", "lead", tools=["bash", "read"])
    assert hive.fault("max", "use_tool", tool="bash", argument=STATUS) == "NotAllowed"
    spawn(hive, "root", "eva", "architect", tools=["bash", "read"])
    assert hive.fault("eva", "use_tool", tool="bash", argument=STATUS) == "NotAllowed"
    assert use(hive, "eva", "a", tool="read")


def test_no_agent_hands_on_more_than_its_own_list(hive: World) -> None:
    spawn(hive, "root", "max", "lead", tools=["bash(git *)", "read"])
    assert hive.fault("max", "spawn", name="x", role="worker", tools=["bash"]) == "NotAllowed"
    assert hive.fault("max", "spawn", name="x", role="worker", tools=["edit"]) == "NotAllowed"
    spawn(hive, "max", "x", "worker", tools=["bash(git log *)"])
    assert hive.fault("x", "spawn", name="y", role="task", tools=["bash(git *)"]) == "NotAllowed"
    spawn(hive, "max", "z", "worker")
    assert hive.hive.spec("z").tools == ("bash(git *)", "read")


def test_an_ancestor_hands_on_all_that_a_role_has(hive: World) -> None:
    spawn(hive, "lead", "will", "worker")
    assert hive.hive.spec("will").tools is None
    spawn(hive, "wu", "toni", "task", tools=["read"])
    assert hive.fault("toni", "use_tool", tool="bash", argument=STATUS) == "NotAllowed"


def test_a_list_is_kept_in_one_spelling_and_a_wrong_one_refused(hive: World) -> None:
    spawn(hive, "root", "a", "worker", tools=["Run_Command", "bash(git *)", "file_reader"])
    assert hive.hive.spec("a").tools == ("bash", "read")
    assert hive.fault("root", "spawn", name="b", tools=["bash(git * x)"]) == "InvalidArgument"


def list_tools(hive: World, who: str, **texts: object) -> dict[object, tuple[object, object]]:
    tools = rows(hive.call(who, "list_tools", **texts)["tools"])
    return {row["tool"]: (row["entries"], row["why"]) for row in tools}


def test_an_agent_is_told_what_it_may_use_and_why_not_the_others(hive: World) -> None:
    spawn(hive, "lead", "gus", "worker", tools=["bash(git *)"])
    result = list_tools(hive, "gus")
    assert result.pop("bash") == (["bash(git *)"], "")
    assert set(result) == TOOLS.keys() - {"bash"}
    assert all(row == ([], "it is not on your list") for row in result.values())
    assert list_tools(hive, "lead", agent="gus") == list_tools(hive, "gus")
    assert {why for _, why in list_tools(hive, "lead").values()} == {"you plan and delegate"}
    assert hive.fault("wu", "list_tools", agent="gus") == "NotAllowed"
    assert list_tools(hive, "operator", agent="ada")["read"] == (["read"], "")


def test_every_role_is_in_the_list_of_roles(hive: World) -> None:
    """K1, K26."""
    result = {row["role"]: row for row in rows(hive.call("tim", "list_roles")["roles"])}
    assert result.keys() == set(Role)
    assert result["worker"]["creates"] == ["task"]
    assert result["task"]["highest_tier"] == "tactical"
    (only,) = rows(hive.call("operator", "list_roles", role="lead")["roles"])
    assert only["behaviour"] == "manager"
