"""Plans by example: each file in `cases/` holds desired, observed and the steps between them.

Adding a file adds a test.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

from each import for_each
from fixtures.plans import FIRST_BASE, hive

from hive_core.model.agents.agent import AgentSpec
from hive_core.model.agents.machine import (
    DesiredRun,
    DesiredState,
    FailureHistory,
    Machine,
    Observed,
    Orphan,
)
from hive_core.model.config.settings import Settings
from hive_core.plan import actions as a
from hive_core.plan.desired import Desired, Moment
from hive_core.plan.diff import USUAL, plan
from hive_core.plan.placement import Placement, Placements

CASES = sorted((Path(__file__).parent / "cases").glob("*.json"))
NOW = Moment(1_000_000.0, 500.0)


def uuid(short: str) -> str:
    return str(UUID(f"{short}-0000-4000-8000-000000000001"))


def case_desired(case: dict[str, Any]) -> Desired:
    agents = case["desired"]["agents"]
    specs = {
        name: AgentSpec.model_validate({"uuid": uuid(agent["id"]), **agent.get("spec", {})})
        for name, agent in agents.items()
    }
    settings = Settings.model_validate(case["desired"].get("settings", {}))
    places = Placements.build(
        hive({name: agent["parent"] for name, agent in agents.items()}, specs), settings
    )
    runs, starts, bases = {}, {}, {}
    for number, (name, agent) in enumerate(agents.items()):
        key = specs[name].id
        run = {"wanted": "running", "nonce": 1, **agent.get("run", {})}
        runs[key] = DesiredRun(key, DesiredState(run.pop("wanted")), **run)
        bases[key] = FIRST_BASE + number * a.RANGE
        if "failures" in agent:
            fields = {"nonce": runs[key].nonce, **agent["failures"]}
            starts[key] = FailureHistory(**{**fields, "failures": tuple(fields["failures"])})
    archives = {uuid(s): at for s, at in case["desired"].get("archives", {}).items()}
    held = frozenset(specs[name].id for name in case["desired"].get("held", ()))
    return Desired(places, settings, runs, bases, starts, archives, held)


def as_it_should_be(place: Placement, run: DesiredRun) -> Machine:
    """What a case says nothing about is in order."""
    return Machine(
        place.uuid, f"hive-agent@{place.name}.service", "active", "running", nonce=run.nonce,
        spec_hash=place.spec_hash, invocation="i", main_pid=7, leader=8, slice=place.slice_unit,
        verified=True, executed=True, properties={**USUAL}, node=place.lineage, mounted=True,
        root=place.image != "host", socket_directory=True, listening=True, identity=place.identity,
        view=place.view,
    )  # fmt: skip


def case_observed(case: dict[str, Any], wanted: Desired) -> Observed:
    machines = {}
    for name, facts in case["observed"].get("agents", {}).items():
        if facts is None:
            continue
        gone = name not in wanted.places.hive.specs
        place = None if gone else wanted.places.by_name(name)
        machine = as_it_should_be(place, wanted.runs[place.uuid]) if place else Machine(uuid(name))
        if facts.get("active", "active") != "active":
            machine = replace(machine, unit="", verified=False, executed=False, mounted=False)
        fields: dict[str, Any] = {k: tuple(v) if k == "node" else v for k, v in facts.items()}
        machines[machine.uuid] = replace(machine, **fields)
    strays = tuple(Orphan(**orphan) for orphan in case["observed"].get("strays", ()))
    slices = case["observed"].get("slices", {})
    return Observed(machines, strays, slices)


@for_each("path", CASES)
def test_the_plan_is_the_one_in_the_file(path: Path) -> None:
    case = json.loads(path.read_text())
    wanted = case_desired(case)
    result = plan(wanted, case_observed(case, wanted), NOW)
    names = {place.uuid: place.name for place in wanted.places.by_uuid.values()}
    assert [step.text for step in result.steps] == case["actions"]
    waits = {names.get(key, key[:8]): when - NOW.monotonic for key, when in result.waits.items()}
    assert waits == case.get("waits", {})
    assert [report.text for report in result.reports] == case.get("reports", [])
    assert [names[uuid] for uuid in result.queued] == case.get("queued", [])
