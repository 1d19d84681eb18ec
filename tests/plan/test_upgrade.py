"""An upgrade does not report, and does not restart, agents that did not change."""

from __future__ import annotations

from uuid import UUID

import pytest

from hive_core.model.agents.agent import AgentSpec
from hive_core.plan.actions import UnitLimits
from hive_core.plan.placement import hash_of

PLAIN = AgentSpec(uuid=UUID(int=1))
BOOTED = AgentSpec(uuid=UUID(int=1), boot=True, command=("sleep", "9"))


@pytest.mark.parametrize(
    ("spec", "limits", "digest"),
    [
        (PLAIN, UnitLimits(), "a03ce889e9a96012"),
        (BOOTED, UnitLimits(memory_max=1 << 30, tasks_max=99), "b510ab24807f0342"),
    ],
)
def test_the_digest_of_what_a_unit_was_started_with_is_that_of_earlier_versions(
    spec: AgentSpec, limits: UnitLimits, digest: str
) -> None:
    """It is in the units that run; the text of a unit, which versions change, is not in it."""
    assert hash_of(spec, "host", limits) == digest
