"""whoami and list_agents: who the caller is, and whom it can see."""

from __future__ import annotations

import pytest
from operations.world import World, names, rows

from hive_core.errors import InvalidParameter


def test_an_agent_learns_who_it_is_from_its_socket_alone(world: World) -> None:
    found = world.call("a1", "whoami")
    assert found["name"] == "a1"
    assert found["uuid"] == world.uuid("a1")
    assert found["parent"] == "a"
    assert found["children"] == ["a11"]
    assert found["role"] == "agent"
    assert found["tier"] == "operational"
