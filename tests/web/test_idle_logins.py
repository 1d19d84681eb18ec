"""A login ends where nobody uses it, whatever a page that was left open reads meanwhile."""

from __future__ import annotations

from fixtures.dashboard import FakeBrowser, RunningDashboard
from fixtures.world import rows

from hive_core.model.wire.record import OPERATOR

HOUR = 3600.0


def last_use(web: RunningDashboard) -> float:
    (login,) = rows(web.hived.call(OPERATOR, "list_logins")["logins"])
    return float(str(login["used"]))


def test_an_open_page_does_not_keep_a_login_from_ending_and_a_person_does(
    web: RunningDashboard,
) -> None:
    browser = FakeBrowser(web)
    opened = last_use(web)
    web.hived.pass_time(HOUR)
    script = {"cookie": browser.cookie, "sec-fetch-dest": "empty"}
    with web.connect() as stream:
        stream.sendall(web.request("GET", "/live?topics=attention", accept_encoding=None, **script))
        data = stream.recv(1 << 16)
        web.hived.call("root", "send", to=OPERATOR, body="hello")
        while b"event: attention" not in data:  # hive-web has read what waits
            part = stream.recv(1 << 16)
            assert part, data
            data += part
    assert "carl" in web.ask("GET", "/tree/rows", **script).text
    assert "/mail/read" in web.ask("GET", "/attention/rows", **script).text
    assert last_use(web) == opened
    assert browser.get("/tree", sec_fetch_dest="document").status == 200
    assert last_use(web) >= opened + HOUR
