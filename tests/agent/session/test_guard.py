"""When a turn goes in circles, and when it does not (row Q30)."""

from __future__ import annotations

from hive_core.agent.session.guard import TurnGuard


def test_the_third_equal_call_with_an_equal_result_is_one_too_many() -> None:
    guard = TurnGuard()
    assert guard.note_call("read", {"path": "a"}, "x") == ""
    assert guard.note_call("read", {"path": "a"}, "x") == ""
    assert "same call of read 3 times" in guard.note_call("read", {"path": "a"}, "x")


def test_another_call_argument_or_result_between_them_begins_the_count_anew() -> None:
    guard = TurnGuard()
    for arguments, content in (("a", "x"), ("a", "x"), ("b", "x"), ("a", "x"), ("a", "y")):
        assert guard.note_call("read", {"path": arguments}, content) == ""


def test_waiting_may_be_repeated() -> None:
    guard = TurnGuard()
    assert {guard.note_call("get_task", {}, "open") for _ in range(10)} == {""}


def test_two_texts_in_a_row_are_too_many_and_a_call_between_them_counts() -> None:
    guard = TurnGuard()
    assert guard.note_text() == ""
    guard.note_call("read", {}, "x")
    assert guard.note_text() == ""
    assert "2 texts without a call" in guard.note_text()


def test_failures_count_in_a_row_only() -> None:
    guard = TurnGuard()
    assert [guard.note_failure("503"), guard.note_failure("503")] == ["", ""]
    guard.note_answer()
    assert [guard.note_failure("503"), guard.note_failure("503")] == ["", ""]
    assert "3 times: 503" in guard.note_failure("503")
