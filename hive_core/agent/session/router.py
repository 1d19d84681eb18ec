"""Where a letter goes: into which conversation, as what, and whether it interrupts."""

from __future__ import annotations

import json
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
TRIGGER: Final = "trigger"
ANSWER: Final = "answer"
PHASE, SKILL, SEGMENT = "phase", "skill", "segment"
INJECTED: Final = "inject"
# They may inject messages. Of these the daemon itself writes the source: the task.
_ABOVE: Final = frozenset({"operator", "parent", "ancestor"})
_BELOW: Final = frozenset({"daemon", "child", "descendant"})
_HEAD: Final = re.compile(r"^(attempt|context): (.*)$", re.MULTILINE)

# Prompts that say what to do with a letter. Others than these write no such kind.
_NOTES: Final[Mapping[tuple[str, str], str]] = {
    ("daemon", "plan_submitted"): "plan_request", ("daemon", "plan_approved"): "plan_decision",
    ("daemon", "plan_rejected"): "plan_decision", ("self", "wake"): "wake",
}  # fmt: skip

Action = Literal["input", "task", "stop", "wake", "define", "remind", "judge", "drop"]
# What the session does itself. Facts that change nothing for the model are dropped: the next
# reminder has what is true by then.
_OWN_KINDS: Final[Mapping[str, Action]] = {
    BUDGET: "wake", DEFINITION: "define", SKILL: "define", SEGMENT: "define",
    "moved": "drop", "adopted": "drop",
    "judge": "judge", "restored": "drop", "config": "drop", "credentials": "remind",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class RoutedLetter:
    """What is to be done with a letter. `conversation` empty: the one that runs, else main.

    `wakes`: a paused task may wait for it.
    """

    action: Action
    id: str
    conversation: str = ""
    task: str = ""
    attempt: int = 0
    record: Record = field(default_factory=dict)
    urgent: bool = False
    wakes: bool = False
    text: str = ""
    kind: str = ""


def route(message: object) -> RoutedLetter:
    """Judge one message as `recv` gives it. Only the daemon's own letters are about tasks."""
    row = message if isinstance(message, dict) else {}
    letter = ReceivedLetter.of(row)
    task = task_of(letter) or _injected_task(letter)
    if letter.relation == "daemon":
        routed = _daemon_letter(row, letter, task)
        if routed is not None:
            return routed
    # The next request is to be one of the new phase.
    moves = letter.relation == "daemon" and letter.kind == PHASE
    record = input_record(row, letter)
    return RoutedLetter(
        "input", letter.id, _conversation(task), task,
        record={**record, "phase": True} if moves else record,
        urgent=moves or row.get("priority") == 0, wakes=_may_wake(row, letter),
    )  # fmt: skip


def _injected_task(letter: ReceivedLetter) -> str:
    """The task that a message into running work is for; empty for other mail."""
    return letter.source if letter.kind == INJECTED and letter.relation in _ABOVE else ""


def _may_wake(row: dict[str, object], letter: ReceivedLetter) -> bool:
    """Whether the letter is about work that the agent assigned, or ends one of its waits."""
    return letter.kind != TRIGGER and (letter.relation in _BELOW or bool(row.get("wait_id")))


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
    if letter.kind == ANSWER and _ended_with_its_task(letter):
        action = "drop"
    if action is not None:
        return RoutedLetter(action, letter.id, task=task, text=letter.body, kind=letter.kind)
    return None


def _ended_with_its_task(letter: ReceivedLetter) -> bool:
    """Whether this is about a question that the daemon cancelled: no turn is left that waits."""
    try:
        head = json.loads(letter.body.partition("\n")[0])
    except ValueError:
        return False
    return isinstance(head, dict) and (head.get("state"), head.get("by")) == ("cancelled", "daemon")


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
    record: Record = {
        "t": "input", "kind": "mail", "id": letter.id, "text": message_text(letter),
        "from": letter.sender, "thread": letter.thread, "reply": letter.answerable,
        "hops": row.get("hops") or 0,
    }  # fmt: skip
    note = _NOTES.get((letter.relation, letter.kind))
    return {**record, "note": note, "letter": letter.kind} if note else record


def _conversation(task: str) -> str:
    return task_conversation(task) if task else ""
