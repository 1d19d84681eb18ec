"""The usage of destroyed agents stays in all sums, while the data to read stays small."""

from __future__ import annotations

import pytest
from fixtures.tasks import give
from fixtures.world import World, rows, world
from hypothesis import given, settings
from hypothesis import strategies as st
from long import times

from hive_core.broker.call import Call, Record
from hive_core.broker.hooks import AgentStarted, emit
from hive_core.broker.operation import Result
from hive_core.ledger.budgets.usage import MODELS, UsageAmount, day_of
from hive_core.ledger.budgets.usage_rollup import PART, SETTLED, SHOWN, DestroyedAgent, children_key
from hive_core.model.agents.machine import Cpu, Machine
from hive_core.operations.budgets.cpu_time import add_cpu
from hive_core.operations.budgets.usage_rollup import AT_ONCE, roll_up_usage

Totals = dict[tuple[object, object], int]
LINE = "(gone children of a1)"


def totals(world: World, **words: object) -> Totals:
    """By key and kind; those of the host by kind alone."""
    result = Totals()
    for row in rows(world.call("operator", "get_usage", **{"by": "user", **words})["sums"]):
        key = row["key"], row["kind"]
        result[key] = result.get(key, 0) + int(str(row["amount"]))
    return result


def every(world: World) -> dict[str, Totals]:
    """The sums of each living subtree and of the whole host; day by day too."""
    values = {name: totals(world, agent=name) for name in world.hive.names.values()}
    return values | {" all": totals(world), " days": totals(world, by="day")}


def keys(world: World, **words: object) -> list[object]:
    sums = rows(world.call("operator", "get_usage", **words)["sums"])
    return list(dict.fromkeys(row["key"] for row in sums))


def brief(world: World, name: str, parent: str = "a1", **figures: object) -> str:
    """One that was made for one task, and has used something."""
    world.call("operator", "spawn", name=name, parent=parent, role="task")
    world.call(name, "report_usage", **(figures or {"tokens_in": 5}))
    return world.uuid(name)


def destroy_agents(world: World, *names: str) -> None:
    for name in names:
        world.call("operator", "destroy", agent=name)


def many(world: World, number: int, days: int = 1) -> list[DestroyedAgent]:
    """As a ledger has them that is older than the adding up."""
    parent, day = world.uuid("a1"), day_of(world.clock.now())
    numbers = [DestroyedAgent(f"old-{item}", f"check-{item}", parent) for item in range(number)]
    with world.ledger.transaction():
        for item in range(number):
            for kind in ("time", "cpu"):
                figure = UsageAmount(
                    day - item % days, f"old-{item}", kind, "measured", "", "", 2000
                )
                world.ledger.budgets.usage.add(figure)
            world.ledger.budgets.rollups.add(numbers[item], world.clock.now() - number + item)
            world.ledger.budgets.cpu.save(f"old-{item}", Cpu("1", 5))
    world.agenda.on_clock_set()
    return numbers


def test_agents_that_were_made_for_one_task_share_a_line(world: World) -> None:
    uuids = [brief(world, f"check-{item}") for item in range(3)]
    with world.ledger.transaction():
        world.ledger.budgets.cpu.save(uuids[0], Cpu("1", 5))
    destroy_agents(world, "check-0", "check-1", "check-2")
    before = every(world)
    assert [str(key)[:7] for key in keys(world, agent="a1")] == ["check-0", "check-1", "check-2"]
    world.advance(SETTLED + 1)
    assert keys(world, agent="a1") == [LINE]
    assert every(world) == before
    assert totals(world, agent="a1")["operator", "tokens_in"] == 15
    assert world.ledger.budgets.rollups.of(uuids) == {}
    assert world.ledger.budgets.cpu.figures(uuids) == {}


def test_living_agents_come_first_and_destroyed_ones_last(world: World) -> None:
    brief(world, "check")
    destroy_agents(world, "check")
    world.advance(SETTLED + 1)
    world.call("b", "report_usage", tokens_in=1)
    world.call("operator", "spawn", name="again", parent="a1")
    world.call("again", "report_usage", tokens_in=1)
    last = f"again ({world.uuid('again')[:8]}, gone)"
    destroy_agents(world, "again")
    assert keys(world) == ["b", LINE, last]


def test_others_keep_their_line_until_so_many_are_gone(world: World) -> None:
    many(world, SHOWN + 3)
    before = every(world)
    world.advance(SETTLED + SHOWN)
    assert len([key for key in keys(world) if str(key).startswith("check-")]) == SHOWN
    assert "check-2 (old-2, gone)" not in keys(world)
    assert "check-3 (old-3, gone)" in keys(world)
    assert totals(world, by="agent", agent="a1")[LINE, "time"] == 6
    assert every(world) == before


