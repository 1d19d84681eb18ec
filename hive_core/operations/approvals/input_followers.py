"""Agents that follow newer inputs of the flake, and the effect on each of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pydantic import Field

from hive_core.broker.call import Call
from hive_core.broker.operation import Result
from hive_core.model.agents.agent import AgentSpec
from hive_core.model.agents.machine import DesiredState, State
from hive_core.model.config.approval import Effect
from hive_core.plan import flake
from hive_core.policy.decide import visible_names

ROWS_MOST: Final = 500  # in a page, so that there is room for lines
BUILD, NEXT_START = "build", "next start"
_UP: Final = frozenset({State.RUNNING, State.DEGRADED})


class FollowerRow(Result):
    agent: str = Field(description="Name of an agent that is built from the inputs.")
    effect: str = Field(
        description="Effect on the agent: `switch` (in place, while it runs), `restart`, `build`"
        " (for the first time; it starts if it should run), or `next start` (it is built"
        " now and runs with it from its next start on)."
    )


def list_followers(call: Call) -> list[FollowerRow]:
    """The agents that follow, in the order of the rollout."""
    names, hive = flake.agents_built_from_inputs(call.hive), call.hive
    return [FollowerRow(agent=name, effect=_effect(call, hive.spec(name))) for name in names]


def visible_followers(call: Call) -> list[FollowerRow]:
    """Those of them that the caller can see."""
    seen = frozenset(visible_names(call.hive, call.caller))
    return [row for row in list_followers(call) if row.agent in seen]


def strongest_effect(rows: Iterable[FollowerRow]) -> Effect:
    """The strongest effect of newer inputs on running agents."""
    effects = {row.effect for row in rows}
    if effects & {Effect.RESTART, BUILD}:
        return Effect.RESTART
    return Effect.SWITCH if Effect.SWITCH in effects else Effect.NOTHING


def _effect(call: Call, spec: AgentSpec) -> str:
    """Only the system differs: a running agent is switched in place, a stopped one starts with it.

    See `effect` in `hive_core/plan/effect.py` and the deployer, which decide it after the build.
    """
    if spec.system is None:
        return BUILD
    run = call.ledger.runs.get(spec.id)
    if run is None or run.wanted is not DesiredState.RUNNING:
        return NEXT_START
    return Effect.SWITCH if call.states.state(spec.id) in _UP else Effect.RESTART
