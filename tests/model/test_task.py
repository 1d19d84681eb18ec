"""The states of tasks: what the page says of them is what holds."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from each import for_each

from hive_core.model.states import IllegalTransition
from hive_core.model.work.task import (
    A2A,
    ACTIVE,
    COURSE,
    DELIVERED,
    FINALS,
    UNSTARTED,
    ResultStatus,
    Task,
    TaskRequest,
    TaskResult,
    TaskState,
    a2a_state,
)

PAGE = (Path(__file__).parents[2] / "docs" / "guide" / "tasks.md").read_text()
TASK = Task(1, "0" * 12, "u", "operator", TaskRequest("x"), TaskState.QUEUED, 1.0)


def cells(header: str) -> list[list[str]]:
    table = PAGE.split(f"| {header} |", 1)[1].split("\n\n", 1)[0]
    return [[cell.strip(" `") for cell in line.split("|")[1:-1]] for line in table.splitlines()[2:]]


def test_the_page_names_every_state_and_what_a2a_calls_it() -> None:
    """Row T15."""
    shown = {row[0]: row[-1] for row in cells("state")}
    assert set(shown) == set(TaskState)
    for state, name in A2A.items():
        assert re.split(r"[` ,]+", shown[state])[0] == name


def test_the_page_names_every_move() -> None:
    shown = {(row[0], row[1], row[2]) for row in cells("from")}
    moves = set[tuple[str, str, str]]()
    for sources, event, to in shown:
        moves |= {(word, event, to) for word in re.split(r"[`, ]+", sources)}
    assert moves == {(move.source, move.event, move.to) for move in COURSE.transitions}


def test_every_state_is_of_one_sort() -> None:
    assert frozenset(TaskState) == UNSTARTED | ACTIVE | DELIVERED | FINALS
    assert len(TaskState) == sum(map(len, (UNSTARTED, ACTIVE, DELIVERED, FINALS)))


def test_there_is_no_way_out_of_an_end() -> None:
    for state in FINALS:
        for event in {move.event for move in COURSE.transitions}:
            with pytest.raises(IllegalTransition):
                COURSE.next(state, event)


HOW = {"success": "completed", "partial": "completed", "failed": "failed", "timeout": "failed"}


@for_each("status, name", HOW.items())
def test_a2a_asks_how_it_was_done(status: str, name: str) -> None:
    done = replace(TASK, state=TaskState.DONE, result=TaskResult(ResultStatus(status)))
    assert a2a_state(done) == name
    assert a2a_state(TASK) == "submitted"


def test_what_needs_a_plan_is_locked_until_one_is_approved() -> None:
    """Row T7."""
    request = TaskRequest("x", plan_required=True)
    needs = replace(TASK, request=request, state=TaskState.IN_PROGRESS, message="m")
    assert "needs an approved plan" in needs.locked
    assert not replace(needs, plan="p").locked
    assert (
        "is not approved yet"
        in replace(needs, plan="p", state=TaskState.AWAITING_PLAN_APPROVAL).locked
    )
    assert not TASK.locked
