"""What hive-web keeps of the logins of its browsers while hived restarts."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest
from fixtures.fake_broker import Answer, FakeBroker, fake_broker

from hive_core.errors import NotAllowed, Unreachable
from hive_core.varlink import Message
from hive_core.web.logins import BrowserLogin, Logins

CREDENTIAL = "login_x"
FACTS: Message = {"credential": CREDENTIAL, "account": "ann", "scopes": ["viewer"]}


def _refuse(_: Message) -> Message:
    raise NotAllowed("the login has ended")


async def find_after_restart(broker: FakeBroker, restarted: FakeBroker) -> tuple[BrowserLogin, str]:
    """The login that was open before, and what came of the search for it after hived restarted."""
    logins = Logins(Path(broker.path), time.monotonic)
    login = await logins.open({}, "local")
    login.streams.add(lambda: None)
    broker.stop()
    restarted.start()
    await login.connection.closed.wait()
    try:
        again = await logins.find(CREDENTIAL)
        outcome = "unknown" if again is None else "known"
    except Unreachable:
        outcome = "unreachable"
    for task in logins._watching:
        task.cancel()
    return login, outcome


@pytest.mark.parametrize(
    ("answers", "outcome"),
    [
        ({"OpenLogin": lambda _: FACTS}, "known"),
        ({}, "unreachable"),  # it hangs up before it answers
        ({"OpenLogin": _refuse}, "unknown"),
    ],
)
def test_a_login_ends_where_hived_refuses_it_and_not_where_hived_went_away(
    tmp_path: Path, answers: dict[str, Answer], outcome: str
) -> None:
    with fake_broker(tmp_path / "login.sock") as broker:
        broker.answers["OpenLogin"] = lambda _: FACTS
        restarted = FakeBroker(tmp_path / "login.sock")
        restarted.answers.update(answers)
        login, search_outcome = asyncio.run(find_after_restart(broker, restarted))
        restarted.stop()

    assert search_outcome == outcome
    assert login.is_ended is (outcome == "unknown")


def test_a_login_that_hived_did_not_end_is_not_said_to_have_ended(tmp_path: Path) -> None:
    """The page says that hived was not reached, and the browser keeps its cookie."""

    async def log_out(broker: FakeBroker) -> BrowserLogin:
        logins = Logins(Path(broker.path), time.monotonic)
        login = await logins.open({}, "local")
        with pytest.raises(Unreachable):  # it hangs up before it answers
            await logins.close(login)
        return login

    with fake_broker(tmp_path / "login.sock") as broker:
        broker.answers["OpenLogin"] = lambda _: FACTS
        assert not asyncio.run(log_out(broker)).is_ended
