"""The budgets that a new agent gets from its creator."""

from __future__ import annotations

from collections.abc import Iterator

from hive_core.broker.call import Call
from hive_core.errors import InvalidArgument, NotAllowed
from hive_core.model.agents.capability import covers
from hive_core.model.work.budget import AMOUNT_MOST, MILLI, BudgetKind
from hive_core.operations.agents.spawn_params import Funds
from hive_core.operations.budgets.operations import AllocateParams, allocate_budget

_MILLIONTHS = 1_000_000
_USD = "USD"
# The most that one call of `allocate_budget` takes.
_MOST = AMOUNT_MOST // MILLI


def initial_amounts(call: Call, funds: Funds | None) -> Iterator[tuple[BudgetKind, int]]:
    """The kinds and amounts; InvalidArgument for another currency, or for too much money."""
    if funds is None:
        return
    currency = call.settings.budgets.currency
    if funds.usd is not None and currency != _USD:
        raise InvalidArgument(f"this host counts money in {currency}, not in USD", field="funds")
    if funds.usd is not None and funds.money is not None:
        raise InvalidArgument("set either `money` or `usd`, and not both", field="funds")
    money = funds.money if funds.usd is None else round(funds.usd * _MILLIONTHS)
    if money is not None and money > _MOST:
        raise InvalidArgument(f"no more than {_MOST} millionths of {currency}", field="funds")
    amounts = {BudgetKind.TOKENS: funds.tokens, BudgetKind.MONEY: money}
    yield from ((kind, amount) for kind, amount in amounts.items() if amount is not None)


def give_initial_budgets(call: Call, name: str, funds: Funds | None) -> None:
    """Give budgets to the new agent `name`, which `call.hive` already has.

    An amount that `allocate_budget` refuses is refused here too, and then the agent is not created.
    """
    for kind, amount in initial_amounts(call, funds):
        if not call.by_operator and not covers(call.hive.spec(call.caller).capabilities, "budget"):
            raise NotAllowed(f"cannot give {name} a budget: you do not hold `budget`")
        allocate_budget(call, AllocateParams(agent=name, kind=kind.value, amount=amount))
