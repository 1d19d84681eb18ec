"""hive question, escalations, remind, reminders: their calls and their output."""

from __future__ import annotations

import json
import time

import click
import pytest
from cli.run import Hive
from each import for_each

from hive_core.cli.config.approval_page import BAR
from hive_core.cli.core.parameters import TIME
from hive_core.cli.core.units import parse_duration
from hive_core.errors import Conflict, HiveError
from hive_core.varlink import Message

ID = "0123456789ab"
ROW: Message = {
    "id": ID, "kind": "question", "state": "open", "severity": "", "asker": "carl",
    "asker_uuid": "u", "to": "operator", "prompt": "Red?", "items": 2, "task": "",
    "asked": 1.0, "deadline": None, "climbs": None, "answered_by": "", "ended": None, "reason": "",
}  # fmt: skip
BURNS: Message = {**ROW, "id": "b" * 12, "kind": "escalation", "severity": "critical"}
SHOWN: Message = {
    "question": ROW, "context": "two\nlines\u202e",
    "items": [
        {"prompt": "Red?\nor not", "options": ["yes", "no"], "default": None, "answer": None},
        {"prompt": "Why?", "options": [], "default": "because", "answer": None},
    ],
    "hops": [
        {"to": "bob", "at": 1.0, "by": "carl", "why": "asked"},
        {"to": "operator", "at": 2.0, "by": "bob", "why": "relayed"},
    ],
}  # fmt: skip


def refuse(error: HiveError) -> Message:
    raise error


def test_open_questions_are_listed(hive: Hive) -> None:
    hive.peer.answers["ListQuestions"] = lambda _: {"questions": [ROW, BURNS], "next": None}
    for words in (("question",), ("question", "list")):
        done = hive(*words)
        assert done.status == 0
        assert all(text in done.out for text in (ID, "carl", "Red?", "escalation"))
    assert hive.peer.params_of("ListQuestions")[-1] == {"open": True}
    hive("question", "list", "--all", "--ended")
    assert hive.peer.params_of("ListQuestions")[-1] == {"which": "subtree", "open": False}
    assert json.loads(hive("question", "list", "-o", "json").out) == [ROW, BURNS]


def test_escalations_are_listed_apart(hive: Hive) -> None:
    hive.peer.answers["ListQuestions"] = lambda _: {"questions": [ROW, BURNS], "next": None}
    assert json.loads(hive("escalations", "-o", "json").out) == [BURNS]
    assert "critical" in hive("escalations").out
    assert hive("escalations", "-o", "name").out == f"{'b' * 12}\n"


def test_the_page_shows_asker_question_task_and_the_answer_command(hive: Hive) -> None:
    hive.peer.answers["GetQuestion"] = lambda _: SHOWN
    done = hive("question", "show", ID)
    assert done.status == 0
    for text in (
        "asked by   carl", "waited for bob", "(relayed, from bob)", f"{BAR}Red?", f"{BAR}or not",
        "  or       yes", "  default  because", f"{BAR}lines⟨U+202E⟩",
        f"hive question answer {ID} TEXT TEXT",
    ):  # fmt: skip
        assert text in done.out, text
    assert json.loads(hive("question", "show", ID, "-o", "json").out) == SHOWN
    assert hive("question", "show", ID, "-o", "name").out == f"{ID}\n"


def test_one_answer_is_sent_for_each_item(hive: Hive) -> None:
    hive.peer.answers["Answer"] = lambda _: {"question": ID, "state": "answered", "asker": "carl"}
    done = hive("question", "answer", ID, "yes", "for joy")
    assert (done.status, done.out) == (0, "")
    asked = hive.peer.params_of("Answer")[0]
    assert (asked["question"], asked["answers"]) == (ID, ["yes", "for joy"])
    hive.peer.answers["Answer"] = lambda _: refuse(Conflict("it was answered by bob (no)"))
    late = hive("question", "answer", ID, "yes")
    assert late.status == 1
    assert "answered by bob" in late.err
    assert hive("question", "answer", ID).status == 2


def test_a_question_is_relayed_and_cancelled(hive: Hive) -> None:
    hive.peer.answers["RelayQuestion"] = lambda _: {"question": ID, "to": "bob"}
    hive.peer.answers["CancelQuestion"] = lambda _: {
        "question": ID, "state": "cancelled", "asker": "carl",
    }  # fmt: skip
    assert "waits for bob" in hive("question", "relay", ID, "bob").err
    assert hive("question", "cancel", ID, "--why", "no").status == 0
    assert hive.peer.params_of("CancelQuestion")[0]["why"] == "no"


@pytest.mark.parametrize(
    ("words", "expected"), [(("--in", "2h"), ("in", 7200.0)), (("--at", "tomorrow"), None),
                         (("--at", "2000000000"), ("at", 2e9))]
)  # fmt: skip
def test_a_reminder_has_a_delay_or_a_time(
    hive: Hive, words: tuple[str, str], expected: tuple[str, float] | None
) -> None:
    hive.peer.answers["Remind"] = lambda _: {"reminder": ID, "due": 2e9}
    done = hive("remind", "carl", "look again", *words)
    if expected is None:
        assert done.status == 2
        return
    assert (done.status, done.out) == (0, f"{ID}\n")
    asked = hive.peer.params_of("Remind")[0]
    assert (asked["to"], asked["body"], asked[expected[0]]) == ("carl", "look again", expected[1])


def test_a_reminder_without_a_time_or_with_two_is_wrong_usage(hive: Hive) -> None:
    assert hive("remind", "carl", "x").status == 2
    assert hive("remind", "carl", "x", "--in", "5", "--at", "5").status == 2


def test_reminders_are_listed_and_cancelled(hive: Hive) -> None:
    row = {"id": ID, "to": "carl", "by": "operator", "body": "look", "due": 1.0, "relative": True,
           "made": 0.5}  # fmt: skip
    hive.peer.answers["ListReminders"] = lambda _: {"reminders": [row], "next": None}
    hive.peer.answers["CancelReminder"] = lambda _: {"reminder": ID, "to": "carl"}
    assert "look" in hive("reminders", "carl").out
    assert hive.peer.params_of("ListReminders")[0] == {"agent": "carl"}
    assert "carl does not get it" in hive("reminders", "--cancel", ID).err


@for_each(
    "text, value",
    [("90", 90), ("1.5m", 90), ("2h", 7200), ("3d", 259_200), ("1w", 604_800), ("1h30m", 5400)],
)
def test_durations_are_parsed(text: str, value: float) -> None:
    assert parse_duration(text) == value


@for_each("text", ["", "h", "-5", "5 m", "5y", "nan", "1e3", "1h 3", "1h30"])
def test_invalid_durations_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration"):
        parse_duration(text)


def test_times_of_day_are_local_unless_they_name_a_zone() -> None:
    local = time.mktime((2030, 1, 31, 9, 0, 0, 0, 0, -1))
    assert TIME.convert("2030-01-31T09:00", None, None) == local
    assert TIME.convert("2030-01-31T09:00+00:00", None, None) == 1_896_080_400
    for text in ("tomorrow", "2h"):
        with pytest.raises(click.UsageError):
            TIME.convert(text, None, None)
