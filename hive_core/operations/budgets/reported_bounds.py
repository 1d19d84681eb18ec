"""Bounds of what agents say of themselves: tokens in an hour, and the size of a context (row K23).

They are no purses: nothing is used up, and no work is stopped. Who comes near is warned. Who is
at one gets no new task and no tool until it is less, and somebody is asked whether it may be more.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

from hive_core.broker.call import Call
from hive_core.broker.hooks import AgentStarted, when
from hive_core.model.work.budget import Budget, BudgetKind
from hive_core.operations.budgets.payer_budget import (
    SLIDING,
    bounds,
    budget_topic,
    with_reported_use,
)
from hive_core.operations.budgets.shortages import (
    end_shortage,
    recheck_bound,
    start_shortage,
    warn_low,
)
from hive_core.operations.tasks.offers import start_next


def report_tokens(call: Call, uuid: str, tokens: int) -> frozenset[str]:
    """So many tokens more, for the agent and all above it that are bounded."""
    topics, said = frozenset[str](), call.ledger.budgets.bounds
    for bound in bounds(call, uuid, BudgetKind.TOKENS_PER_HOUR) if tokens else ():
        hour, warned = said.hour(bound.agent, call.now)
        hour = hour.add(tokens)
        said.save_hour(bound.agent, hour, warned=warned)
        found, touched = _check_bound(call, with_reported_use(call, bound), warned=warned)
        if found != warned:
            said.save_hour(bound.agent, hour, warned=found)
        topics |= touched
    return topics


def report_context(call: Call, uuid: str, tokens: int) -> frozenset[str]:
    """How big the context of the agent is now."""
    said = call.ledger.budgets.bounds
    warned = said.context(uuid)[1]
    said.save_context(uuid, tokens, warned=warned)
    topics, found = frozenset[str](), bounds(call, uuid, BudgetKind.CONTEXT)
    for bound in found:
        warned, touched = _check_bound(call, with_reported_use(call, bound), warned=warned)
        topics |= touched
    said.save_context(uuid, tokens, warned=warned)
    return topics if found else topics | end_shortage(call, Budget(uuid, BudgetKind.CONTEXT))


def apply_bound_change(call: Call, uuid: str, kind: BudgetKind) -> frozenset[str]:
    """The bound of this agent is another one: what was said before is held against it now."""
    topics, budgets = frozenset[str](), call.ledger.budgets
    if kind is BudgetKind.CONTEXT:
        said = budgets.bounds.contexts()
        for name in call.hive.topology.subtree(call.hive.name(uuid) or uuid):
            each = call.hive.spec(name).id
            if each in said:
                topics |= report_context(call, each, said[each])
            topics |= start_next(call, each)
    for bound in bounds(call, uuid, kind) if kind is BudgetKind.TOKENS_PER_HOUR else ():
        if bound.agent == uuid:
            topics |= _recheck_hour(call, bound)
    return topics


def apply_bounds(call: Call, names: Iterable[str]) -> frozenset[str]:
    """They and all below them are under the bounds of `call.hive` from now on.

    As if they had said the sizes of their contexts a moment ago. The hour of a bound stays what was
    reported under it: hours are kept for whole branches, and of what one of these takes along
    nobody could say whether the new place has counted it before.
    """
    budgets, host = call.ledger.budgets, call.settings.budgets
    topics = frozenset[str]()
    held = budgets.kinds.intersection(SLIDING) or host.tokens_per_hour or host.context
    if not held and not any(each.kind in SLIDING for each in budgets.shortages()):
        return topics
    said = budgets.bounds.contexts()
    for name in chain.from_iterable(map(call.hive.topology.subtree, names)):
        uuid = call.hive.spec(name).id
        for bound in bounds(call, uuid, BudgetKind.TOKENS_PER_HOUR):
            topics |= _recheck_hour(call, bound) if bound.agent == uuid else frozenset()
        if uuid in said:
            topics |= report_context(call, uuid, said[uuid])
        topics |= _recheck_own_bound(call, uuid) | start_next(call, uuid)
    return topics


def _recheck_own_bound(call: Call, uuid: str) -> frozenset[str]:
    """It met a bound of its own before, and another one holds now."""
    missed = call.ledger.budgets.shortage(Budget(uuid, BudgetKind.TOKENS_PER_HOUR))
    held = any(each.agent == uuid for each in bounds(call, uuid, BudgetKind.TOKENS_PER_HOUR))
    return frozenset() if missed is None or held else recheck_bound(call, missed)


def _recheck_hour(call: Call, bound: Budget) -> frozenset[str]:
    budgets, now = call.ledger.budgets, with_reported_use(call, bound)
    missed = budgets.shortage(bound)
    if missed is not None:
        return recheck_bound(call, missed) if now.empty else end_shortage(call, now)
    hour, warned = budgets.bounds.hour(bound.agent, call.now)
    found, topics = _check_bound(call, now, warned=warned)
    if found != warned:
        budgets.bounds.save_hour(bound.agent, hour, warned=found)
    return topics


def _check_bound(call: Call, bound: Budget, *, warned: bool) -> tuple[bool, frozenset[str]]:
    """Whether it is warned now, and what follows."""
    near = bound.is_near_end(call.settings.budgets.warn)
    missed = call.ledger.budgets.shortage(bound)
    if missed is not None:
        again = bound.kind is BudgetKind.CONTEXT and not bound.empty
        return near, end_shortage(call, bound) if again else frozenset()
    if bound.empty:
        topics = start_shortage(call, bound)
        asked = call.ledger.budgets.shortage(bound)
        return True, topics | (recheck_bound(call, asked) if asked else frozenset())
    if near and not warned:
        return True, warn_low(call, bound) | {budget_topic(bound.agent)}
    return near, frozenset()


@when(AgentStarted)
def _reset_context(call: Call, what: AgentStarted) -> frozenset[str]:
    """What starts anew has an empty context, until it says otherwise."""
    known = call.ledger.budgets.bounds.context(what.uuid)[0]
    return report_context(call, what.uuid, 0) if known else frozenset()
