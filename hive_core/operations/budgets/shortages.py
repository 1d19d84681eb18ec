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
from hive_core.broker.delegation import on_behalf
from hive_core.broker.hooks import Settled, when
from hive_core.errors import HiveError, InboxFull, LimitReached, NotAllowed, NotFound
from hive_core.ledger.budgets.storage import Shortage
from hive_core.model.agents.machine import DesiredState
from hive_core.model.wire.record import DAEMON, OPERATOR
from hive_core.model.work.budget import BOUNDS, FUEL, UNITS, Budget, BudgetKind, to_display
from hive_core.model.work.question import QuestionItem
from hive_core.operations.budgets.payer_budget import (
    BUDGET,
    SLIDING,
    amounts,
    bounds,
    note,
    owner,
    seen,
    tier_of,
    title,
    topic,
    who_gives,
)
from hive_core.operations.notices import tell
from hive_core.operations.questions.transitions import Wish, end_question, finish, put_question
from hive_core.operations.tasks.offers import start_next

_DIGITS: Final = 18


def paid(call: Call, purse: Budget) -> frozenset[str]:
    """Keep a purse out of which something was paid; what follows, and the topics to touch."""
    budgets = call.ledger.budgets
    touched = frozenset({topic(purse.agent)})
    if purse.empty and budgets.shortage(purse) is None:
        budgets.keep(replace(purse, warned=True))
        return touched | short(call, purse)
    if purse.is_near_end(call.settings.budgets.warn) and not purse.warned:
        budgets.keep(replace(purse, warned=True))
        return touched | warn(call, purse)
    budgets.keep(purse)
    return touched


def filled(call: Call, purse: Budget, amount: int) -> frozenset[str]:
    """Put something in; what was parked for want of it goes on."""
    budgets = call.ledger.budgets
    found = purse.with_added(amount)
    low = found.is_near_end(call.settings.budgets.warn)
    budgets.keep(replace(found, warned=found.warned and low))
    topics = frozenset({topic(purse.agent)})
    return topics if found.empty else topics | lifted(call, found, queued=purse.empty)


def lifted(call: Call, purse: Budget, *, queued: bool = False) -> frozenset[str]:
    """There is something in it, or below the bound: whoever was short of it goes on."""
    budgets = call.ledger.budgets
    missed = budgets.shortage(purse)
    if missed is None:  # one emptied by giving: what is queued waited for it all the same
        return go_on(call, purse) if queued and purse.kind in FUEL else frozenset()
    budgets.relieved(purse)
    return _resume(call, purse, missed)


def drawing(call: Call, purse: Budget, known: Collection[str] | None = None) -> Iterator[str]:
    """Who draws on it: the agent and those below it that have none of their own.

    A bound of tokens an hour holds for all below, one of a context for the agent alone. `known`:
    who has one of this kind and tier, where that was read already.
    """
    if purse.kind is BudgetKind.CONTEXT:
        yield purse.agent
        return
    name = call.hive.name(purse.agent)
    own = known if known is not None else _owners(call, purse)
    waiting = [] if name is None else [name]
    while waiting:
        name = waiting.pop()
        uuid = call.hive.spec(name).id
        if uuid != purse.agent and uuid in own:
            continue
        waiting.extend(call.hive.topology.children(name))
        if not purse.tier or purse.tier == tier_of(call.hive, uuid):
            yield uuid


def _owners(call: Call, purse: Budget) -> Collection[str]:
    if purse.kind in BOUNDS:
        return ()
    return {each.agent for each in call.ledger.budgets.every(purse.kind, purse.tier)}


def warn(call: Call, purse: Budget) -> frozenset[str]:
    """It runs low: the agent and who can give more are told."""
    how = "is nearly reached" if purse.kind in BOUNDS else "runs low"
    text = f"the {title(purse)} of {owner(call.hive, purse)} {how}: {amounts(call, purse)}"
    note(call, purse, "low", text)
    return told(call, (call.hive.name(purse.agent), who_gives(call, purse)), text)


def short(call: Call, purse: Budget) -> frozenset[str]:
    """It is empty: who can give more is asked, and the time of what works on it is running.

    Work on a bound is not stopped.
    """
    whose, giver = owner(call.hive, purse), who_gives(call, purse)
    stop_ = call.settings.budgets.stop
    how = "is reached" if purse.kind in BOUNDS else "is used up"
    text = f"the {title(purse)} of {whose} {how}: {amounts(call, purse)}"
    note(call, purse, "used_up", text)
    ends = call.now + stop_ if purse.kind in FUEL and stop_ else None
    question, topics = _ask(call, purse, giver, text)
    call.ledger.budgets.short(
        Shortage(purse.agent, purse.kind, purse.tier, call.now, giver, question, ends, ())
    )
    return topics | _notice(call, purse, text)


def _ask(call: Call, purse: Budget, giver: str, text: str) -> tuple[str, frozenset[str]]:
    """A question of the agent's to who can give more; where it may not ask, a message."""
    unit = UNITS[purse.kind]
    prompt = f"{text}. How many {unit} more? Answer with a number; 0 is none."
    try:
        with call.ledger.savepoint():
            wish = Wish((QuestionItem(prompt),), context=text)
            asked, topics = put_question(call, purse.agent, giver, wish)
    except (InboxFull, LimitReached, NotAllowed, NotFound, KeyError):
        tier = f" tier={purse.tier}" if purse.tier else ""
        more = f"agent={owner(call.hive, purse)} kind={purse.kind.value}{tier} amount=..."
        return "", told(call, (giver,), f"{text}\nmay it have more? allocate_budget {more}")
    return asked.id, topics


