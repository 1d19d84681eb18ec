"""The table of phases, and the judge that refuses what a phase does not have (rows Q2 to Q5)."""

from __future__ import annotations

from itertools import product

import pytest
from each import for_each

from hive_core.errors import InvalidArgument
from hive_core.model.agents.agent import Profile, Role
from hive_core.model.agents.capability import PLAIN
from hive_core.model.agents.phase import (
    COMMON,
    EDGES,
    MANAGING,
    PHASES,
    PhaseCause,
    QueenPhase,
    nearest_tool,
    phase_edge,
    phase_of_name,
)
from hive_core.model.agents.toolset import TABLE, tools_of_table, toolset
from hive_core.operations import load
from hive_core.policy.phase_guard import phase_denial

IND, STA, RUN, EDI = QueenPhase
OPERATIONS = load()
READS = {"read", "list", "search", "bash"}
TRIGGERS = {"set_trigger", "remove_trigger", "list_triggers"}
# The sets of the document that the rows come from, under the names that the tools have here.
SETS = {
    IND: READS | {"edit", "undo", "run_parallel_workers", "create_colony"},
    STA: READS | TRIGGERS | {"list_credentials", "get_worker_status", "run_agent_with_input"},
    RUN: READS | TRIGGERS | {
        "list_credentials", "stop_worker", "switch_to_reviewing", "get_worker_status",
        "run_agent_with_input", "run_parallel_workers", "inject_message", "list_questions",
        "answer",
    },
    EDI: READS | TRIGGERS | {
        "list_credentials", "get_worker_status", "run_agent_with_input", "inject_message",
        "list_questions", "answer",
    },
}  # fmt: skip
by_phase = pytest.mark.parametrize("phase", list(QueenPhase))


def queen_tools(phase: QueenPhase) -> set[str]:
    return set(toolset(Role.DAEMON, Profile.QUEEN, PLAIN, phase))


@by_phase
def test_a_phase_has_exactly_its_set_beside_what_all_have(phase: QueenPhase) -> None:
    """Q3. What exists of a set is all there, and nothing else is."""
    existing = SETS[phase] & set(tools_of_table())
    more = MANAGING if phase is IND else frozenset[str]()
    assert queen_tools(phase) - COMMON - more == existing - COMMON
    assert existing <= queen_tools(phase)
    assert not queen_tools(phase) & MANAGING if phase is not IND else True


def test_a_tool_of_every_role_is_in_some_phase() -> None:
    """Q3: what no phase lists, the judge refuses to a queen in all of them."""
    tools = {tool for row in TABLE if row.roles == set(Role) for tool in row.tools}
    phases = {tool for row in PHASES.values() for tool in row.tools}
    assert "report_expired_credential" in tools
    assert tools <= phases


@by_phase
def test_questions_of_workers_are_answered_in_every_phase(phase: QueenPhase) -> None:
    """Q28, Q31."""
    assert {"list_questions", "answer", "relay_question", "ask_user"} <= queen_tools(phase)


def test_triggers_are_for_a_colony() -> None:
    """Q32."""
    assert [phase for phase in QueenPhase if queen_tools(phase) >= TRIGGERS] == [STA, RUN, EDI]
    assert not TRIGGERS & queen_tools(IND)


def test_a_tool_that_no_phase_lists_is_in_none() -> None:
    """Q3: closed by default."""
    for phase in QueenPhase:
        assert phase_denial(phase, "brand_new", "spawn") is not None
        assert phase_denial(phase, "survey", "read") is not None  # a tool of the maid


@by_phase
def test_a_refusal_names_the_phase_and_a_tool_that_it_has(phase: QueenPhase) -> None:
    """Q4: for every operation; what only receives, reads or reports passes."""
    for name, operation in OPERATIONS.items():
        denial = phase_denial(phase, name, operation.action)
        if denial is None:
            continue
        assert denial.rule == "phase"
        assert f"your phase {phase} does not have {name};" in denial.reason
        near = denial.reason.rpartition(" ")[2]
        assert near == nearest_tool(phase, name)
        assert near in PHASES[phase].tools


@for_each("name", [
    "recv", "ack", "nack", "whoami", "list_toolset", "get_prompts", "get_phase", "begin_task",
    "report_activity", "keep_turn", "stream_turn", "use_tool", "end_tool", "list_plans",
    "get_usage", "loose_ends", "list_tasks", "hello", "watch_config", "subscribe",
])  # fmt: skip
def test_the_session_of_a_queen_works_in_every_phase(name: str) -> None:
    operation = OPERATIONS[name]
    for phase in QueenPhase:
        assert phase_denial(phase, name, operation.action) is None


def test_the_edges_are_those_of_the_rows() -> None:
    """Q2, Q7, Q50."""
    user, queen, system = PhaseCause.USER, PhaseCause.QUEEN, PhaseCause.SYSTEM
    wanted = {
        (IND, STA): {user}, (STA, RUN): {queen, user}, (EDI, RUN): {queen, user},
        (RUN, STA): {queen, user},
        (RUN, EDI): {queen, system}, (STA, IND): {user, system}, (RUN, IND): {user, system},
        (EDI, IND): {user, system},
    }  # fmt: skip
    for source, target in product(QueenPhase, repeat=2):
        edge = phase_edge(source, target)
        assert (None if edge is None else edge.causes) == wanted.get((source, target))
    assert len(EDGES) == len(wanted)
    assert {edge.by for edge in EDGES} <= OPERATIONS.keys()


@for_each("name, without, with_colony", [
    ("planning", IND, STA), ("building", IND, STA), ("working", RUN, RUN), ("reviewing", EDI, EDI),
    *((phase.value, phase, phase) for phase in QueenPhase),
])  # fmt: skip
def test_old_names_of_phases_are_read(
    name: str, without: QueenPhase, with_colony: QueenPhase
) -> None:
    """Q5."""
    assert phase_of_name(name, has_colony=False) is without
    assert phase_of_name(name, has_colony=True) is with_colony


@for_each("name", ["", "Running", "incubating", "colony", "x" * 1000])
def test_any_other_name_of_a_phase_is_refused(name: str) -> None:
    """Q5: loudly."""
    with pytest.raises(InvalidArgument) as refused:
        phase_of_name(name, has_colony=True)
    assert refused.value.field == "phase"