def test_an_old_ledger_is_added_up_part_by_part_whatever_ends_the_daemon(world: World) -> None:
    many(world, SHOWN + 3 * AT_ONCE, days=3)
    before, seen = every(world), set[int]()
    world.clock.time += SETTLED + 10_000  # nothing comes by itself
    for _ in range(4):
        world.broker.perform("part", roll_up_usage)
        left = world.ledger.connection.value("SELECT count(*) FROM departed")
        seen.add(left)
        assert every(world) == before
    world.kill()
    assert every(world) == before
    assert seen == {SHOWN + 2 * AT_ONCE, SHOWN + AT_ONCE, SHOWN}
    count = "SELECT count(*) FROM usage WHERE agent = ?"
    assert world.ledger.connection.value(count, (children_key(world.uuid("a1")),)) == 6


def test_a_long_life_is_moved_a_part_at_a_time(world: World) -> None:
    uuid, day = brief(world, "check"), day_of(world.clock.now())
    usage = world.ledger.budgets.usage
    with world.ledger.transaction():
        for back in range(1, 1200):
            usage.add(UsageAmount(day - back, uuid, "time", "measured", "", "", 1000))
            usage.add_task(f"t{back}", UsageAmount(day, uuid, "money", "reported", "", "", 7), 1.0)
        world.ledger.budgets.cpu.save(uuid, Cpu("1", 5))
    destroy_agents(world, "check")
    before, tasks = every(world), totals(world, agent="a1", by="task")
    world.clock.time += SETTLED + 1
    world.broker.perform("part", roll_up_usage)
    assert world.ledger.budgets.rollups.get(uuid) is not None
    assert world.ledger.budgets.cpu.last_figure(uuid, "1") == 5  # its end may be told once more
    assert (every(world), totals(world, agent="a1", by="task")) == (before, tasks)
    world.kill()
    world.advance(1)
    assert world.ledger.budgets.rollups.get(uuid) is None
    assert world.ledger.budgets.cpu.figures([uuid]) == {}
    assert (every(world), totals(world, agent="a1", by="task")) == (before, tasks)


def test_what_it_used_for_tasks_counts_on(world: World) -> None:
    brief(world, "check")
    task = give(world, "a1", "check")
    world.call("check", "report_usage", tokens_in=4, task=task)
    destroy_agents(world, "check")
    world.advance(SETTLED + 1)
    assert totals(world, agent="a1", by="task") == {(task, "tokens_in"): 4}
    assert totals(world, by="task") == {(task, "tokens_in"): 4}
    assert totals(world, agent="b", by="task") == {}


def test_a_line_has_no_more_words_for_models_than_an_agent(world: World) -> None:
    for number in range(MODELS + 4):
        brief(world, f"check-{number}", tokens_in=1, model=f"m{number}")
    destroy_agents(world, *(f"check-{item}" for item in range(MODELS + 4)))
    world.advance(SETTLED + 1)
    values = {key: amount for (key, kind), amount in totals(world, by="model").items()
             if kind == "tokens_in"}  # fmt: skip
    assert (len(values), values["other"], sum(values.values())) == (MODELS + 1, 4, MODELS + 4)


def test_a_line_moves_up_with_its_parent(world: World) -> None:
    brief(world, "head")
    brief(world, "below", parent="head")
    destroy_agents(world, "below")
    world.advance(SETTLED + 1)
    assert "(gone children of head)" in keys(world)
    head = world.uuid("head")
    destroy_agents(world, "head")
    before = every(world)
    assert f"(gone children of head ({head[:8]}, gone))" in keys(world)
    world.advance(SETTLED + 1)
    assert keys(world, agent="a1") == [LINE]
    assert every(world) == before


def test_an_agent_with_a_shown_descendant_stays_until_that_one_goes(world: World) -> None:
    """Otherwise its last place would be lost."""
    brief(world, "head")
    world.call("operator", "spawn", name="shown", parent="head")
    world.call("shown", "report_usage", tokens_in=2)
    uuids = [world.uuid(name) for name in ("head", "shown")]
    destroy_agents(world, "shown", "head")
    before = every(world)
    world.advance(SETTLED + 1)
    assert world.ledger.budgets.rollups.of(uuids).keys() == {*uuids}
    assert every(world) == before
    assert totals(world, agent="a1", by="subtree")["a1", "tokens_in"] == 7


