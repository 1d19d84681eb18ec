"""Low budgets, shortages and refills. Each of these steps is an event in the log.

When the use passes the warning share, the agent and the party that could give it more get one
notice. An empty budget starts a shortage: the daemon asks that party for more, tells the agents
that draw on the budget to report, and after a while stops their work with the reason `budget`. A
refill ends the shortage and resumes the work.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from typing import Final

from hive_core.broker.call import Call
from hive_core.broker.delegation import call_as
from hive_core.broker.hooks import QuestionSettled, on
from hive_core.errors import HiveError, InboxFull, LimitReached, NotAllowed, NotFound
from hive_core.ledger.budgets.storage import Shortage
from hive_core.model.agents.machine import DesiredState
from hive_core.model.wire.record import DAEMON, OPERATOR
from hive_core.model.work.budget import BOUNDS, FUEL, UNITS, Budget, BudgetKind, to_display
from hive_core.model.work.question import QuestionItem
from hive_core.operations.budgets.payer_budget import (
    BUDGET,
    SLIDING,
    agent_tier,
    bounds,
    budget_title,
    budget_topic,
    giver_name,
    log_budget_event,
    owner_name,
    usage_text,
    with_reported_use,
)
from hive_core.operations.notices import send_notice
from hive_core.operations.questions.transitions import (
    QuestionRequest,
    end_question,
    end_without_answers,
    put_question,
)
from hive_core.operations.tasks.offers import offer_next_tasks

_DIGITS: Final = 18


def save_payment(call: Call, budget: Budget) -> None:
    """Save a budget after a payment; warn, or start a shortage, where due."""
    budgets = call.ledger.budgets
    call.notify(budget_topic(budget.agent))
    if budget.empty and budgets.shortage(budget) is None:
        budgets.save(replace(budget, warned=True))
        start_shortage(call, budget)
    elif budget.is_near_end(call.settings.budgets.warn) and not budget.warned:
        budgets.save(replace(budget, warned=True))
        warn_low(call, budget)
    else:
        budgets.save(budget)


def refill(call: Call, budget: Budget, amount: int) -> None:
    """Add an amount to a budget and resume the work that waited for it."""
    budgets = call.ledger.budgets
    refilled = budget.with_added(amount)
    low = refilled.is_near_end(call.settings.budgets.warn)
    budgets.save(replace(refilled, warned=refilled.warned and low))
    call.ledger.models.look_again(budget.agent, call.now)
    call.notify(budget_topic(budget.agent))
    if not refilled.empty:
        end_shortage(call, refilled, queued=budget.empty)


def end_shortage(call: Call, budget: Budget, *, queued: bool = False) -> None:
    """End a shortage and resume the work that waited.

    The budget was refilled, or the bound is kept.

    A budget that is empty because its agent gave it to others has no shortage, but tasks may be
    `queued` for it.
    """
    budgets = call.ledger.budgets
    shortage = budgets.shortage(budget)
    if shortage is not None:
        budgets.delete_shortage(budget)
        _announce_refill(call, budget, shortage)
    elif queued and budget.kind in FUEL:
        resume_work(call, budget)


def drawing_agents(
    call: Call, budget: Budget, owners: Collection[str] | None = None
) -> Iterator[str]:
    """The agents that draw on a budget: its own agent and the descendants without one.

    A bound of tokens an hour covers all descendants; a bound of context covers one agent.
    `owners`: the agents that have a budget of this kind and tier, if the caller has read them.
    """
    if budget.kind is BudgetKind.CONTEXT:
        yield budget.agent
        return
    name = call.hive.name(budget.agent)
    own = owners if owners is not None else _budget_owners(call, budget)
    waiting = [] if name is None else [name]
    while waiting:
        name = waiting.pop()
        uuid = call.hive.spec(name).id
        if uuid != budget.agent and uuid in own:
            continue
        waiting.extend(call.hive.topology.children(name))
        if not budget.tier or budget.tier == agent_tier(call.hive, uuid):
            yield uuid


def _budget_owners(call: Call, budget: Budget) -> Collection[str]:
    if budget.kind in BOUNDS:
        return ()
    return {other.agent for other in call.ledger.budgets.of_kind(budget.kind, budget.tier)}


def warn_low(call: Call, budget: Budget) -> None:
    """Warn the agent, and the party that can give it more, that a budget runs low."""
    how = "is nearly reached" if budget.kind in BOUNDS else "runs low"
    whose = owner_name(call.hive, budget)
    text = f"the {budget_title(budget)} of {whose} {how}: {usage_text(call, budget)}"
    log_budget_event(call, budget, "low", text)
    tell_agents(call, (call.hive.name(budget.agent), giver_name(call, budget)), text)


def start_shortage(call: Call, budget: Budget) -> None:
    """Start the shortage of an empty budget: ask for more, and set when its work is stopped.

    Work under a bound is not stopped.
    """
    whose, giver = owner_name(call.hive, budget), giver_name(call, budget)
    seconds = call.settings.budgets.stop
    how = "is reached" if budget.kind in BOUNDS else "is used up"
    text = f"the {budget_title(budget)} of {whose} {how}: {usage_text(call, budget)}"
    log_budget_event(call, budget, "used_up", text)
    stop_at = call.now + seconds if budget.kind in FUEL and seconds else None
    question = _ask_for_more(call, budget, giver, text)
    call.ledger.budgets.save_shortage(
        Shortage(budget.agent, budget.kind, budget.tier, call.now, giver, question, stop_at, ())
    )
    _notify_workers(call, budget, text)


def _ask_for_more(call: Call, budget: Budget, giver: str, text: str) -> str:
    """Ask for more on behalf of the agent; return the id of the question.

    Where the agent may not ask, the giver gets a message instead, and the id is empty.
    """
    unit = UNITS[budget.kind]
    prompt = f"{text}. How many {unit} more? Answer with a number; 0 means none."
    try:
        with call.ledger.savepoint():
            request = QuestionRequest((QuestionItem(prompt),), context=text)
            return put_question(call, budget.agent, giver, request).id
    except (InboxFull, LimitReached, NotAllowed, NotFound, KeyError):
        tier = f" tier={budget.tier}" if budget.tier else ""
        agent = owner_name(call.hive, budget)
        more = f"agent={agent} kind={budget.kind.value}{tier} amount=..."
        tell_agents(call, (giver,), f"{text}\nmay it have more? allocate_budget {more}")
    return ""


@on(QuestionSettled)
def _allocate_answer(call: Call, event: QuestionSettled) -> None:
    """Allocate the number in an answer, with the present rights of the answerer."""
    question = event.question
    shortage = call.ledger.budgets.shortage_of_question(question.id)
    amount = _answered_amount(question.answers[0]) if question.answers else 0
    name = None if shortage is None else call.hive.name(shortage.agent)
    if shortage is None or name is None or not amount:
        return
    amount += _current_bound(call, shortage)
    params = {
        "agent": name, "kind": shortage.kind.value, "amount": amount, "tier": shortage.tier or None,
    }  # fmt: skip
    try:
        with call.ledger.savepoint():
            call_as(call, question.answered_by, "allocate_budget", params)
    except HiveError as error:
        tell_agents(call, (_party_name(call, question.answered_by),), error.reason)


def _current_bound(call: Call, shortage: Shortage) -> int:
    """The inherited bound of an agent without its own: "more" means more than that."""
    own = call.ledger.budgets.get(shortage.agent, shortage.kind) is not None
    if shortage.kind not in SLIDING or own:
        return 0
    return sum(bound.free for bound in bounds(call, shortage.agent, shortage.kind)[:1])


def _answered_amount(answer: str | None) -> int:
    """The number in an answer; 0 for any other text, which allocates nothing."""
    word = (answer or "").strip()
    return int(word) if len(word) <= _DIGITS and word.isdecimal() else 0


def _party_name(call: Call, uuid: str) -> str | None:
    return uuid if uuid == OPERATOR else call.hive.name(uuid)


def _notify_workers(call: Call, budget: Budget, text: str) -> None:
    """Tell the agents that work on an empty budget, and its owner, to report now."""
    at_work = [
        uuid for uuid in drawing_agents(call, budget)
        if budget.kind in (*FUEL, *SLIDING) and call.ledger.tasks.open_tasks(uuid, 1)
    ]  # fmt: skip
    names = (call.hive.name(uuid) for uuid in dict.fromkeys((budget.agent, *at_work)))
    advice = "report now what you have" if budget.kind in FUEL else "the daemon refuses more use"
    if budget.kind in SLIDING:
        advice = "until the use is lower, new tasks wait and tools are refused"
    tell_agents(call, names, f"{text}\n{advice}; you get a message when there is more")


def _announce_refill(call: Call, budget: Budget, shortage: Shortage) -> None:
    state = f"has {to_display(budget.kind, budget.free)} {UNITS[budget.kind]} again"
    if budget.kind in SLIDING:
        state = f"is kept again, {usage_text(call, budget)}"
    text = f"the {budget_title(budget)} of {owner_name(call.hive, budget)} {state}: continue"
    log_budget_event(call, budget, "filled", text)
    tell_agents(call, (call.hive.name(budget.agent),), text)
    resume_work(call, budget, shortage)


def resume_work(call: Call, budget: Budget, shortage: Shortage | None = None) -> None:
    """Start queued tasks, withdraw the question of a shortage, restart stopped machines."""
    for uuid in drawing_agents(call, budget):
        offer_next_tasks(call, uuid)
    if shortage is not None:
        withdraw_question(call, shortage)
        restart_machines(call, shortage.stopped)


def restart_machines(call: Call, stopped: Iterable[str]) -> None:
    """Start machines that a shortage stopped, unless a caller started or stopped them since."""
    for uuid in stopped:
        run = call.ledger.runs.get(uuid)
        by_budget = run and (run.wanted, run.reason) == (DesiredState.STOPPED, BUDGET)
        if call.hive.name(uuid) and by_budget:
            call.ledger.runs.want(uuid, DesiredState.RUNNING, call.now, reason=BUDGET)
            call.notify(f"run:{uuid}")


def withdraw_question(call: Call, shortage: Shortage) -> None:
    """Cancel the question of a shortage that was solved in another way."""
    question = call.ledger.questions.get(shortage.question) if shortage.question else None
    if question is not None and question.open:
        reason = "the budget has been filled in the meantime"
        end_question(call, question, end_without_answers(call, "cancel", by=DAEMON, reason=reason))


def recheck_bound(call: Call, shortage: Shortage) -> None:
    """End the shortage of a bound that has room again, or set the time of the next check."""
    budgets = call.ledger.budgets
    own = [
        with_reported_use(call, bound) for bound in bounds(call, shortage.agent, shortage.kind)
        if bound.agent == shortage.agent
    ]  # fmt: skip
    bound = own[0] if own else Budget(shortage.agent, shortage.kind)
    share, shut = call.settings.budgets.warn, bool(own) and not bound.spent + bound.free
    if not shut and not bound.over and not bound.is_near_end(share):
        end_shortage(call, bound)
        return
    next_look = None
    if bound.kind is BudgetKind.TOKENS_PER_HOUR and not shut:
        hour = budgets.bounds.hour(bound.agent, call.now)[0]
        next_look = max(call.now + 1, hour.time_below(share * (bound.spent + bound.free)))
    budgets.save_shortage(replace(shortage, stop_at=next_look))
    call.notify(budget_topic(bound.agent))


def tell_agents(call: Call, names: Iterable[str | None], text: str) -> None:
    """Send a notice to each name once; None stands for a destroyed agent and is skipped."""
    for name in dict.fromkeys(names):
        if name is not None:
            send_notice(call, call.hive, name, BUDGET, text)
