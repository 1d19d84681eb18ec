"""What a new agent gets of its own from the beginning: budgets out of its creator's."""

from __future__ import annotations

from collections.abc import Iterator

from hive_core.broker.call import Call, Record
from hive_core.errors import InvalidArgument, NotAllowed
from hive_core.model.agents.capability import covers
from hive_core.model.work.budget import AMOUNT_MOST, MILLI, BudgetKind
from hive_core.operations.agents.spawn_params import Funds
from hive_core.operations.budgets.operations import AllocateParams, allocate_budget

_MILLIONTHS = 1_000_000
_USD = "USD"
# What `allocate_budget` takes at once.
_MOST = AMOUNT_MOST // MILLI


def initial_amounts(call: Call, funds: Funds | None) -> Iterator[tuple[BudgetKind, int]]:
    """How much of what; InvalidArgument for dollars that are not counted here, or are too many."""
    if funds is None:
        return
    currency = call.settings.budgets.currency
    if funds.usd is not None and currency != _USD:
        raise InvalidArgument(f"this host counts money in {currency}, not in USD", field="funds")
    if funds.usd is not None and funds.money is not None:
        raise InvalidArgument("say money, or usd, and not both", field="funds")
    money = funds.money if funds.usd is None else round(funds.usd * _MILLIONTHS)
    if money is not None and money > _MOST:
        raise InvalidArgument(f"no more than {_MOST} millionths of {currency}", field="funds")
    found = {BudgetKind.TOKENS: funds.tokens, BudgetKind.MONEY: money}
    yield from ((kind, amount) for kind, amount in found.items() if amount is not None)


def give_initial_budgets(call: Call, name: str, funds: Funds | None) -> frozenset[str]:
    """Give them to the agent `name`, of which `call` knows already; the topics to touch.

    Refused as a gift by `allocate_budget` would be: then there is no agent either.
    """
    topics = frozenset[str]()
    for kind, amount in initial_amounts(call, funds):
        if not call.by_operator and not covers(call.hive.spec(call.caller).capabilities, "budget"):
            raise NotAllowed(f"cannot give {name} a budget: you do not hold `budget`")
        wanted = AllocateParams(agent=name, kind=kind.value, amount=amount)
        given = allocate_budget(call, wanted)
        if isinstance(given, Record):
            topics |= given.wakes
    return topics
