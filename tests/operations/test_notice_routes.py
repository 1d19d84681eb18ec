"""Routes by which hive-notify cannot send: an alarm of the operator about each of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest
from fixtures.logins import LoginClient, open_login
from fixtures.world import World, world

from hive_core.errors import InvalidArgument, NotAllowed
from hive_core.model.config.settings import Settings
from hive_core.model.wire.record import OPERATOR
from hive_core.operations.host.notice_routes import route_alarms

PHONE = {"type": "ntfy", "url": "https://ntfy.example", "topic": "t"}
SETTINGS = Settings.model_validate({"notify": {"routes": {"phone": PHONE}}})
SAYS = "hive-notify says that it cannot send by route phone: "
REMEDY = "; mend that, then `systemctl restart hive-notify`"


@pytest.fixture(name="world")
def _world() -> Iterator[World]:
    with world(SETTINGS) as made:
        yield made


@pytest.fixture(name="notifier")
def _notifier(world: World) -> LoginClient:
    return open_login(world, "hive-notify", ["notifier"])


def alarms(world: World, settings: Settings = SETTINGS, later: float = 0.0) -> list[str]:
    """The alarms of the daemon, or of one that started so much later."""
    return list(route_alarms(world.ledger, settings, world.reads.seen.since() + later))


def note(notifier: LoginClient, faults: Mapping[str, str]) -> None:
    notifier.call("note_routes", faults=dict(faults))


def test_a_route_that_cannot_be_used_is_an_alarm_until_it_is_mended(
    world: World, notifier: LoginClient
) -> None:
    note(notifier, {"phone": "its token is wrong"})
    world.restart()
    assert alarms(world) == [f"{SAYS}its token is wrong{REMEDY}"]
    note(open_login(world, "other", ["notifier"]), {})
    assert alarms(world) == []


def test_it_is_no_alarm_once_a_daemon_starts_whose_settings_want_no_route(
    world: World, notifier: LoginClient
) -> None:
    """hive-notify reads a new route when it restarts, the daemon when it reloads."""
    note(notifier, {"phone": "its token is wrong"})
    assert alarms(world, Settings()) == [f"{SAYS}its token is wrong{REMEDY}"]
    assert alarms(world, Settings(), later=1.0) == []


def test_what_hive_notify_says_is_one_line_and_short(world: World, notifier: LoginClient) -> None:
    note(notifier, {"phone": "a\n\x1b[31m" + "b" * 1900})
    (alarm,) = alarms(world)
    assert alarm.startswith(f"{SAYS}a ")
    assert alarm.isprintable()
    assert len(alarm) < len(SAYS) + len(REMEDY) + 310


@pytest.mark.parametrize(
    "faults", [{"phone": "x" * 2001}, {"a\nb": "x"}, {f"r{n}": "x" for n in range(33)}]
)
def test_what_it_says_is_bounded(notifier: LoginClient, faults: Mapping[str, str]) -> None:
    with pytest.raises(InvalidArgument):
        note(notifier, faults)


def test_only_a_login_of_hive_notify_says_it(world: World) -> None:
    assert isinstance(open_login(world).refusal("note_routes", faults={}), NotAllowed)
    for caller in ("root", OPERATOR):
        assert world.fault(caller, "note_routes", faults={}) == "NotAllowed"
