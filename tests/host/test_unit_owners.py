"""Which agent a unit belongs to, when agents of one name came one after the other."""

from __future__ import annotations

from uuid import uuid4

from hive_core.host.systemd.machines import UnitOwners

UNIT = "hive-agent@bob.service"


def test_a_unit_belongs_to_the_latest_agent_of_its_name() -> None:
    units = UnitOwners()
    units.remember("first", UNIT)
    units.remember("second", UNIT)
    assert units.owner(UNIT) == "second"
    assert units.unit("first") == UNIT  # its start may complete late
    units.forget_others({"second"})
    assert (units.unit("first"), units.owner(UNIT)) == ("", "second")


def test_agents_of_one_name_are_forgotten_together_in_any_order() -> None:
    """When the later one came first, the earlier one ended the observation with a KeyError."""
    for _ in range(50):
        units, uuids = UnitOwners(), [str(uuid4()), str(uuid4())]
        for uuid in uuids:
            units.remember(uuid, UNIT)
        units.forget_others(set())
        assert units.owner(UNIT) == ""
        assert [units.unit(uuid) for uuid in uuids] == ["", ""]
