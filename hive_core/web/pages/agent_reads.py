"""What the page of an agent joins from several reads: figures of turns, its plan, its prompt."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from hive_core.services.replies import rows_of
from hive_core.varlink import Message
from hive_core.web.pages.timeline import read_back
from hive_core.web.spending import EVENT_KINDS, HOUR, Use
from hive_core.web.visit import Visit

_OPEN: Final = frozenset({
    "in_progress", "awaiting_plan_approval", "awaiting_more_information", "awaiting_judgement",
    "stopping",
})  # fmt: skip
_PLANS_MOST: Final = 4
# hived keeps 200 turns of an agent, whose texts may be one to a page.
_PROMPT_PAGES: Final = 64


@dataclass(frozen=True, slots=True)
class TurnFigures:
    """What the calls of models in a turn used. `money` is in millionths."""

    turn: Message
    models: tuple[str, ...]
    tokens_in: int
    tokens_out: int
    money: int
    seconds: float | None


async def read_turn_figures(visit: Visit, agent: str, reply: Message) -> list[TurnFigures]:
    """The turns of a page, the oldest first, with the calls of models that fall into each."""
    turns = rows_of(reply, "turns")[::-1]
    row = visit.web.hub.agents.get(agent)
    spending = visit.web.hub.spending
    uses: list[Use] = []
    if turns and row is not None:
        start = _began(turns[0]) or _number(turns[0].get("ended")) - HOUR
        await read_back(visit, spending, start, EVENT_KINDS)
        uses = spending.calls_of(str(row["uuid"]), start, _number(turns[-1].get("ended")))
    before = 0.0
    figures = []
    for turn in turns:
        figures.append(_figures(turn, before, uses))
        before = _number(turn.get("ended"))
    return figures


async def read_plans(visit: Visit, reply: Message) -> list[Message]:
    """The newest plan of each open task that has one."""
    open_tasks = [
        task for task in rows_of(reply, "tasks")
        if task.get("state") in _OPEN and (task.get("plan") or task.get("plan_required"))
    ]  # fmt: skip
    plans = []
    for task in open_tasks[:_PLANS_MOST]:
        if task.get("plan"):
            plans.append(await visit.read("get_plan", plan=task["plan"]))
        else:
            listed = await visit.read("list_plans", task=task["id"])
            plans += rows_of(listed, "plans")[:1]
    return plans


async def read_prompt(visit: Visit, agent: str) -> Message:
    """The newest turn with a system text: the first one, or where the text has changed."""
    after: object = None
    for _ in range(_PROMPT_PAGES):
        reply = await visit.try_read("list_turns", agent=agent, limit=50, after=after)
        if "refused" in reply:
            return reply
        turn = next((turn for turn in rows_of(reply, "turns") if turn.get("system")), None)
        after = reply.get("next")
        if turn is not None or not after:
            return {"turn": turn}
    return {"turn": None}


def _figures(turn: Message, before: float, uses: list[Use]) -> TurnFigures:
    """Without a known beginning a turn has all since the turn before."""
    began, ended = _began(turn), _number(turn.get("ended"))
    start = before if began is None else began
    own = [use for use in uses if start < use.time <= ended]
    return TurnFigures(
        turn, tuple(dict.fromkeys(use.model for use in own)), sum(use.tokens_in for use in own),
        sum(use.tokens_out for use in own), sum(use.money for use in own),
        None if began is None else ended - began,
    )  # fmt: skip


def _began(turn: Message) -> float | None:
    began = turn.get("began")
    return began if isinstance(began, int | float) else None


def _number(value: object) -> float:
    return value if isinstance(value, int | float) else 0.0
