"""What all pages share follows hived."""

from __future__ import annotations

import time
from pathlib import Path

from hive_core.varlink import Message
from hive_core.web.hub import EVENTS_KEPT, Hub, Renderers
from hive_core.web.logins import Logins
from hive_core.web.reads import SharedReads


def test_mail_that_hived_does_not_list_changes_the_pages_of_its_parties(tmp_path: Path) -> None:
    """And the list of what waits, where the operator is one of them."""
    renderers = Renderers(str, lambda item: (str(item), ""), lambda item: (str(item), ""))
    hub = Hub(Logins(tmp_path, time.monotonic), renderers, SharedReads(time.monotonic).forget)
    listed = {"seq": 9, "operation": "send", "caller": "bob", "target": "carl"}
    page: Message = {"events": [listed], "next": "9"}

    hub._take_events({**page, "skipped": {"count": 3, "parties": ["dora"]}}, is_first=False)
    assert hub._parties == {"bob", "carl", "dora"}
    assert not hub._stale.is_set()

    hub._take_events({**page, "skipped": {"count": 1, "parties": ["operator"]}}, is_first=False)
    assert hub._stale.is_set()


def test_a_page_of_the_audit_log_learns_how_much_mail_is_not_shown(tmp_path: Path) -> None:
    renderers = Renderers(str, lambda item: (str(item), ""), lambda item: (str(item["seq"]), ""))
    hub = Hub(Logins(tmp_path, time.monotonic), renderers, SharedReads(time.monotonic).forget)
    refused = {"seq": 1, "kind": "refusal", "operation": "send", "caller": "bob", "target": "carl"}
    mail = [{**refused, "seq": at + 2, "kind": "record"} for at in range(EVENTS_KEPT)]

    hub._take_events({"events": [refused, *mail], "skipped": {"count": 3}}, is_first=False)

    events, left_out = hub._feed.take()
    assert (events[0], len(events), left_out) == (refused, EVENTS_KEPT, 4)
