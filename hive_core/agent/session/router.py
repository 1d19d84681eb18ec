"""Where a letter goes: into which conversation, as what, and whether it interrupts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from hive_core.agent.letter import ReceivedLetter
from hive_core.agent.session.inputs import message_text
from hive_core.agent.session.log import MAIN, task_conversation
from hive_core.agent.session.records import Record
from hive_core.agent.task_run import task_of

TASK, STOP, BUDGET, DEFINITION = "task", "task_stop", "budget", "definition"
_HEAD: Final = re.compile(r"^(attempt|context): (.*)$", re.MULTILINE)

Action = Literal["input", "task", "stop", "wake", "define", "drop"]
# What the session does itself. Facts that change nothing for the model are dropped: the next
# reminder has what is true by then.
_OWN_KINDS: Final[Mapping[str, Action]] = {
    BUDGET: "wake", DEFINITION: "define", "moved": "drop", "adopted": "drop", "restored": "drop",
    "config": "drop",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class RoutedLetter:
    """What is to be done with a letter. `conversation` empty: the one that runs, else main."""

    action: Action
    id: str
    conversation: str = ""
    task: str = ""
    attempt: int = 0
    record: Record = field(default_factory=dict)
    urgent: bool = False
    text: str = ""


def route(message: object) -> RoutedLetter:
    """Judge one message as `recv` gives it. Only the daemon's own letters are about tasks."""
    row = message if isinstance(message, dict) else {}
    letter = ReceivedLetter.of(row)
    task = task_of(letter)
    if letter.relation == "daemon":
        routed = _daemon_letter(row, letter, task)
        if routed is not None:
            return routed
    return RoutedLetter(
        "input", letter.id, _conversation(task), task, record=input_record(row, letter),
        urgent=row.get("priority") == 0,
    )  # fmt: skip


def _daemon_letter(
    row: dict[str, object], letter: ReceivedLetter, task: str
) -> RoutedLetter | None:
    """What the session does itself with a letter of the daemon; None: the model reads it."""
    if letter.kind == TASK and task:
        return _task_letter(row, letter, task)
    if letter.kind == STOP:
        why = letter.body.partition("\n\n")[2]
        return RoutedLetter("stop", letter.id, _conversation(task), task, text=why)
    action: Action | None = _OWN_KINDS.get(letter.kind)
    if action is not None:
        return RoutedLetter(action, letter.id, text=letter.body)
    return None


def _task_letter(row: dict[str, object], letter: ReceivedLetter, task: str) -> RoutedLetter:
    head = dict(_HEAD.findall(letter.body.partition("\n\n")[0]))
    attempt = int(head["attempt"]) if head.get("attempt", "").isdigit() else 1
    conversation = MAIN if head.get("context") == "keep" else _conversation(task)
    record = {
        **input_record(row, letter), "kind": TASK, "task": task, "attempt": attempt, "reply": False,
    }  # fmt: skip
    return RoutedLetter("task", letter.id, conversation, task, attempt, record)


def input_record(row: dict[str, object], letter: ReceivedLetter) -> Record:
    """The input record of a letter. `reply`: the text of the turn answers it."""
    return {
        "t": "input", "kind": "mail", "id": letter.id, "text": message_text(letter),
        "from": letter.sender, "thread": letter.thread, "reply": letter.answerable,
        "hops": row.get("hops") or 0,
    }  # fmt: skip


def _conversation(task: str) -> str:
    return task_conversation(task) if task else ""
