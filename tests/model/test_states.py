"""Recorded states: what one tuple of moves gives, and which tuples are refused."""

from __future__ import annotations

import sqlite3

import pytest
from each import for_each

from hive_core.ledger.core.jobs import COURSE
from hive_core.model.states import IllegalTransition, StateMachine, Transition

DOOR = (
    Transition("shut", "open", "ajar", "anyone", "the handle"),
    Transition("ajar", "shut", "shut", "anyone", "the handle"),
    Transition("ajar", "break", "broken", "the wind", "it happens"),
)


def course(
    *moves: Transition, start: str = "shut", finals: tuple[str, ...] = ("broken",)
) -> StateMachine:
    return StateMachine("door", start, frozenset(finals), moves)


def test_moves_give_the_next_state_or_a_refusal() -> None:
    door = course(*DOOR)
    assert door.next("shut", "open") == "ajar"
    assert door.states == {"shut", "ajar", "broken"}
    with pytest.raises(IllegalTransition, match="cannot open a door that is broken"):
        door.next("broken", "open")


@for_each(
    "moves, fault",
    [
        (
            (*DOOR, Transition("shut", "open", "broken", "x", "y")),
            "two transitions for open from shut",
        ),
        ((*DOOR, Transition("broken", "mend", "shut", "x", "y")), "final and has a way out"),
        ((*DOOR, Transition("lost", "find", "shut", "x", "y")), "lost is never reached"),
        (DOOR[:1], "ajar has no way out"),
        (DOOR[:2], "broken is never reached"),
        ((*DOOR, Transition("shut", "kick", "broken", "", "y")), "does not say by whom"),
        ((*DOOR, Transition("shut", "o'k", "broken", "x", "y")), "not a plain word"),
    ],
)
def test_a_course_with_a_mistake_is_refused(moves: tuple[Transition, ...], fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        course(*moves)


@pytest.mark.parametrize("course_", [course(*DOOR), COURSE])
def test_the_triggers_allow_exactly_the_moves(course_: StateMachine) -> None:
    db = sqlite3.connect(":memory:")
    db.execute("CREATE TABLE things (id INTEGER PRIMARY KEY, state TEXT)")
    for sql in course_.sql_triggers("things").values():
        db.execute(sql)
    ways = {(move.source, move.to) for move in course_.transitions}
    for source in course_.states:
        for to in course_.states - {source}:
            allowed = _try(db, course_, source, to)
            assert allowed == ((source, to) in ways), (source, to)


def _try(db: sqlite3.Connection, params: StateMachine, source: str, to: str) -> bool:
    """Bring a new thing to `source`, then move it."""
    thing = db.execute("INSERT INTO things (state) VALUES (?)", (params.start,)).lastrowid
    for state in _way(params, source):
        db.execute("UPDATE things SET state = ? WHERE id = ?", (state, thing))
    try:
        db.execute("UPDATE things SET state = ? WHERE id = ?", (to, thing))
    except sqlite3.IntegrityError:
        return False
    return True


def _way(params: StateMachine, target: str) -> list[str]:
    ways = {params.start: list[str]()}
    while target not in ways:
        for move in params.transitions:
            if move.source in ways:
                ways.setdefault(move.to, [*ways[move.source], move.to])
    return ways[target]


def test_the_diagram_shows_every_move() -> None:
    diagram = course(*DOOR).diagram()
    assert diagram.startswith("stateDiagram-v2\n    [*] --> shut\n")
    assert "    ajar --> broken: break (the wind)\n    broken --> [*]\n" in diagram
