"""Letters to the operator, more of them than hived acknowledges in one call."""

from __future__ import annotations

from fixtures.dashboard import FakeBrowser, RunningDashboard
from fixtures.messages import letter
from fixtures.world import World, rows

from hive_core.model.wire.record import DAEMON, OPERATOR


def send_many(world: World) -> None:
    """By the daemon, which may fill an inbox twice."""
    with world.ledger.transaction():
        for _ in range(1001):
            world.ledger.messages.send(letter(DAEMON, OPERATOR), world.clock.now())


def mail_rows(web: RunningDashboard) -> list[dict[str, object]]:
    items = rows(web.hived.call(OPERATOR, "todo")["todo"])
    return [item for item in items if item["kind"] == "mail"]


def test_one_click_marks_all_letters_however_many_wait(web: RunningDashboard) -> None:
    web.hived.do(send_many)
    (item,) = mail_rows(web)
    browser = FakeBrowser(web)
    assert browser.post("/mail/read", {"up_to": str(item["up_to"])}).status == 303
    assert mail_rows(web) == []
