"""The run of a queen: its beginning, and its one end in whatever order its work ends (Q7)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fixtures.machines import end_machine, start_machines
from fixtures.phases import (
    LONG,
    STA,
    ask,
    letters,
    move_to,
    moves,
    phase,
    queen_world,
)
from fixtures.world import World, rows, texts
from hypothesis import given, settings
from hypothesis import strategies as st
from long import times


@pytest.fixture(name="hive")
def _hive() -> Iterator[World]:
    with queen_world() as it:
        yield it


def begin(hive: World, count: int) -> list[str]:
    ask(hive, "operator", "open_colony")
    tasks = [str(ask(hive, "queen", "run_agent_with_input")["task"]) for _ in range(count)]
    start_machines(hive, "wu")
    for task in tasks:
        hive.call("wu", "begin_task", task=task)
    return tasks


def end(hive: World, task: str, how: str) -> None:
    if how == "crash":
        end_machine(hive, "wu", 137)
        return
    hive.call("wu", "finish_task", task=task, status=how, summary=f"it was {how}")


def check_end(hive: World, tasks: list[str]) -> None:
    """The queen is in editing, was moved there once, and was told the outcome once."""
    assert phase(hive) == "editing"
    assert moves(hive).count(("running", "editing", "system")) == 1
    (letter,) = [row for row in letters(hive) if "editing" in str(row["body"]).splitlines()[0]]
    assert all(task in str(letter["body"]) for task in tasks)
    assert hive.call("queen", "get_phase")["work"] == []


@pytest.mark.parametrize("how", ["success", "partial", "failed", "crash"])
@pytest.mark.parametrize("count", [1, 2, 5])
def test_the_last_end_of_a_run_moves_the_queen_once(how: str, count: int) -> None:
    """Q7: success, failure, crash, N tasks."""
    with queen_world() as hive:
        tasks = begin(hive, count)
        for task in tasks:
            assert phase(hive) == "running"
            if how != "crash" or task == tasks[-1]:
                end(hive, task, how)
        check_end(hive, tasks)


@pytest.mark.sized
@settings(max_examples=times(8, 100), deadline=None)
@given(st.data())
def test_a_run_ends_once_in_whatever_order_its_work_ends(data: st.DataObject) -> None:
    """Q7: tasks and a batch, each ended in some way, in any order."""
    ways = data.draw(st.lists(st.sampled_from(["success", "failed", "cancel"]), max_size=4))
    with queen_world() as hive:
        tasks = begin(hive, len(ways) + 1)
        batch = str(hive.call("queen", "run_parallel_workers", tasks=[{"task": "x"}])["batch"])
        work = data.draw(
            st.permutations([*zip(tasks, [*ways, "success"], strict=True), (batch, "")])
        )
        for id_, how in work:
            assert phase(hive) == "running"
            match how:
                case "cancel":
                    hive.call("operator", "cancel_task", task=id_)
                    hive.call("wu", "finish_task", task=id_, status="failed", summary="")
                case "":
                    (row,) = rows(hive.call("operator", "get_batch", batch=batch)["reports"])
                    worker = str(row["worker"])
                    hive.call(worker, "finish_task", task=row["task"], status="success", summary="")
                    hive.advance(3)
                case _:
                    end(hive, id_, how)
        check_end(hive, [*tasks, batch])


def test_an_end_after_the_queen_moved_on_changes_nothing(hive: World) -> None:
    (task,) = begin(hive, 1)
    ask(hive, "queen", "switch_to_reviewing")
    end(hive, task, "success")
    assert phase(hive) == "editing"
    assert moves(hive)[-1] == ("running", "editing", "queen")
    assert len(letters(hive)) == 1


def test_a_stop_ends_tasks_and_triggers_and_does_not_review(hive: World) -> None:
    """Q40."""
    tasks = begin(hive, 2)
    hive.call(
        "queen", "set_trigger", agent="wu", name="daily", when={"every": 3600.0},
        action={"kind": "message", "text": "again"},
    )  # fmt: skip
    reply = ask(hive, "queen", "stop_worker")
    assert sorted(texts(reply["tasks"])) == sorted(tasks)
    assert len(texts(reply["triggers"])) == 1
    for task in tasks:
        hive.call("wu", "finish_task", task=task, status="partial", summary="half")
    assert phase(hive) == "staging"
    assert ("running", "editing", "system") not in moves(hive)


def test_a_run_starts_the_worker_and_warns_about_a_short_task(hive: World) -> None:
    """Q19."""
    move_to(hive, STA)
    reply = ask(hive, "queen", "run_agent_with_input", task="Read.")
    assert "5 characters" in texts(reply["warnings"])[0]
    assert hive.seen.state(hive.uuid("wu")) == "running"
    task = hive.call("queen", "get_task", task=str(reply["task"]))["task"]
    assert isinstance(task, dict)
    assert (task["agent"], task["assigner"]) == ("wu", "queen")
    assert ask(hive, "operator", "run_agent_with_input")["warnings"] == []


def test_a_refused_run_leaves_everything_as_it_was(hive: World) -> None:
    move_to(hive, STA)
    hive.call("operator", "move", agent="wu", parent="lead")
    assert hive.fault("queen", "run_agent_with_input", task=LONG) == "Conflict"
    assert phase(hive) == "staging"
    assert rows(hive.call("operator", "list_tasks")["tasks"]) == []
