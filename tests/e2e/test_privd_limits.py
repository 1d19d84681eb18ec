"""Limits that the kernel really keeps, of one agent and of a subtree."""

import pytest
from e2e.privdhost import PrivdHost, SharedPrivdHost

from hive_core.plan.actions import MakeNode, SetSlice, UnitLimits

pytestmark = pytest.mark.lab


@pytest.fixture(scope="module")
def host(shared_privd: SharedPrivdHost) -> PrivdHost:
    return shared_privd.prepare()


def test_memory_is_limited(host: PrivdHost) -> None:
    agent = host.running(limits=UnitLimits(memory_max=64 << 20))
    said = host.say(agent, "python3 -c 'print(len(bytearray(200 << 20)))'; echo $?", check=False)
    assert said.splitlines()[-1] != "0"


def test_tasks_are_limited(host: PrivdHost) -> None:
    agent = host.running(limits=UnitLimits(tasks_max=12))
    said = host.say(agent, "for i in $(seq 20); do sleep 9 & done; echo all", check=False)
    assert "all" not in said
    assert "fork" in said


def test_a_subtree_is_limited_by_its_slice(host: PrivdHost) -> None:
    parent = host.agent()
    path = parent.lineage
    host.do(SetSlice(path, UnitLimits(memory_max=64 << 20, tasks_max=20)))
    host.do(MakeNode(path))
    one, two = (host.running(parent, slice=path) for _ in range(2))
    assert host.show(one.unit, "ControlGroup").startswith(f"/hive.slice/hive-{path[0]}.slice/")
    eat = "python3 -c 'print(len(bytearray(200 << 20)))'; echo $?"
    assert host.say(one, eat, check=False).splitlines()[-1] != "0"
    fork = "for i in $(seq 20); do sleep 9 & done; echo all"
    assert "all" not in host.say(two, fork, check=False)
    host.do(SetSlice(path, UnitLimits()))
    assert host.show(f"hive-{path[0]}.slice", "MemoryMax") == "infinity"
