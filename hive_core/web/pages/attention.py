"""What waits for the operator: the list, and the pages on which an item is decided."""

from __future__ import annotations

from itertools import groupby

from starlette.responses import Response

from hive_core.services.replies import rows_of
from hive_core.varlink import Message
from hive_core.web.offers import list_offers
from hive_core.web.rendering import place_of
from hive_core.web.visit import Visit, form_number, redirect, refuse_field

_DECIDED = (
    "approve", "deny", "answer", "approve_plan", "reject_plan", "judge_task", "lift_quarantine",
    "clear_dead_letters", "clear_inbox", "stop_work",
)  # fmt: skip
_SHOWN = 5
_DIGITS = 8  # of a commit, which are typed


async def show_attention(visit: Visit) -> Response:
    """The items, each with what decides it; where nothing waits, what was decided last."""
    hub, done = visit.web.hub, visit.web.done
    newest = hub.frames.newest  # a frame that comes while hived is read is not missed
    reply = await visit.login.connection.call("todo")
    settled = [
        event for event in hub.events if event.get("operation") in _DECIDED and event.get("allowed")
    ]
    rows = await _rows(visit, reply)
    count = await done.count(visit.web.clock(), visit.login.connection.call)
    return visit.page(
        "attention", "Attention", **rows, more=reply.get("more"), counts=hub.agents.counts(),
        working=hub.agents.count_working(), done=count, done_is_whole=done.is_whole,
        settled=settled[: -_SHOWN - 1 : -1], newest=newest,
    )  # fmt: skip


async def show_rows(visit: Visit) -> Response:
    """The rows alone, with the forms of this login, for rows that came without them."""
    return visit.page("attention_rows", "", **await _rows(visit, await visit.read("todo")))


async def _rows(visit: Visit, reply: Message) -> Message:
    items = rows_of(reply, "todo")
    drawn = [visit.web.renderer.todo_item(item) for item in items]
    return {"items": drawn, "offers": await list_offers(visit, items)}


async def show_next(visit: Visit) -> Response:
    """Go to the item that follows the one at the address `after`; else to the first."""
    items = rows_of(await visit.read("todo"), "todo")
    places = [place for item in items if (place := place_of(item))]
    after = visit.query.get("after", "")
    at = places.index(after) + 1 if after in places else 0
    return redirect(places[at % len(places)] if places else "/")


async def show_question(visit: Visit) -> Response:
    reply = await visit.read("get_question", question=visit.parts["id"])
    return visit.page("question", "Question", reply=reply, id=visit.parts["id"])


async def answer(visit: Visit) -> Response:
    """One answer for each part of the question: what was typed, else what was chosen."""
    id_, count = visit.parts["id"], form_number(visit, "items")
    if not 0 < count <= 64:  # noqa: PLR2004 - of the operation
        refuse_field("items", "is not a number of answers")
    typed = [visit.form.get(f"text{at}", "").strip() for at in range(count)]
    has_choice = any(visit.form.get(f"choice{at}") for at in range(count))
    details = await visit.read("get_question", question=id_) if has_choice else {}
    answers = [text or _choice(visit, details, at) for at, text in enumerate(typed)]
    return await visit.change("answer", "/", question=id_, answers=answers)


def _choice(visit: Visit, details: Message, at: int) -> str:
    """The answer whose number was chosen, exactly as it was offered; empty: none was."""
    field = f"choice{at}"
    if not visit.form.get(field):
        return ""
    number = form_number(visit, field)
    items = details.get("items")
    item = items[at] if isinstance(items, list) and at < len(items) else {}
    options = item.get("options") if isinstance(item, dict) else None
    offered = options if isinstance(options, list) else []
    if number >= len(offered):
        refuse_field(field, "is not the number of an offered answer")
    return str(offered[number])


async def show_plan(visit: Visit) -> Response:
    """The plan of a task that waits to be approved, and the plans before it."""
    plans = await visit.read("list_plans", task=visit.parts["id"])
    task = await visit.read("get_task", task=visit.parts["id"])
    return visit.page("plan", "Plan", plans=plans["plans"], task=task)


async def approve_plan(visit: Visit) -> Response:
    task, plan = visit.parts["id"], visit.form.get("plan", "")
    return await visit.change("approve_plan", "/", task=task, plan=plan)


async def reject_plan(visit: Visit) -> Response:
    task, plan = visit.parts["id"], visit.form.get("plan", "")
    return await visit.change("reject_plan", "/", task=task, plan=plan, reason=_reason(visit))


async def show_approval(visit: Visit) -> Response:
    """The page of `hive approval show` in its order; the buttons follow the last line."""
    after = visit.query.get("after")
    reply = await visit.read("get_approval", id=visit.parts["id"], after=after)
    row, files = _row(reply), difference(reply)
    return visit.page(
        "approval" if after is None else "approval_lines", "Approval", reply=reply, files=files,
        row=row, next=reply.get("next"), more=bool(reply.get("next")), after=after,
        is_open=bool(row.get("state") == "pending" and row.get("commit")),
    )  # fmt: skip


async def approve(visit: Visit) -> Response:
    """Each thing that it gives has its tick, and the digits of the commit are typed."""
    reply = await visit.read("get_approval", id=visit.parts["id"], limit=1)
    granted = given_marks(reply)
    if any(visit.form.get(f"gives{at}") != "yes" for at in range(len(granted))):
        refuse_field("gives", "tick each thing that this gives")
    commit = visit.form.get("digits" if granted else "commit", "").strip().lower()
    is_typed = len(commit) >= _DIGITS and str(_row(reply).get("commit")).startswith(commit)
    if granted and not is_typed:
        refuse_field("digits", "type the first 8 digits of the commit, as the page shows them")
    return await visit.change("approve", "/", id=visit.parts["id"], commit=commit)


async def deny(visit: Visit) -> Response:
    return await visit.change("deny", "/", id=visit.parts["id"], why=_reason(visit))


def given_marks(reply: Message) -> list[Message]:
    """The marks of an approval that give something new."""
    marks = reply.get("marks")
    return [mark for mark in marks if mark.get("gives")] if isinstance(marks, list) else []


def _row(reply: Message) -> Message:
    row = reply["approval"]
    return row if isinstance(row, dict) else {}


def _reason(visit: Visit) -> str:
    reason = visit.form.get("reason", "").strip()
    return reason or refuse_field("reason", "say why")


def difference(reply: Message) -> list[tuple[str, list[Message]]]:
    """The changed lines by file; the parts of a long line are joined.

    A line that goes on in the next page is there with the part that this page has.
    """
    listed = reply.get("lines")
    rows: list[Message] = listed if isinstance(listed, list) else []
    whole: list[Message] = []
    rest = ""
    for number, row in enumerate(rows, 1):
        rest += str(row.get("text"))
        if not row.get("part") or number == len(rows):
            whole.append({**row, "text": rest})
            rest = ""
    return [(path, list(rows)) for path, rows in groupby(whole, lambda row: str(row.get("path")))]