def test_one_turn_moves_so_many_rows_and_no_more(world: World) -> None:
    day, names = day_of(world.clock.now()), [f"check-{item}" for item in range(3)]
    uuids = [brief(world, name) for name in names]
    with world.ledger.transaction():
        for uuid in uuids:
            for back in range(PART):
                figure = UsageAmount(day - back, uuid, "time", "measured", "", "", 1000)
                world.ledger.budgets.usage.add(figure)
    destroy_agents(world, *names)
    world.clock.time += SETTLED + 1
    world.broker.perform("part", roll_up_usage)
    left = "SELECT count(*) FROM usage WHERE agent = ? AND kind = 'time'"
    assert [world.ledger.connection.value(left, (uuid,)) for uuid in uuids].count(PART) == 1


def test_whose_machine_still_runs_waits(world: World) -> None:
    """What it uses until its end is added to what stands under its own name."""
    uuid = brief(world, "check")
    destroy_agents(world, "check")
    world.seen.machines[uuid] = Machine(uuid, active="deactivating")
    world.advance(SETTLED + 1)
    assert world.ledger.budgets.rollups.of([uuid]).keys() == {uuid}
    world.seen.machines[uuid] = Machine(uuid, active="inactive")
    world.advance(SETTLED + 1)
    assert world.ledger.budgets.rollups.of([uuid]) == {}


def test_what_ended_while_no_daemon_ran_is_seen_first(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    uuid = brief(world, "check")
    destroy_agents(world, "check")
    began = world.clock.now() + 2 * SETTLED
    monkeypatch.setattr(type(world.seen), "since", lambda _: began)
    world.kill(2 * SETTLED)
    world.advance(1)
    assert world.ledger.budgets.rollups.of([uuid]).keys() == {uuid}

    def add(call: Call) -> Record[Result]:
        add_cpu(call, uuid, Cpu("1", 3_000_000))
        return Record(Result())

    world.broker.perform("meter", add)
    world.advance(SETTLED + 1)
    assert world.ledger.budgets.rollups.of([uuid]) == {}
    assert totals(world, by="agent", agent="a1")[LINE, "cpu"] == 3000


def test_a_restored_agent_keeps_its_sums(world: World) -> None:
    uuid = brief(world, "check")
    destroy_agents(world, "check")
    world.call("operator", "restore", id=uuid)
    world.advance(SETTLED + 1)
    assert keys(world, agent="a1") == ["check"]
    destroy_agents(world, "check")
    world.advance(SETTLED + 1)
    assert keys(world, agent="a1") == [LINE]


def test_a_restored_agent_that_runs_is_not_known_as_destroyed(world: World) -> None:
    uuid = world.uuid("b1")
    destroy_agents(world, "b1")
    assert world.ledger.budgets.rollups.of([uuid]).keys() == {uuid}
    world.call("operator", "restore", id=uuid)

    def start(call: Call) -> Record[Result]:
        emit(call, AgentStarted(uuid, "b1", 1))
        return Record(Result())

    world.broker.perform("start", start)
    assert world.ledger.budgets.rollups.of([uuid]) == {}


NAMES = [f"x{number}" for number in range(6)]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["spawn", "spawn", "report", "work", "destroy", "all", "wait", "kill"]),
        st.sampled_from(NAMES), st.sampled_from(["root", *NAMES]), st.booleans(),
    ),
    max_size=25,
)  # fmt: skip


@pytest.mark.sized
@settings(max_examples=times(10, 150), deadline=None)
@given(STEPS)
def test_no_sum_changes_by_the_adding_up(steps: list[tuple[str, str, str, bool]]) -> None:
    """The sums of all living subtrees, and of the host day by day."""
    with world() as made:
        for step in steps:
            _do(made, *step)
        before = every(made)
        made.clock.advance(SETTLED + 1)
        made.run()
        assert every(made) == before
        left = "SELECT count(*) FROM departed AS d WHERE brief = 1 AND NOT EXISTS"
        below = " (SELECT 1 FROM departed WHERE parent = d.agent)"
        assert made.ledger.connection.value(left + below) == 0


def _do(made: World, step: str, name: str, parent: str, as_task: bool) -> None:  # noqa: FBT001
    living = set(made.hive.names.values())
    if step == "spawn" and name not in living and parent in living:
        role = "task" if as_task else "agent"
        made.fault("operator", "spawn", name=name, parent=parent, role=role)
    elif step == "report" and name in living:
        made.call(name, "report_usage", tokens_in=3, cost=2, model=parent)
    elif step == "work" and name in living:
        made.call(name, "whoami")
    elif step in ("destroy", "all") and name in living:
        made.fault("operator", "destroy", agent=name, recursive=step == "all")
    elif step == "wait":
        made.advance(SETTLED + 1)
    elif step == "kill":
        made.kill()
