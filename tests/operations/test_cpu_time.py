"""Processor time: counted by the kernel for each machine, summed up by the daemon (row K25)."""

from __future__ import annotations

from functools import partial

import pytest
from fixtures.world import World, rows, world
from hypothesis import given, settings
from hypothesis import strategies as st
from long import times

from hive_core.broker.call import Call, Record
from hive_core.broker.hooks import AgentEnded, AgentStarted, emit
from hive_core.broker.operation import Result
from hive_core.ledger.budgets.cpu_time import GROUPS_MOST
from hive_core.model.agents.machine import Cpu
from hive_core.operations.budgets.cpu_time import add_cpu

SECOND = 1_000_000
Sums = dict[object, object]


def start(world: World, agent: str) -> None:
    def act(call: Call) -> Record[Result]:
        emit(call, AgentStarted(call.hive.spec(agent).id, agent, 1))
        return Record(Result())

    world.broker.perform("start", act)
    world.run()


def end(world: World, agent: str, cpu: Cpu | None) -> None:
    """The machine ended after this CPU time."""
    world.reads.used.pop(world.uuid(agent), None)

    def act(call: Call) -> Record[Result]:
        result = AgentEnded(
            call.hive.spec(agent).id, agent, 0, "", clean=True, asked=True, wanted="stopped",
            fields={"cpu": cpu},
        )  # fmt: skip
        emit(call, result)
        return Record(Result())

    world.broker.perform("end", act)
    world.run()


def uses(world: World, agent: str, group: str, used: int) -> None:
    world.reads.used[world.uuid(agent)] = Cpu(group, used)


def used_cpu(world: World, **words: object) -> Sums:
    """In milliseconds."""
    sums = rows(world.call("operator", "get_usage", **words)["sums"])
    result = [row for row in sums if row["kind"] == "cpu"]
    assert {item["source"] for item in result} <= {"measured"}
    return {item["key"]: item["amount"] for item in result}


def test_what_a_machine_uses_is_shown_while_it_runs(world: World) -> None:
    start(world, "a1")
    uses(world, "a1", "1", 1_234_567)
    assert used_cpu(world) == {"a1": 1234}
    uses(world, "a1", "1", 2 * SECOND)
    assert used_cpu(world, by="subtree") == {"a1": 2000, "a": 2000, "root": 2000}
    assert used_cpu(world, agent="b") == {}


def test_it_is_kept_over_stops_starts_and_daemons(world: World) -> None:
    start(world, "a1")
    uses(world, "a1", "1", SECOND)
    end(world, "a1", Cpu("1", 1_500_000))
    assert used_cpu(world) == {"a1": 1500}
    world.restart()
    assert used_cpu(world) == {"a1": 1500}
    start(world, "a1")
    uses(world, "a1", "2", 100_000)
    assert used_cpu(world) == {"a1": 1600}
    world.kill()
    assert used_cpu(world) == {"a1": 1500}  # what nobody measures now is in nobody's sum
    uses(world, "a1", "2", 200_000)
    assert used_cpu(world) == {"a1": 1700}


def test_nothing_is_made_up_where_usage_is_not_counted(world: World) -> None:
    start(world, "a1")
    assert used_cpu(world) == {}
    end(world, "a1", None)
    assert used_cpu(world) == {}


def test_destroyed_agents_keep_what_they_used(world: World) -> None:
    start(world, "a1")
    end(world, "a1", Cpu("1", SECOND))
    uuid = world.uuid("a1")
    world.call("operator", "destroy", agent="a1")
    assert used_cpu(world) == {f"a1 ({uuid[:8]}, gone)": 1000}
    assert used_cpu(world, by="subtree")["a"] == 1000


def test_counters_are_forgotten_with_the_last_sum(world: World) -> None:
    uuid = world.uuid("a1")
    end(world, "a1", Cpu("1", SECOND))
    world.call("operator", "destroy", agent="a1")
    budgets, saved = world.ledger.budgets, world.settings.budgets.kept
    for later, left in ((0.0, 1), (saved + 2 * 86_400, 0)):
        with world.ledger.transaction():
            budgets.usage.prune(world.clock.now() + later, saved)
            budgets.cpu.prune()
        assert len(budgets.cpu.figures([uuid])) == left


def test_the_last_few_machines_of_each_agent_are_known(world: World) -> None:
    """And not those of them that were heard of longest ago."""
    counters, (one, other) = world.ledger.budgets.cpu, map(world.uuid, ("a1", "b"))
    with world.ledger.transaction():
        counters.save(other, Cpu("0", 7))
        for group in (*range(GROUPS_MOST), 0, GROUPS_MOST):
            counters.save(one, Cpu(str(group), group + 1))
    assert [counters.last_figure(one, str(group)) for group in range(GROUPS_MOST + 1)] == [
        1,
        0,
        3,
        4,
        5,
    ]
    assert (
        counters.figures([one, other]).keys() > counters.figures([other]).keys() == {(other, "0")}
    )


STEPS = st.lists(
    st.tuples(st.sampled_from(["works", "is written", "ends", "ends again", "ends untold",
                               "its last end is told", "kill"]),
              st.integers(0, 3000)), max_size=12,
)  # fmt: skip


@pytest.mark.sized
@settings(max_examples=times(12, 100), deadline=None)
@given(STEPS)
def test_what_machines_used_is_counted_once(steps: list[tuple[str, int]]) -> None:
    """However often and late a figure is reported, and whenever the daemon is killed."""
    with world(None, "root/a1") as made:
        counters, untold = [0], Cpu("0", 0)
        for step, more in steps:
            now = Cpu(str(len(counters)), counters[-1])
            if step == "works":
                counters[-1] += more * 1000
            elif step == "is written":
                made.broker.perform("meter", partial(_write, "a1", now))
            elif step == "kill":
                made.kill()
            elif step == "its last end is told":
                end(made, "a1", untold)
            else:
                end(made, "a1", untold)  # the record of one more end would hide that
                if step != "ends untold":
                    end(made, "a1", now)
                if step != "ends again":
                    counters, untold = [*counters, 0], now
        end(made, "a1", untold)
        end(made, "a1", Cpu(str(len(counters)), counters[-1]))
        assert sum(map(int, map(str, used_cpu(made).values()))) == sum(counters) // 1000


def _write(agent: str, now: Cpu, call: Call) -> Record[Result]:
    add_cpu(call, call.hive.spec(agent).id, now)
    return Record(Result())
