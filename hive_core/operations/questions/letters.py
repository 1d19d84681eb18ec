"""The letters about a question: a line of JSON for programs, then text.

Each line of an agent's text begins with `> `, so that readers can tell it from the daemon's text.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from typing import Final

from hive_core.broker.call import Call
from hive_core.ledger.mail.posting import one_line
from hive_core.model.wire.record import OPERATOR
from hive_core.model.work.question import Hop, HopReason, Question, QuestionKind, QuestionState
from hive_core.operations.approvals.outcome import display_name

SHORT: Final = 120
_S = QuestionState
_ENDED: Final = {
    _S.ANSWERED: "was answered by", _S.DEFAULTED: "was not answered in time: the defaults count",
    _S.EXPIRED: "was not answered in time", _S.CANCELLED: "was cancelled by",
}  # fmt: skip


def shorten(text: str, most: int = SHORT) -> str:
    """The beginning of a text on one line."""
    line = one_line(text[: 4 * most])
    return line if len(line) <= most else f"{line[: most - 1]}…"


def question_title(question: Question) -> str:
    """The first prompt on one line, and how many more there are."""
    more = f" (and {len(question.items) - 1} more)" if len(question.items) > 1 else ""
    return shorten(question.items[0].prompt) + more


def question_letter(call: Call, question: Question, hop: Hop) -> str:
    """The letter to the holder: the party that the question waits on now."""
    asker = display_name(call, question.asker)
    head: dict[str, object] = {
        "question": question.id, "kind": question.kind, "from": asker, "why": hop.why,
        "by": display_name(call, hop.by), "items": len(question.items),
        "deadline": question.deadline,
    }  # fmt: skip
    if question.severity:
        head["severity"] = question.severity
    if question.task:
        head["task"] = question.task
    lines = [_json(head), _opening(question, asker, head["by"], hop.why), *_items(question)]
    if question.context:
        lines += ["Context:", *quote_lines(question.context)]
    if question.deadline is not None:
        lines.append(f"Until {_utc_text(question.deadline)}, {_otherwise(question)}.")
    answers = " ".join("TEXT" for _ in question.items)
    if hop.holder == OPERATOR:
        return "\n".join([*lines, f"Answer: hive question answer {question.id} {answers}"])
    lines.append(f"Answer: hive-agent answer {question.id} {answers}")
    lines.append(f"Or pass it on: hive-agent relay-question {question.id}")
    return "\n".join(lines)


def answer_letter(call: Call, question: Question) -> str:
    """The letter to the asker: the answers, or the reason why there are none."""
    head = {
        "question": question.id, "kind": question.kind, "state": question.state,
        "by": display_name(call, question.answered_by), "answers": list(question.answers),
    }  # fmt: skip
    if question.task:
        head["task"] = question.task
    lines = [_json(head), outcome_line(call, question)]
    answers = question.answers or (None,) * len(question.items)
    for number, (item, answer) in enumerate(zip(question.items, answers, strict=True), 1):
        lines.append(f"{number}. {shorten(item.prompt)}")
        lines += ["   (no answer)"] if answer is None else quote_lines(answer)
    return "\n".join(lines)


def handover_letter(call: Call, question: Question, hop: Hop) -> str:
    """The letter to a former holder: the question waits on another party now."""
    holder = display_name(call, hop.holder)
    head = _json({"question": question.id, "kind": question.kind, "why": hop.why, "to": holder})
    return f"{head}\n{_noun(question)} waits on {holder} now: {question_title(question)}"


def closing_letter(call: Call, question: Question) -> str:
    """The letter to a former holder: the question has ended."""
    head = {"question": question.id, "kind": question.kind, "state": question.state}
    return f"{_json(head)}\n{outcome_line(call, question)}"


def outcome_line(call: Call, question: Question) -> str:
    """How a question ended, in one line."""
    by = display_name(call, question.answered_by)
    outcome = _ENDED[question.state]
    why = f": {shorten(question.reason)}" if question.reason else ""
    return f"{_noun(question)} {outcome}{f' {by}' if outcome.endswith('by') else ''}{why}"


def _noun(question: Question) -> str:
    return f"the {question.kind} {question.id}"


def _opening(question: Question, asker: str, by: object, why: HopReason) -> str:
    verb = "asks" if question.kind is QuestionKind.QUESTION else f"escalates ({question.severity})"
    more = {
        HopReason.ASKED: "", HopReason.RELAYED: f"; {by} passed it on to you",
        HopReason.CLIMBED: f"; {by} did not answer in time",
        HopReason.PASSED: f"; {by} can no longer answer it",
    }[why]  # fmt: skip
    return f"{asker} {verb}{more}:"


def _otherwise(question: Question) -> str:
    return "then the defaults count" if None not in question.defaults else "then it expires"


def _items(question: Question) -> Iterator[str]:
    for number, item in enumerate(question.items, 1):
        if len(question.items) > 1:
            yield f"{number}."
        yield from quote_lines(item.prompt)
        for letter, option in zip("abcd", item.options, strict=False):
            yield f"   {letter}) {one_line(option)}"
        if item.options:
            yield "   or any other text"
        if item.default is not None:
            yield f"   default: {one_line(item.default)}"


def quote_lines(text: str) -> list[str]:
    """The lines of an agent's text, each behind `> `."""
    return [f"> {one_line(line)}" for line in text.splitlines()] or ["> "]


def _utc_text(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(at))


def _json(head: Mapping[str, object]) -> str:
    return json.dumps(dict(head), ensure_ascii=False)
