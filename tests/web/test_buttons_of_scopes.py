"""A login sees the buttons of an agent that its scopes have, and no others."""

from __future__ import annotations

import re

import pytest
from fixtures.dashboard import FakeBrowser, RunningDashboard

OF_OPERATORS = {"sleep", "restart", "stop"}


@pytest.mark.usefixtures("browser")
@pytest.mark.parametrize(
    ("scopes", "actions"),
    [
        (["viewer"], set()),
        (["operator"], OF_OPERATORS),
        (["approver"], {"destroy"}),
        (["operator", "approver"], OF_OPERATORS | {"move", "destroy"}),
    ],
)
def test_a_login_has_the_buttons_of_its_scopes(
    web: RunningDashboard, scopes: list[str], actions: set[str]
) -> None:
    account = "-".join(["of", *scopes])
    web.hived.link(account, scopes)
    page = FakeBrowser(web, account).get("/agents/carl").text
    assert set(re.findall('data-action="([a-z]+)"', page)) - {"start", "resume"} == actions
