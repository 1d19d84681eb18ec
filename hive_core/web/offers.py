"""What decides an item where it is listed: forms and links, else the command of the host that does.

An offer holds text of agents as it is; the template shows it as such. Its forms post to the
addresses to which the pages of the items post as well.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import quote

from hive_core.services.replies import rows_of
from hive_core.varlink import Message
from hive_core.web.rendering import format_duration, format_number, item_key, split_letter
from hive_core.web.visit import Visit

Item = Mapping[str, object]
OFFERED_MOST: Final = 50  # items with an offer; the others have their pages
_OPTION_MOST: Final = 60  # characters of an answer on a button
_MILLIONTHS: Final = 1_000_000
_LETTERS: Final = 3
_LETTER_MOST: Final = 120  # characters of a letter


@dataclass(frozen=True, slots=True)
class DecisionForm:
    """`field` is typed, with this `label`; `key` is the key that leads to it; `is_folded`: it asks
    for more before it acts."""

    address: str
    button: str
    values: Mapping[str, str] = field(default_factory=dict)
    field: str = ""
    label: str = ""
    key: str = ""
    is_folded: bool = False


@dataclass(frozen=True, slots=True)
class Offer:
    """`said` is text of an agent; `command` settles the item on the host."""

    facts: tuple[str, ...] = ()
    said: str = ""
    forms: tuple[DecisionForm, ...] = ()
    links: tuple[tuple[str, str], ...] = ()  # what is shown, and the address
    command: str = ""


OfferMaker = Callable[[Visit, Item], Awaitable[Offer]]


async def list_offers(visit: Visit, items: Sequence[Item]) -> dict[str, Offer]:
    """The offers of the first items, by the id of their row. A viewer has none."""
    if not visit.login.may("operator"):
        return {}
    first = items[:OFFERED_MOST]
    offers = await asyncio.gather(*(_offer(visit, item) for item in first))
    return {item_key(item): offer for item, offer in zip(first, offers, strict=True)}


async def _offer(visit: Visit, item: Item) -> Offer:
    make = OFFERS.get(str(item.get("kind")))
    return Offer() if make is None else await make(visit, item)


async def _offer_answers(visit: Visit, id_: str) -> Offer:
    """The answers of a question with one part, and a field; with more parts it has its page."""
    reply = await visit.try_read("get_question", question=id_)
    question, items = _object(reply, "question"), rows_of(reply, "items")
    if len(items) != 1:
        return Offer(facts=(f"{len(items)} parts",)) if items else _refusal(reply)
    if question.get("budget"):
        return await _offer_top_up(visit, id_, question)
    options = items[0].get("options")
    chosen = [str(option) for option in options] if isinstance(options, list) else []
    buttons = [
        DecisionForm(_answer_address(id_), option, {"items": "1", "choice0": str(number)})
        for number, option in enumerate(chosen) if len(option) <= _OPTION_MOST
    ]  # fmt: skip
    return Offer(forms=(*buttons, _answer_field(id_)))


def _answer_number(id_: str, button: str, number: int) -> DecisionForm:
    return DecisionForm(_answer_address(id_), button, {"items": "1", "text0": str(number)})


def _answer_field(id_: str, label: str = "Answer") -> DecisionForm:
    return DecisionForm(_answer_address(id_), "Send", {"items": "1"}, "text0", label, "r")


def _answer_address(id_: str) -> str:
    return f"/questions/{_segment(id_)}/answer"


async def _offer_top_up(visit: Visit, id_: str, question: Message) -> Offer:
    """More of a budget that is used up, none, or an end of the work that draws on it."""
    agent, kind = str(question.get("asker")), str(question.get("budget"))
    usage = await visit.try_read("get_usage", agent=agent)
    budgets = [
        row for row in rows_of(usage, "budgets")
        if (row.get("agent"), row.get("kind"), row.get("task")) == (agent, kind, "")
    ]  # fmt: skip
    amount = top_up_amount(budgets[0]) if budgets else 0
    more = (_answer_number(id_, f"+{_amount_words(amount, kind)}", amount),) if amount else ()
    stop = DecisionForm(
        _action_address(agent, "stop-work"), "Stop work", field="reason", label="Reason",
        is_folded=True,
    )  # fmt: skip
    label = f"More {kind.replace('_', ' ')}: a number"
    facts = (f"{_amount_words(_number(budgets[0], 'spent'), kind)} spent",) if budgets else ()
    none = _answer_number(id_, "No more", 0)
    return Offer(facts, forms=(*more, none, _answer_field(id_, label), stop))


def top_up_amount(budget: Message) -> int:
    """A third of all that was given, as one digit and zeros."""
    third = (_number(budget, "spent") + max(0, _number(budget, "left"))) // 3
    size = int("1" + "0" * (len(str(third)) - 1))
    return third // size * size


def _amount_words(amount: int, kind: str) -> str:
    if kind == "money":
        return f"{amount / _MILLIONTHS:,.2f}"
    return format_duration(amount) if kind == "time" else format_number(amount)


async def _offer_plan(visit: Visit, task: str) -> Offer:
    reply = await visit.try_read("list_plans", task=task)
    plans = rows_of(reply, "plans")
    if not plans:
        return _refusal(reply)
    steps = plans[0].get("steps")
    count = len(steps) if isinstance(steps, list) else 0
    reject = DecisionForm(
        f"/plans/{_segment(task)}/reject", "Reject", {"plan": str(plans[0].get("plan"))},
        "reason", "Reason", "d", is_folded=True,
    )  # fmt: skip
    return Offer((f"{count} step{'s' * (count != 1)}",), forms=(reject,))


async def _offer_verdict(visit: Visit, task: str) -> Offer:
    """What the agent delivered, and the two verdicts."""
    reply = await visit.try_read("get_task", task=task)
    row, delivered = _object(reply, "task"), _object(reply, "delivered")
    if not row:
        return _refusal(reply)
    address, attempt = f"/tasks/{_segment(task)}/judge", {"attempt": str(row.get("attempt"))}
    accept = DecisionForm(address, "Accept", {**attempt, "verdict": "accept"})
    retry = DecisionForm(
        address, "Give back", {**attempt, "verdict": "retry"}, "feedback", "What is missing", "d",
        is_folded=True,
    )  # fmt: skip
    facts = f"attempt {row.get('attempt')}", str(delivered.get("status", ""))
    return Offer(facts, str(delivered.get("summary", "")), (accept, retry))


async def _offer_denial(visit: Visit, id_: str) -> Offer:
    """What the change gives, and a no; a yes has its page, with the whole difference."""
    reply = await visit.try_read("get_approval", id=id_, limit=1)
    row = _object(reply, "approval")
    if not row:
        return _refusal(reply)
    gives = [f"gives {mark.get('name')}" for mark in rows_of(reply, "marks") if mark.get("gives")]
    deny = DecisionForm(
        f"/approvals/{_segment(id_)}/deny", "Deny", field="reason", label="Reason", key="d",
        is_folded=True,
    )  # fmt: skip
    return Offer((*gives, f"by {row.get('requester')}"), forms=(deny,))


async def _offer_start(_visit: Visit, agent: str) -> Offer:
    start = DecisionForm(_action_address(agent, "start"), "Start")
    return Offer(forms=(start,), links=(("Logs", f"/agents/{_segment(agent)}/logs"),))


async def _offer_lift(_visit: Visit, agent: str) -> Offer:
    return Offer(forms=(DecisionForm(_action_address(agent, "lift"), "Lift"),))


async def _offer_clearing(visit: Visit, item: Item) -> Offer:
    """The first dead letters, and an end of those that the row counts: later ones stay."""
    agent = str(item.get("id"))
    reply = await visit.try_read("list_messages", agent=agent, dead=True, limit=_LETTERS)
    facts = [
        f"from {letter.get('from')}: {letter.get('dead_why')}"
        for letter in rows_of(reply, "messages")
    ]
    if not item.get("as_of"):  # an older hived does not say it
        return Offer(tuple(facts))
    counted = {"as_of": str(item["as_of"])}
    clear = DecisionForm(_action_address(agent, "clear-dead"), "Clear", counted)
    return Offer(tuple(facts), forms=(clear,))


async def _offer_reading(visit: Visit, item: Item) -> Offer:
    """The first letters, and an end of those that the row counts: later ones stay."""
    reply = await visit.try_read("list_messages", limit=_LETTERS)
    facts = [
        f"from {letter.get('from')}: {_beginning(letter.get('body'))}"
        for letter in rows_of(reply, "messages")
    ]
    if not item.get("up_to"):
        return Offer(tuple(facts))
    read = DecisionForm("/mail/read", "Mark read", {"up_to": str(item["up_to"])})
    return Offer(tuple(facts), forms=(read,))


def _beginning(body: object) -> str:
    """The first words of a letter on one line."""
    _, text = split_letter(body)
    return " ".join(text[:_LETTER_MOST].split())


def _by_id(make: Callable[[Visit, str], Awaitable[Offer]]) -> OfferMaker:
    """What an item offers that only its id decides."""

    async def offer(visit: Visit, item: Item) -> Offer:
        return await make(visit, str(item.get("id")))

    return offer


def _on_the_host(command: str) -> OfferMaker:
    async def offer(_visit: Visit, _item: Item) -> Offer:
        return Offer(command=command)

    return offer


def _refusal(reply: Message) -> Offer:
    """Why there is nothing to decide: hived does not have it any longer, or refuses to show it."""
    return Offer((str(reply.get("refused", "is over")),))


def _action_address(agent: str, action: str) -> str:
    return f"/agents/{_segment(agent)}/settle/{action}"


def _segment(text: str) -> str:
    return quote(text, safe="")


def _object(reply: Message, key: str) -> Message:
    value = reply.get(key)
    return value if isinstance(value, dict) else {}


def _number(row: Message, key: str) -> int:
    value = row.get(key)
    return value if isinstance(value, int) else 0


# What each kind of item offers.
OFFERS: Final[Mapping[str, OfferMaker]] = {
    "alarm": _on_the_host("hive doctor"), "quarantine": _by_id(_offer_lift),
    "escalation": _by_id(_offer_answers), "question": _by_id(_offer_answers),
    "plan": _by_id(_offer_plan), "judgement": _by_id(_offer_verdict),
    "approval": _by_id(_offer_denial), "parked": _by_id(_offer_start),
    "failed": _by_id(_offer_start), "refused_commit": _on_the_host("hive status"),
    "mail": _offer_reading, "dead_letters": _offer_clearing,
}  # fmt: skip
