"""Every role and every operation, against the one table (row K26)."""

from __future__ import annotations

from itertools import product

import pytest
from each import for_each
from fixtures.topologies import hive_of
from fixtures.world import World, world
from policy.authority import authority, read_before
from policy.naive import Question, decide

from hive_core.broker.operation import Operation
from hive_core.errors import HiveError, NotAllowed
from hive_core.model.agents.agent import Role
from hive_core.model.agents.hive import Hive
from hive_core.model.agents.roles import (
    ACTIONS,
    ADMINISTER,
    CONNECT,
    METER,
    ROLE_DEFAULTS,
    Action,
    default_capabilities,
)
from hive_core.operations import load

OPERATIONS = load()
BEFORE = read_before()
# What the operation asks for beside the action; written down once more, not read from the rule.
NEEDS = {
    "spawn": "spawn", "spawn_agent_and_assign_task": "spawn", "escalate": "escalate",
    "allocate_budget": "budget", "fund_task": "budget", "set_trigger": "trigger",
    "request_update_meta_inputs": "meta.update",
}  # fmt: skip
FACTS = frozenset({"assigner", "asked", "put", "take", "reply"})
TREE = {"top": None, "me": "top", "below": "me", "beside": "top"}
TARGETS = (None, "me", "below", "top", "beside")


def hive_with(role: Role) -> Hive:
    hive = hive_of(TREE)
    collected = {"role": role, "capabilities": default_capabilities(role)}
    return hive.with_spec("me", hive.spec("me").model_copy(update=collected))


def may(result: Operation, role: Role) -> bool:
    """Whether there is anybody on whom an agent of this role may do it."""
    hive = hive_with(role)
    return any(
        decide(result.allow, Question(hive, "me", result.name, target, second, FACTS)).allowed
        for target, second in product(TARGETS, (None, "me"))
    )


def is_expected(result: Operation, role: Role) -> bool:
    habit, needed = ROLE_DEFAULTS[role], NEEDS.get(result.name)
    return result.action in habit.actions and (needed is None or needed in habit.capabilities)


# What no agent may, whatever its role, is the operator's.
FOR_AGENTS = sorted(
    name for name, operation in OPERATIONS.items() if any(may(operation, role) for role in Role)
)


@for_each("name", FOR_AGENTS)
def test_each_role_may_what_its_row_says(name: str) -> None:
    """K26: asked on every call; the same table is the page's, the command's and this test's."""
    result = OPERATIONS[name]
    for role in Role:
        assert may(result, role) == is_expected(result, role), role


@for_each("name", sorted(BEFORE))
def test_authority_is_what_it_was_when_roles_hung_on_names(name: str) -> None:
    """A row of `authority.txt` changes only with an intended change of rights."""
    assert authority(OPERATIONS[name]) == BEFORE[name]


def test_every_action_is_of_some_operation_and_has_its_roles() -> None:
    assert {value.action for value in OPERATIONS.values()} == set(ACTIONS)
    for action in ACTIONS:
        roles = [role for role in Role if action in ROLE_DEFAULTS[role].actions]
        assert bool(roles) != (action in (ADMINISTER, METER, CONNECT)), action


@for_each("name", sorted(OPERATIONS))
def test_what_is_done_to_others_and_never_to_oneself_is_an_action(name: str) -> None:
    result, hive = OPERATIONS[name], hive_with(Role.DAEMON)

    def on(target: str | None) -> bool:
        return decide(result.allow, Question(hive, "me", name, target, None, FACTS)).allowed

    if any(map(on, ("below", "top", "beside"))) and not (on("me") or on(None)):
        assert result.action not in ("work", "receive", "read", "administer"), result.action


# Of each action one call, by a caller whose place allows it.
CALLS: dict[Action, tuple[str, dict[str, object]]] = {
    "spawn": ("spawn", {"name": "new", "role": "task"}),
    "stop": ("stop", {"agent": "below"}),
    "assign": ("assign_task", {"agent": "below", "description": "x"}),
    "send": ("send", {"to": "top", "body": "x"}),
    "read": ("list_agents", {}),
    "read_artifact": ("list_artifacts", {}),
    "escalate": ("escalate", {"issue": "x", "severity": "info"}),
}


@for_each("role", list(Role))
def test_a_call_beyond_the_role_is_refused_and_recorded(role: Role) -> None:
    """K26: an audit event on each refusal."""
    with world(None, "root/top:lead", f"top/me:{role}", "me/below:worker") as made:
        for action, (name, value) in CALLS.items():
            refused = call(made, name, value)
            allowed = action in ROLE_DEFAULTS[role].actions and not (
                action == "spawn" and Role.TASK not in ROLE_DEFAULTS[role].creates
            )
            assert isinstance(refused, NotAllowed) != allowed, (action, refused)
            if not allowed:
                event = made.events()[-1]
                assert (event["caller"], event["operation"], event["allowed"]) == (
                    "me", name, False,
                )  # fmt: skip


def call(made: World, name: str, params: dict[str, object]) -> HiveError | None:
    try:
        made.call("me", name, **params)
    except HiveError as error:
        return error
    return None


def test_a_grant_does_not_help_against_the_role() -> None:
    """An architect that holds `spawn` still creates no agent."""
    with world(None, "root/ada:architect") as made:
        made.call("operator", "grant_capability", agent="ada", capability="spawn")
        with pytest.raises(NotAllowed, match="your role may not create agents"):
            made.call("ada", "spawn", name="new", role="task")
        assert made.events()[-1]["reason"] == "your role may not create agents"
