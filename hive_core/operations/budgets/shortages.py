"""What follows when a purse runs low, is empty, or is filled again. Each of these is an event.

At the warning share the agent and who could give it more are told, once for each time that it is
passed. At an empty purse somebody is asked for more, and who works on it is told to come to an
end; after a while that work is stopped, with reason `budget`. More of it lets everything go on.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from typing import Final

from hive_core.broker.call import Call, Record
from hive_core.broker.delegation import call_as
from hive_core.broker.hooks import QuestionSettled, when
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
from hive_core.operations.notices import tell
from hive_core.operations.questions.transitions import (
    QuestionRequest,
    end_question,
    end_without_answers,
    put_question,
)
from hive_core.operations.tasks.offers import start_next

_DIGITS: Final = 18


def save_payment(call: Call, purse: Budget) -> frozenset[str]:
    """Keep a purse out of which something was paid; what follows, and the topics to touch."""
    budgets = call.ledger.budgets
    touched = frozenset({budget_topic(purse.agent)})
    if purse.empty and budgets.shortage(purse) is None:
        budgets.save(replace(purse, warned=True))
        return touched | start_shortage(call, purse)
    if purse.is_near_end(call.settings.budgets.warn) and not purse.warned:
        budgets.save(replace(purse, warned=True))
        return touched | warn_low(call, purse)
    budgets.save(purse)
    return touched


def refill(call: Call, purse: Budget, amount: int) -> frozenset[str]:
    """Put something in; what was parked for want of it goes on."""
    budgets = call.ledger.budgets
    found = purse.with_added(amount)
    low = found.is_near_end(call.settings.budgets.warn)
    budgets.save(replace(found, warned=found.warned and low))
    topics = frozenset({budget_topic(purse.agent)})
    return topics if found.empty else topics | end_shortage(call, found, queued=purse.empty)


def end_shortage(call: Call, purse: Budget, *, queued: bool = False) -> frozenset[str]:
    """There is something in it, or below the bound: whoever was short of it goes on."""
    budgets = call.ledger.budgets
    missed = budgets.shortage(purse)
    if missed is None:  # one emptied by giving: what is queued waited for it all the same
        return resume_work(call, purse) if queued and purse.kind in FUEL else frozenset()
    budgets.delete_shortage(purse)
    return _announce_refill(call, purse, missed)


def drawing_agents(
    call: Call, purse: Budget, known: Collection[str] | None = None
) -> Iterator[str]:
    """Who draws on it: the agent and those below it that have none of their own.

    A bound of tokens an hour holds for all below, one of a context for the agent alone. `known`:
    who has one of this kind and tier, where that was read already.
    """
    if purse.kind is BudgetKind.CONTEXT:
        yield purse.agent
        return
    name = call.hive.name(purse.agent)
    own = known if known is not None else _budget_owners(call, purse)
    waiting = [] if name is None else [name]
    while waiting:
        name = waiting.pop()
        uuid = call.hive.spec(name).id
        if uuid != purse.agent and uuid in own:
            continue
        waiting.extend(call.hive.topology.children(name))
        if not purse.tier or purse.tier == agent_tier(call.hive, uuid):
            yield uuid


def _budget_owners(call: Call, purse: Budget) -> Collection[str]:
    if purse.kind in BOUNDS:
        return ()
    return {each.agent for each in call.ledger.budgets.of_kind(purse.kind, purse.tier)}


def warn_low(call: Call, purse: Budget) -> frozenset[str]:
    """It runs low: the agent and who can give more are told."""
    how = "is nearly reached" if purse.kind in BOUNDS else "runs low"
    whose = owner_name(call.hive, purse)
    text = f"the {budget_title(purse)} of {whose} {how}: {usage_text(call, purse)}"
    log_budget_event(call, purse, "low", text)
    return tell_agents(call, (call.hive.name(purse.agent), giver_name(call, purse)), text)


def start_shortage(call: Call, purse: Budget) -> frozenset[str]:
    """It is empty: who can give more is asked, and the time of what works on it is running.

    Work on a bound is not stopped.
    """
    whose, giver = owner_name(call.hive, purse), giver_name(call, purse)
    stop_ = call.settings.budgets.stop
    how = "is reached" if purse.kind in BOUNDS else "is used up"
    text = f"the {budget_title(purse)} of {whose} {how}: {usage_text(call, purse)}"
    log_budget_event(call, purse, "used_up", text)
    ends = call.now + stop_ if purse.kind in FUEL and stop_ else None
    question, topics = _ask_for_more(call, purse, giver, text)
    call.ledger.budgets.save_shortage(
        Shortage(purse.agent, purse.kind, purse.tier, call.now, giver, question, ends, ())
    )
    return topics | _notify_workers(call, purse, text)


def _ask_for_more(call: Call, purse: Budget, giver: str, text: str) -> tuple[str, frozenset[str]]:
    """A question of the agent's to who can give more; where it may not ask, a message."""
    unit = UNITS[purse.kind]
    prompt = f"{text}. How many {unit} more? Answer with a number; 0 is none."
    try:
        with call.ledger.savepoint():
            wish = QuestionRequest((QuestionItem(prompt),), context=text)
            asked, topics = put_question(call, purse.agent, giver, wish)
    except (InboxFull, LimitReached, NotAllowed, NotFound, KeyError):
        tier = f" tier={purse.tier}" if purse.tier else ""
        more = f"agent={owner_name(call.hive, purse)} kind={purse.kind.value}{tier} amount=..."
        return "", tell_agents(call, (giver,), f"{text}\nmay it have more? allocate_budget {more}")
    return asked.id, topics


