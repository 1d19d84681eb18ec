"""Events on their way to the pages of the audit log."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hive_core.operations.audit import event_filter
from hive_core.web.audit_feed import MAIL, AuditFeed, Event

EVENTS = st.lists(
    st.tuples(st.sampled_from(["send", "start"]), st.sampled_from(["record", "refusal"]))
)


def test_hive_web_takes_for_mail_what_hived_leaves_out() -> None:
    assert MAIL == event_filter.MAIL


@given(st.lists(st.tuples(EVENTS, st.integers(0, 5)), max_size=6), st.integers(1, 8))
def test_the_newest_are_shown_and_the_others_are_counted_mail_first(
    pages: list[tuple[list[tuple[str, str]], int]], most: int
) -> None:
    feed, came, left_out = AuditFeed(most), list[Event](), 0
    for page, skipped in pages:
        events = [{"seq": len(came) + at, "operation": operation, "kind": kind}
                  for at, (operation, kind) in enumerate(page)]  # fmt: skip
        came += events
        left_out += skipped
        feed.add(events, skipped)
    shown, missing = feed.take()

    assert shown == [event for event in came if event in shown]
    assert len(shown) <= most
    assert missing == left_out + len(came) - len(shown)
    others = [event for event in came if (event["operation"], event["kind"]) != ("send", "record")]
    assert [event for event in shown if event in others] == others[-most:]
    assert feed.take() == ([], 0)
