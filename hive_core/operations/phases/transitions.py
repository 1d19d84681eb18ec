"""Moves a queen to another phase. Every move goes through `move_phase`.

The edge is checked first, then the row is written, then the event and, where the queen did not
cause it herself, one message to her (row Q6).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final, NamedTuple, TypedDict, Unpack

from hive_core.broker.call import Call
from hive_core.errors import Conflict
from hive_core.ledger.audit.events import AuditEntry
from hive_core.ledger.phases.storage import PhaseState
from hive_core.model.agents.agent import AgentSpec
from hive_core.model.agents.phase import PhaseCause, QueenPhase, phase_edge
from hive_core.model.agents.toolset import toolset
from hive_core.model.wire.record import DAEMON
from hive_core.operations.approvals.outcome import display_name
from hive_core.operations.notices import send_notice

PHASE: Final = "phase"


class PhaseStep(NamedTuple):
    """One move: the next phase, the party that causes it, and the operation, if there is one."""

    target: QueenPhase
    cause: PhaseCause
    by: str = ""


class ColonyFields(TypedDict, total=False):
    """What a move changes beside the phase."""

    colony: str
    goal: str
    criteria: str
    constraints: str


def move_phase(
    call: Call, queen: str, step: PhaseStep, outcome: str = "", **fields: Unpack[ColonyFields],
) -> PhaseState:  # fmt: skip
    """Take a step of a queen (a name) to another phase; Conflict where the table has no such edge.

    `outcome`: how the run of her colony ended, for her message.
    """
    uuid = call.hive.spec(queen).id
    before = call.ledger.phases.get(uuid)
    check_edge(queen, before.phase, step)
    # A colony whose agent is destroyed stays to be closed, whatever else its end moves.
    closes = None if step.target is QueenPhase.INDEPENDENT else before.closes
    after = replace(before, phase=step.target, since=call.now, closes=closes, **fields)
    call.ledger.phases.put(after)
    if before.phase is QueenPhase.RUNNING:
        call.ledger.phases.clear_work(uuid)
    _log_move(call, queen, before, after, step.cause)
    call.notify(f"phase:{uuid}", "events")
    if step.cause is not PhaseCause.QUEEN:
        _tell_queen(call, queen, after, outcome)
    return after


def check_edge(queen: str, source: QueenPhase, step: PhaseStep) -> None:
    """Refuse a step that the table does not have, or that another party or operation causes."""
    edge = phase_edge(source, step.target)
    cannot = f"cannot move {queen} from {source} to {step.target}"
    if edge is None or step.by not in ("", edge.by):
        raise Conflict(f"{cannot}: the phase {source} has no {step.by}", phase=source.value)
    if step.cause not in edge.causes:
        parties = " or ".join(sorted(f"the {party}" for party in edge.causes))
        raise Conflict(f"{cannot}: only {parties} may, by {edge.by}", phase=source.value)


def queen_toolset(spec: AgentSpec, phase: QueenPhase) -> tuple[str, ...]:
    """The tools of a queen in a phase."""
    return toolset(spec.role, spec.profile, spec.capabilities, phase)


def _log_move(
    call: Call, queen: str, before: PhaseState, after: PhaseState, cause: PhaseCause
) -> None:
    caller = DAEMON if cause is PhaseCause.SYSTEM else call.uuid
    fields = {
        "from": before.phase.value, "to": after.phase.value, "cause": cause.value,
        "colony": display_name(call, after.colony) if after.colony else "",
        "caller_name": DAEMON if cause is PhaseCause.SYSTEM else call.caller, "target_name": queen,
    }  # fmt: skip
    call.ledger.events.append(AuditEntry(
        kind=PHASE, caller=caller, operation="move_phase", target=after.agent, allowed=None,
        rule="", reason="", commit=call.hive.commit, request=call.request, now=call.now,
        fields=fields,
    ))  # fmt: skip


def _tell_queen(call: Call, queen: str, state: PhaseState, outcome: str) -> None:
    tools = ", ".join(queen_toolset(call.hive.spec(queen), state.phase))
    colony = f", colony: {display_name(call, state.colony)}" if state.colony else ""
    lines = [f"phase: {state.phase}{colony}", *([outcome] if outcome else []), f"tools: {tools}"]
    send_notice(call, call.hive, queen, PHASE, "\n".join(lines))
