"""The phase of a queen: what she may not call in it, whatever her place and capabilities allow."""

from __future__ import annotations

from functools import cache
from typing import Final

from hive_core.model.agents.phase import QueenPhase, nearest_tool, passes_phase
from hive_core.model.agents.toolset import tools_of_table
from hive_core.policy.algebra import Decision

RULE: Final = "phase"


@cache
def phase_denial(phase: QueenPhase, operation: str, action: str) -> Decision | None:
    """The refusal of an operation in this phase; None: the phase has it."""
    is_tool = operation in frozenset(tools_of_table())
    if passes_phase(phase, operation, action, is_tool=is_tool):
        return None
    return Decision.denial(RULE, phase_reason(phase, operation))


def phase_reason(phase: QueenPhase, tool: str) -> str:
    """The refusal in words."""
    near = nearest_tool(phase, tool)
    return f"your phase {phase} does not have {tool}; the nearest tool that it has is {near}"
