"""What needs no login says that hived is away, and what no browser sends is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest
from fixtures.dashboard import (
    FakeBrowser,
    RunningDashboard,
    ServedDashboard,
    free_socket,
    served_dashboard,
)

DEEP = "[" * 20_000
LONG_NUMBER = "9" * 5000


@pytest.fixture
def lonely(tmp_path: Path) -> Iterator[ServedDashboard]:
    """hive-web while there is no hived."""
    with served_dashboard(tmp_path / "login.sock", free_socket()) as made:
        yield made


def test_without_hived_nobody_is_told_that_a_login_is_refused(lonely: ServedDashboard) -> None:
    body = urlencode({"secret": "link_x"}).encode()
    answers = [
        lonely.ask("POST", "/login/passkey"), lonely.ask("POST", "/login", body),
        lonely.ask("GET", "/link/no_x"), lonely.ask("POST", "/link/no_x"),
    ]  # fmt: skip
    assert [answer.status for answer in answers] == [503] * 4
    assert "cannot reach" in json.loads(answers[0].body)["error"], "the script shows it"
    assert all("cannot reach" in answer.text for answer in answers)
    assert "does nothing" not in answers[2].text
    assert "default-src 'none'" in answers[0].headers["content-security-policy"]


def test_what_cannot_be_read_is_no_assertion(web: RunningDashboard) -> None:
    answer = web.ask("POST", "/login", urlencode({"assertion": DEEP}).encode())
    assert answer.status == 400
    assert "not an assertion" in answer.text


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("/questions/q/answer", {"items": LONG_NUMBER}),
        ("/confirm", {"operation": "approve", "parameters": DEEP, "nonce": "n"}),
    ],
)
def test_what_no_page_sends_is_refused(
    browser: FakeBrowser, path: str, fields: dict[str, str]
) -> None:
    assert browser.post(path, fields).status in (400, 404)