@when(Settled)
def _answered(call: Call, what: Settled) -> frozenset[str]:
    """A number is an allocation by who answered, with its rights as they are now."""
    question = what.question
    missed = call.ledger.budgets.asked(question.id)
    amount = _number(question.answers[0]) if question.answers else 0
    name = None if missed is None else call.hive.name(missed.agent)
    if missed is None or name is None or not amount:
        return frozenset()
    amount += _without(call, missed)
    wish = {"agent": name, "kind": missed.kind.value, "amount": amount, "tier": missed.tier or None}
    try:
        with call.ledger.savepoint():
            found = on_behalf(call, question.answered_by, "allocate_budget", wish)
    except HiveError as error:
        return told(call, (_party(call, question.answered_by),), error.reason)
    return found.wakes if isinstance(found, Record) else frozenset()


def _without(call: Call, missed: Shortage) -> int:
    """What holds for an agent that has no bound of its own: more of it is more than that."""
    own = call.ledger.budgets.get(missed.agent, missed.kind) is not None
    if missed.kind not in SLIDING or own:
        return 0
    return sum(each.free for each in bounds(call, missed.agent, missed.kind)[:1])


def _number(answer: str | None) -> int:
    """What is no number is an answer to the agent, and no allocation."""
    word = (answer or "").strip()
    return int(word) if len(word) <= _DIGITS and word.isdecimal() else 0


def _party(call: Call, uuid: str) -> str | None:
    return uuid if uuid == OPERATOR else call.hive.name(uuid)


def _notice(call: Call, purse: Budget, text: str) -> frozenset[str]:
    """The soft end: those who work on it, and whose it is, hear that they have to report now."""
    at_work = [
        uuid for uuid in drawing(call, purse)
        if purse.kind in (*FUEL, *SLIDING) and call.ledger.tasks.open_tasks(uuid, 1)
    ]  # fmt: skip
    names = (call.hive.name(uuid) for uuid in dict.fromkeys((purse.agent, *at_work)))
    now = "report now what you have" if purse.kind in FUEL else "more of it is refused"
    if purse.kind in SLIDING:
        now = "until it is less, new tasks wait and tools are refused"
    return told(call, names, f"{text}\n{now}; you are told when there is more")


def _resume(call: Call, purse: Budget, missed: Shortage) -> frozenset[str]:
    left = f"has {to_display(purse.kind, purse.free)} {UNITS[purse.kind]} again"
    if purse.kind in SLIDING:
        left = f"is kept again, {amounts(call, purse)}"
    text = f"the {title(purse)} of {owner(call.hive, purse)} {left}: go on"
    note(call, purse, "filled", text)
    return told(call, (call.hive.name(purse.agent),), text) | go_on(call, purse, missed)


def go_on(call: Call, purse: Budget, missed: Shortage | None = None) -> frozenset[str]:
    """What waited for it in queues, or was stopped; its question is closed."""
    topics = frozenset().union(*(start_next(call, uuid) for uuid in drawing(call, purse)))
    return (
        topics
        if missed is None
        else topics | answered(call, missed) | up_again(call, missed.stopped)
    )


def up_again(call: Call, stopped: Iterable[str]) -> frozenset[str]:
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


def answered(call: Call, missed: Shortage) -> frozenset[str]:
    """Nobody has to answer what was solved otherwise."""
    question = call.ledger.questions.get(missed.question) if missed.question else None
    if question is None or not question.open:
        return frozenset()
    reason = "there is more of it meanwhile"
    return end_question(call, question, finish(call, "cancel", by=DAEMON, reason=reason))


def looked_again(call: Call, missed: Shortage) -> frozenset[str]:
    """Of a bound: whether it is kept now, with some room; else when to look again."""
    budgets = call.ledger.budgets
    found = [
        seen(call, each) for each in bounds(call, missed.agent, missed.kind)
        if each.agent == missed.agent
    ]  # fmt: skip
    bound = found[0] if found else Budget(missed.agent, missed.kind)
    share, shut = call.settings.budgets.warn, bool(found) and not bound.spent + bound.free
    if not shut and not bound.over and not bound.is_near_end(share):
        return lifted(call, bound)
    again = None
    if bound.kind is BudgetKind.TOKENS_PER_HOUR and not shut:
        hour = budgets.bounds.hour(bound.agent, call.now)[0]
        again = max(call.now + 1, hour.below(share * (bound.spent + bound.free)))
    budgets.short(replace(missed, stop_at=again))
    return frozenset({topic(bound.agent)})


def told(call: Call, names: Iterable[str | None], text: str) -> frozenset[str]:
    """Each of them once; whoever is no more hears nothing."""
    topics = frozenset[str]()
    for name in dict.fromkeys(names):
        if name is not None:
            topics |= tell(call, call.hive, name, BUDGET, text)
    return topics
