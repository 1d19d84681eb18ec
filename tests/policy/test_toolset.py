"""T, the table of tools, beside the rules that judge every call: the table never shows more."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, combinations

import pytest
from fixtures.topologies import hive_of, spec
from policy.naive import Question, decide

from hive_core.model.agents.agent import Profile, Role
from hive_core.model.agents.capability import PLAIN, check_capabilities
from hive_core.model.agents.hive import Hive
from hive_core.model.agents.roles import ADMINISTER, ROLE_DEFAULTS, RoleBehaviour
from hive_core.model.agents.toolset import (
    HIDDEN_PARAMETERS,
    SERVER_TOOLS,
    TABLE,
    execution_tools,
    tools_of_table,
    toolset,
)
from hive_core.model.work.tools import LOCAL_TOOLS, SESSION_TOOLS, TOOLS
from hive_core.operations import load
from hive_core.policy.rules import COVERED

OPERATIONS = load()
OF_CONTAINER = TOOLS.keys() | LOCAL_TOOLS.keys() | SESSION_TOOLS.keys()
KINDS = [(role, None) for role in Role] + [(Role.DAEMON, profile) for profile in Profile]
# The capabilities on which a row or a rule depends.
GATES = sorted({row.capability for row in TABLE if row.capability} | {"message.operator"})
# What the ledger can say about the agent: that it was asked, assigned the task, and so on.
FACTS = frozenset({"asked", "assigner", "judge", "reply", COVERED})
by_kind = pytest.mark.parametrize(("role", "profile"), KINDS)


def subsets(words: list[str]) -> Iterator[tuple[str, ...]]:
    return chain.from_iterable(combinations(words, size) for size in range(len(words) + 1))


def hive_with(role: Role, profile: Profile | None, capabilities: tuple[str, ...]) -> Hive:
    """`parent` above `self`, which is above `child`."""
    own = spec(2, role, profile=profile, capabilities=capabilities)
    parents = {"parent": None, "self": "parent", "child": "self"}
    return hive_of(parents, {"self": own, "child": spec(3, Role.TASK)})


def is_allowed(hive: Hive, name: str) -> bool:
    """Whether the rules let `self` call it about some agent."""
    operation = OPERATIONS[name]
    second = "self" if operation.second else None
    questions = (
        Question(hive, "self", name, target, second, FACTS)
        for target in ("self", "parent", "child")
    )
    return any(decide(operation.allow, question).allowed for question in questions)


@by_kind
def test_every_operation_of_the_table_is_allowed_by_the_rules_to_its_agent(
    role: Role, profile: Profile | None
) -> None:
    """T1, K26: whatever of the capabilities it holds."""
    for held in subsets(GATES):
        capabilities = check_capabilities(held)
        hive = hive_with(role, profile, capabilities)
        names = [name for name in toolset(role, profile, capabilities) if name not in OF_CONTAINER]
        refused = [name for name in names if not is_allowed(hive, name)]
        assert not refused, capabilities


@by_kind
def test_no_operation_of_an_action_that_the_role_lacks_is_in_its_toolset(
    role: Role, profile: Profile | None
) -> None:
    names = [name for name in toolset(role, profile, PLAIN) if name not in OF_CONTAINER]
    assert {OPERATIONS[name].action for name in names} <= ROLE_DEFAULTS[role].actions


@by_kind
def test_no_tool_is_there_twice(role: Role, profile: Profile | None) -> None:
    names = toolset(role, profile, PLAIN)
    assert len(set(names)) == len(names)


@by_kind
def test_a_manager_other_than_a_queen_executes_nothing(role: Role, profile: Profile | None) -> None:
    """T1."""
    execution = [name for name in toolset(role, profile, PLAIN) if name in TOOLS]
    servers = SERVER_TOOLS.tools if role in SERVER_TOOLS.roles else ()
    assert sorted((*execution, *servers)) == list(execution_tools(role, profile))
    if profile is Profile.QUEEN:
        return
    assert execution_tools(role, profile) == ROLE_DEFAULTS[role].tools
    if ROLE_DEFAULTS[role].behaviour is RoleBehaviour.MANAGER:
        assert execution_tools(role) == ()


def test_every_tool_exists_and_none_is_the_operator_s() -> None:
    for name in tools_of_table():
        if name not in OF_CONTAINER:
            assert OPERATIONS[name].action != ADMINISTER, name
    assert not OF_CONTAINER & OPERATIONS.keys()
    for name, hidden in HIDDEN_PARAMETERS.items():
        fields = OPERATIONS[name].params.model_fields
        assert hidden <= fields.keys(), name
        assert not any(fields[field].is_required() for field in hidden), name


def test_a_worker_neither_fans_out_nor_sets_triggers_nor_leads() -> None:
    """Q24: independent of its capabilities."""
    names = set(toolset(Role.WORKER, None, PLAIN))
    assert not names & {"run_parallel_workers", "set_trigger", "spawn", "assign_task", "destroy"}


def test_a_task_leads_no_one_whatever_it_was_given() -> None:
    names = set(toolset(Role.TASK, None, PLAIN))
    assert not names & {"spawn_agent_and_assign_task", "wait_for", "store_artifact", "list_agents"}


def test_a_capability_brings_its_tools_and_its_loss_takes_them() -> None:
    assert "escalate" in toolset(Role.TASK, None, ("escalate",))
    assert "escalate" not in toolset(Role.TASK)
    assert "request_update_meta_inputs" in toolset(Role.AGENT, None, ("meta.update",))
    assert "request_update_meta_inputs" not in toolset(Role.AGENT, None, ("meta.read",))


def test_the_order_does_not_depend_on_the_order_of_the_capabilities() -> None:
    """A model provider's cache holds only while the tools stand in the same order."""
    assert toolset(Role.LEAD, None, PLAIN) == toolset(Role.LEAD, None, tuple(reversed(PLAIN)))
