"""The one table of roles (rows K1, K10, K26)."""

from __future__ import annotations

from hive_core.model.agents.agent import AfterTask, Role
from hive_core.model.agents.capability import check_capabilities
from hive_core.model.agents.roles import (
    ROLE_DEFAULTS,
    ROOT_AGENT_EXTRA,
    ROOT_EXTRA,
    default_capabilities,
)


def test_every_role_has_a_row_of_known_capabilities() -> None:
    assert ROLE_DEFAULTS.keys() == set(Role)
    for role, habit in ROLE_DEFAULTS.items():
        assert check_capabilities(habit.capabilities) == habit.capabilities, role


def test_no_agent_can_be_created_as_the_kernel() -> None:
    """K1: that is the daemon itself."""
    assert "kernel" not in set(Role)


def test_a_worker_creates_tasks_only_and_a_task_or_an_architect_nothing() -> None:
    """K1."""
    assert ROLE_DEFAULTS[Role.WORKER].creates == {Role.TASK}
    assert ROLE_DEFAULTS[Role.TASK].creates == ROLE_DEFAULTS[Role.ARCHITECT].creates == frozenset()


def test_only_roles_that_create_agents_may_spawn_by_default() -> None:
    for role, habit in ROLE_DEFAULTS.items():
        assert bool(habit.creates) == ("spawn" in habit.capabilities), role


def test_only_daemons_come_back_by_themselves() -> None:
    """K10."""
    assert {role for role, habit in ROLE_DEFAULTS.items() if habit.restarts} == {Role.DAEMON}


def test_a_task_ends_with_its_work_and_an_architect_sleeps_after_it() -> None:
    """K6."""
    after = {role: habit.after_task for role, habit in ROLE_DEFAULTS.items()}
    assert after.pop(Role.TASK) is AfterTask.EXITS
    assert after.pop(Role.ARCHITECT) is AfterTask.SLEEPS
    assert set(after.values()) == {AfterTask.STAYS}


def test_roots_hold_the_meta_capabilities_beside_their_role() -> None:
    """H13: roots by default; what shows the trees of others the root agent alone."""
    usual = set(ROLE_DEFAULTS[Role.AGENT].capabilities)
    assert set(default_capabilities(Role.AGENT, ROOT_EXTRA)) == usual | {"meta.update"}
    assert set(default_capabilities(Role.AGENT, ROOT_AGENT_EXTRA)) == usual | {
        "applied.read", "meta.read", "meta.update",
    }  # fmt: skip
