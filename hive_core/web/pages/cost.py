"""What was used, by agent, model, day and so on, and how long the budgets last."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from starlette.responses import Response

from hive_core.services.replies import rows_of
from hive_core.varlink import Message
from hive_core.web.pages.timeline import read_back
from hive_core.web.rendering import format_age, format_clock
from hive_core.web.spending import EVENT_KINDS, HOUR, BurnDown, burn_down
from hive_core.web.usage_table import tabulate_usage
from hive_core.web.visit import Visit

# The groups of the page, and what hived calls them.
GROUPS: Final[Mapping[str, str]] = {
    "agent": "agent", "subtree": "subtree", "model": "model", "task": "task", "day": "day",
    "account": "user",
}  # fmt: skip
_BURNING: Final = frozenset({"tokens", "money"})
_TASKS: Final = 100
_DAY: Final = 86_400


@dataclass(frozen=True, slots=True)
class BudgetRow:
    """A budget; `burn` is of those whose use events tell of, `empty` when it will be gone."""

    budget: Message
    share: float
    burn: BurnDown | None = None
    empty: str = ""


async def show_cost(visit: Visit) -> Response:
    """What is left of each budget, and what was used."""
    return await _draw(visit, "cost")


async def show_cost_rows(visit: Visit) -> Response:
    """The budgets and sums alone, for a page that is old."""
    return await _draw(visit, "cost_rows")


async def _draw(visit: Visit, name: str) -> Response:
    by = visit.query.get("by", "agent")
    by = by if by in GROUPS else "agent"
    reply = await visit.read("get_usage", by=GROUPS[by])
    budgets, spending = await _budget_rows(visit, reply), visit.web.hub.spending
    is_whole_hour = spending.reaches(visit.web.clock() - HOUR)
    return visit.page(
        name, "Cost", by=by, groups=tuple(GROUPS), budgets=budgets,
        uncounted=None if is_whole_hour else spending.first_time, is_full=spending.is_full,
        currency=reply["currency"], is_whole=reply["whole"],
        rows=tabulate_usage(reply, by_key=by == "day"),
        titles=await _titles(visit) if by == "task" else {},
        known=visit.web.hub.agents.get if by in ("agent", "subtree") else lambda _: None,
    )  # fmt: skip


async def _titles(visit: Visit) -> dict[str, str]:
    """The titles of the newest tasks, by their ids."""
    tasks = rows_of(await visit.read("list_tasks", limit=_TASKS), "tasks")
    return {str(task["id"]): str(task["title"]) for task in tasks}


async def _budget_rows(visit: Visit, reply: Message) -> list[BudgetRow]:
    budgets = rows_of(reply, "budgets")
    now = visit.web.clock()
    if any(_burns(budget) for budget in budgets):
        await read_back(visit, visit.web.hub.spending, now - HOUR, EVENT_KINDS)
    return [_budget_row(visit, budget, budgets, now) for budget in budgets]


def _budget_row(visit: Visit, budget: Message, others: list[Message], now: float) -> BudgetRow:
    left, spent = int(str(budget["left"])), int(str(budget["spent"]))
    share = spent / (left + spent) if left + spent > 0 else 0.0
    if not _burns(budget):
        return BudgetRow(budget, share)
    agents = _drawing_on(visit, budget, others)
    burn = burn_down(visit.web.hub.spending.facts, agents, str(budget["kind"]), left, now)
    return BudgetRow(budget, share, burn, "" if burn.empty is None else _moment(burn.empty, now))


def _moment(at: float, now: float) -> str:
    """A time of today or tonight as on a clock; a later one by how long it is until then."""
    return format_clock(at) if at - now < _DAY else f"in {format_age(at, now)}"


def _burns(budget: Message) -> bool:
    """Whether events tell what is taken from it: not of the fund of a task, or of one tier."""
    return budget["kind"] in _BURNING and not budget["tier"] and not budget["task"]


def _drawing_on(visit: Visit, budget: Message, others: list[Message]) -> set[str]:
    """The UUIDs of the agents that draw on a budget: all below it that have none of their own."""
    agents = visit.web.hub.agents
    if agents.get(str(budget["agent"])) is None:
        return set()
    drawing = set(agents.below(str(budget["agent"])))
    for other in others:
        name = str(other["agent"])
        if other is not budget and _burns(other) and other["kind"] == budget["kind"]:
            is_below = name in drawing and name != budget["agent"]
            drawing -= set(agents.below(name)) if is_below else set()
    rows = (agents.get(name) for name in drawing)
    return {str(row["uuid"]) for row in rows if row is not None}