@when(QuestionSettled)
def _allocate_answer(call: Call, what: QuestionSettled) -> frozenset[str]:
    """A number is an allocation by who answered, with its rights as they are now."""
    question = what.question
    missed = call.ledger.budgets.shortage_of_question(question.id)
    amount = _answered_amount(question.answers[0]) if question.answers else 0
    name = None if missed is None else call.hive.name(missed.agent)
    if missed is None or name is None or not amount:
        return frozenset()
    amount += _current_bound(call, missed)
    wish = {"agent": name, "kind": missed.kind.value, "amount": amount, "tier": missed.tier or None}
    try:
        with call.ledger.savepoint():
            found = call_as(call, question.answered_by, "allocate_budget", wish)
    except HiveError as error:
        return tell_agents(call, (_party_name(call, question.answered_by),), error.reason)
    return found.wakes if isinstance(found, Record) else frozenset()


def _current_bound(call: Call, missed: Shortage) -> int:
    """What holds for an agent that has no bound of its own: more of it is more than that."""
    own = call.ledger.budgets.get(missed.agent, missed.kind) is not None
    if missed.kind not in SLIDING or own:
        return 0
    return sum(each.free for each in bounds(call, missed.agent, missed.kind)[:1])


def _answered_amount(answer: str | None) -> int:
    """What is no number is an answer to the agent, and no allocation."""
    word = (answer or "").strip()
    return int(word) if len(word) <= _DIGITS and word.isdecimal() else 0


def _party_name(call: Call, uuid: str) -> str | None:
    return uuid if uuid == OPERATOR else call.hive.name(uuid)


def _notify_workers(call: Call, purse: Budget, text: str) -> frozenset[str]:
    """The soft end: those who work on it, and whose it is, hear that they have to report now."""
    at_work = [
        uuid for uuid in drawing_agents(call, purse)
        if purse.kind in (*FUEL, *SLIDING) and call.ledger.tasks.open_tasks(uuid, 1)
    ]  # fmt: skip
    names = (call.hive.name(uuid) for uuid in dict.fromkeys((purse.agent, *at_work)))
    now = "report now what you have" if purse.kind in FUEL else "more of it is refused"
    if purse.kind in SLIDING:
        now = "until it is less, new tasks wait and tools are refused"
    return tell_agents(call, names, f"{text}\n{now}; you are told when there is more")


def _announce_refill(call: Call, purse: Budget, missed: Shortage) -> frozenset[str]:
    left = f"has {to_display(purse.kind, purse.free)} {UNITS[purse.kind]} again"
    if purse.kind in SLIDING:
        left = f"is kept again, {usage_text(call, purse)}"
    text = f"the {budget_title(purse)} of {owner_name(call.hive, purse)} {left}: go on"
    log_budget_event(call, purse, "filled", text)
    return tell_agents(call, (call.hive.name(purse.agent),), text) | resume_work(
        call, purse, missed
    )


def resume_work(call: Call, purse: Budget, missed: Shortage | None = None) -> frozenset[str]:
    """What waited for it in queues, or was stopped; its question is closed."""
    topics = frozenset().union(*(start_next(call, uuid) for uuid in drawing_agents(call, purse)))
    return (
        topics
        if missed is None
        else topics | withdraw_question(call, missed) | restart_machines(call, missed.stopped)
    )


def restart_machines(call: Call, stopped: Iterable[str]) -> frozenset[str]:
    """Machines that were stopped for it; who was started or stopped by somebody since is theirs."""
    topics = set[str]()
    for uuid in stopped:
        run = call.ledger.runs.get(uuid)
        if (
            call.hive.name(uuid)
            and run
            and (run.wanted, run.reason) == (DesiredState.STOPPED, BUDGET)
        ):
            call.ledger.runs.want(uuid, DesiredState.RUNNING, call.now, reason=BUDGET)
            topics.add(f"run:{uuid}")
    return frozenset(topics)


def withdraw_question(call: Call, missed: Shortage) -> frozenset[str]:
    """Nobody has to answer what was solved otherwise."""
    question = call.ledger.questions.get(missed.question) if missed.question else None
    if question is None or not question.open:
        return frozenset()
    reason = "there is more of it meanwhile"
    return end_question(
        call, question, end_without_answers(call, "cancel", by=DAEMON, reason=reason)
    )


def recheck_bound(call: Call, missed: Shortage) -> frozenset[str]:
    """Of a bound: whether it is kept now, with some room; else when to look again."""
    budgets = call.ledger.budgets
    found = [
        with_reported_use(call, each) for each in bounds(call, missed.agent, missed.kind)
        if each.agent == missed.agent
    ]  # fmt: skip
    bound = found[0] if found else Budget(missed.agent, missed.kind)
    share, shut = call.settings.budgets.warn, bool(found) and not bound.spent + bound.free
    if not shut and not bound.over and not bound.is_near_end(share):
        return end_shortage(call, bound)
    again = None
    if bound.kind is BudgetKind.TOKENS_PER_HOUR and not shut:
        hour = budgets.bounds.hour(bound.agent, call.now)[0]
        again = max(call.now + 1, hour.time_below(share * (bound.spent + bound.free)))
    budgets.save_shortage(replace(missed, stop_at=again))
    return frozenset({budget_topic(bound.agent)})


def tell_agents(call: Call, names: Iterable[str | None], text: str) -> frozenset[str]:
    """Each of them once; whoever is no more hears nothing."""
    topics = frozenset[str]()
    for name in dict.fromkeys(names):
        if name is not None:
            topics |= tell(call, call.hive, name, BUDGET, text)
    return topics
