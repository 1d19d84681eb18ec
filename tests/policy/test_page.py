"""docs/agent-hierarchy.md says what the rules say."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from each import for_each
from fixtures.topologies import hive_of
from policy.naive import Question, decide

from hive_core.model.agents.agent import Role
from hive_core.model.agents.roles import ROLE_DEFAULTS, ROOT_AGENT_EXTRA, ROOT_EXTRA
from hive_core.model.wire.record import EGRESS_CALLER, MODEL_CALLER, OPERATOR
from hive_core.operations import load
from hive_core.plan.flake import pins
from hive_core.policy.relationship import upward_path
from hive_core.policy.rules import Decision

PAGE = (Path(__file__).parents[2] / "docs" / "agent-hierarchy.md").read_text()
OPERATIONS = load()
CODE = re.compile(r"`([^`]+)`")


def block(language: str) -> str:
    return PAGE.split(f"\n\n```{language}\n", 1)[1].split("```", 1)[0]


def rows(header: str) -> list[list[str]]:
    """Cells of the table whose first header cell is this."""
    table = PAGE.split(f"| {header} |", 1)[1].split("\n\n", 1)[0]
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()[2:]]


HIVE = hive_of(json.loads(block("json")))
CALLERS = ("carl", "bob", "root", "cora", "cleo", "dan", "eve", "operator")
TARGET = "carl"
ANSWERS = {"yes": (True, True), "no": (False, True), "hidden": (False, False)}
TABLE = [(name, row) for row in rows("operation, target") for name in CODE.findall(row[0])]


def ask(caller: str, operation: str, target: str | None, second: str | None = None) -> Decision:
    question = Question(HIVE, caller, operation, target, second)
    return decide(OPERATIONS[operation].allow, question)


@for_each("operation, row", TABLE)
def test_the_table_has_the_rights_of_each_caller(operation: str, row: list[str]) -> None:
    result = OPERATIONS[operation]
    assert result.target is not None or result.whose is not None
    for caller, cell in zip(CALLERS, row[1:], strict=True):
        decision = ask(caller, operation, TARGET)
        assert (decision.allowed, decision.visible) == ANSWERS[cell], caller


FACTS = [
    (name, fact, row)
    for row in rows("operation and fact")
    for *names, fact in [CODE.findall(row[0])]
    for name in names
]


@for_each("operation, fact, row", FACTS)
def test_the_second_table_has_the_rights_that_depend_on_the_ledger(
    operation: str, fact: str, row: list[str]
) -> None:
    for caller, cell in zip(CALLERS, row[1:], strict=True):
        question = Question(HIVE, caller, operation, TARGET, None, frozenset({fact}))
        decision = decide(OPERATIONS[operation].allow, question)
        assert (decision.allowed, decision.visible) == ANSWERS[cell], caller


OF_QUEEN = ("ask_user", "create_colony", "switch_to_reviewing")


def test_the_page_says_what_the_queen_may_and_others_may_not() -> None:
    """Q1."""
    for operation in OF_QUEEN:
        assert f"`{operation}`" in PAGE
        assert not ask("carl", operation, None).allowed


def operations_in(header: str) -> list[str]:
    """The operations of a table that has a word for each group of them."""
    return [name for row in rows(header) for name in CODE.findall(row[1])]


def test_some_operations_are_about_the_caller_itself() -> None:
    for operation in operations_in("about the caller itself"):
        assert OPERATIONS[operation].target is None
        assert OPERATIONS[operation].whose is None
        assert ask("carl", operation, None).rule == "self"


def test_some_operations_are_the_operator_s() -> None:
    for operation in operations_in("the operator's alone"):
        assert OPERATIONS[operation].target is None
        assert not ask("root", operation, None).allowed
        assert ask("operator", operation, None).allowed


SERVICES = [(MODEL_CALLER, "model"), (EGRESS_CALLER, "egress")]


@pytest.mark.parametrize(("service", "rule"), SERVICES)
def test_some_operations_are_those_of_a_service(service: str, rule: str) -> None:
    for operation in operations_in(f"hive-{rule}'s alone"):
        for caller in (*CALLERS, OPERATOR, *(other for other, _ in SERVICES if other != service)):
            assert not ask(caller, operation, None).allowed
            assert not ask(caller, operation, TARGET).allowed
        assert ask(service, operation, TARGET).rule == rule


@pytest.mark.parametrize(("service", "rule"), SERVICES)
def test_a_service_may_call_no_other_operation(service: str, rule: str) -> None:
    own = operations_in(f"hive-{rule}'s alone")
    for name in OPERATIONS.keys() - set(own):
        for target in (None, TARGET, OPERATOR):
            allowed = ask(service, name, target).allowed
            assert not allowed or rule in OPERATIONS[name].allow.name.split(" | ")


def test_every_operation_stands_on_the_page_once() -> None:
    itself, operator = (
        operations_in("about the caller itself"),
        operations_in("the operator's alone"),
    )
    service = [name for _, rule in SERVICES for name in operations_in(f"hive-{rule}'s alone")]
    capable = ["request_update_meta_inputs", "escalate", "open_subagent", "close_subagent"]
    others = ["move", *capable, *OF_QUEEN]
    named = [*(name for name, _ in TABLE), *itself, *operator, *service, *others]
    assert sorted(named) == sorted(value.name for value in OPERATIONS.values())


def test_the_drawing_is_the_tree() -> None:
    drawn = [line.lstrip("│├└─ ") for line in block("").strip().splitlines()]
    assert tuple(drawn) == HIVE.topology.order


def test_the_table_of_roles_is_the_one_in_the_code() -> None:
    shown = {
        Role(CODE.findall(name)[0]): (creates, again == "yes", tuple(CODE.findall(held)))
        for name, creates, again, held in rows("role")
    }
    words = {frozenset(Role): "any role", frozenset[Role](): "nothing"}
    assert shown == {
        role: (
            words.get(habit.creates, ", ".join(f"`{create}`" for create in sorted(habit.creates))),
            habit.restarts,
            habit.capabilities,
        )
        for role, habit in ROLE_DEFAULTS.items()
    }
    roots = PAGE.split("Roots hold ", 1)[1].split(" beside", 1)[0]
    assert tuple(CODE.findall(roots)) == ROOT_EXTRA
    root_agent = PAGE.split("the root agent has ", 1)[1].split(" too:", 1)[0]
    assert (*CODE.findall(root_agent), *ROOT_EXTRA) == ROOT_AGENT_EXTRA


EXAMPLES = re.findall(
    r"# hive why (.+)\n(\w+)\naction  (.+)\nrule    (.+)\nreason  (.+)\nchain   (.+)\n", PAGE
)


@for_each("example", EXAMPLES)
def test_the_examples_are_what_hive_why_says(example: tuple[str, ...]) -> None:
    command, verdict, action, rule, reason, names = example
    caller, operation, target, *second = command.split()
    decision = ask(caller, operation, target, *second)
    assert OPERATIONS[operation].action == action
    assert decision.allowed == (verdict == "allowed")
    assert (decision.rule, decision.reason) == (rule, reason)
    walked = upward_path(HIVE, caller, target)
    assert " -> ".join(walked or ("-",)) == names


def test_the_page_says_why_agents_of_other_images_are_in_no_flake() -> None:
    """And it is so: of both kinds of image one alone has an entry."""
    assert "the agents of the image `nix` alone" in " ".join(PAGE.split())
    made = {"image": "nix", "config": "1a" * 20, "nar": "sha256-x"}
    hive = HIVE.with_spec("carl", HIVE.spec("carl").model_copy(update=made))
    assert [pin.name for pin in pins(hive)] == ["carl"]


def test_there_are_examples() -> None:
    assert len(EXAMPLES) == PAGE.count("# hive why")
