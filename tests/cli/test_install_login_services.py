"""hive setup, hive-notify and hive-otel: their accounts and tokens, and whether they run."""

from __future__ import annotations

import errno
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from cli.run import Hive
from typing_extensions import override

from hive_core.cli.core.session import Session
from hive_core.cli.host.install.layout import File
from hive_core.cli.host.install.login_services import (
    NOTIFY,
    OTEL,
    ServiceWithLogin,
    install_login_service,
    renew_tokens,
)
from hive_core.cli.host.install.machine import HostMachine
from hive_core.errors import Busy, HiveError, NotFound
from hive_core.varlink import Message

ROUTE = '[notify.routes.phone]\ntype = "ntfy"\nurl = "https://ntfy.sh"\ntopic = "t"\n'
RECEIVER = '[otel]\nurl = "http://localhost:4318/v1/traces"\n'


@dataclass
class RecordingMachine(HostMachine):
    """A machine whose systemd is a list; files are real."""

    state: str = "inactive"
    enablement: str = "disabled"
    told: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(self.told.append)

    @override
    def run(self, *argv: str, check: bool = True) -> str:
        answers = {"is-active": self.state, "is-enabled": self.enablement}
        if answer := answers.get(argv[1]):
            return answer + "\n"
        self.told.append(" ".join(argv))
        return ""

    @override
    def restart(self, unit: str) -> None:
        self.told.append(f"restarted {unit}")


@pytest.fixture(name="machine")
def _machine() -> RecordingMachine:
    return RecordingMachine()


@pytest.mark.parametrize(("service", "text"), [(NOTIFY, ROUTE), (OTEL, RECEIVER)])
def test_a_receiver_gives_the_service_a_token_of_its_own_and_starts_it(
    hive: Hive, machine: RecordingMachine, tmp_path: Path, service: ServiceWithLogin, text: str
) -> None:
    config, token = tmp_path / "hive.toml", tmp_path / "login"
    config.write_text(text, encoding="utf-8")
    old = [{"login": "l1", "name": service.unit}, {"login": "l2", "name": "mine"}]
    hive.peer.answers |= {
        "CreateAccount": lambda _: {}, "ListLogins": lambda _: {"logins": old, "next": None},
        "EndLogin": lambda _: {}, "CreateToken": lambda _: {"token": "token_x", "login": "l3"},
    }  # fmt: skip
    with closing(Session(hive.peer.path)) as session:
        install_login_service(machine, session, replace(service, token=token), config)
    assert token.read_text(encoding="utf-8") == "token_x\n"
    assert token.stat().st_mode & 0o777 == 0o600
    assert not any("token_x" in line for line in machine.told)
    assert [params["login"] for params in hive.peer.params_of("EndLogin")] == ["l1"]
    assert hive.peer.params_of("CreateAccount")[0]["scopes"] == [service.scope]
    assert f"restarted {service.unit}" in machine.told


WITHOUT_RECEIVER = [(NOTIFY, "[notify]\n"), (OTEL, "[otel]\n")]


@pytest.mark.parametrize(("service", "text"), WITHOUT_RECEIVER)
def test_without_a_receiver_it_is_stopped_and_setup_says_so(
    hive: Hive, machine: RecordingMachine, tmp_path: Path, service: ServiceWithLogin, text: str
) -> None:
    """Also where systemd is about to start it again, and where it has given up.

    hived keeps the alarms about routes until it has read settings without any.
    """
    config = tmp_path / "hive.toml"
    config.write_text(text, encoding="utf-8")
    stop = [f"systemctl disable --now --quiet {service.unit}", f"stopped {service.unit}"]
    stop += ["systemctl reload hived.service"] if service is NOTIFY else []
    states = ("active", "enabled"), ("activating", "enabled"), ("failed", "enabled")
    with closing(Session(hive.peer.path)) as session:
        for machine.state, machine.enablement in (*states, ("active", "static")):
            machine.told.clear()
            install_login_service(machine, session, service, config)
            assert machine.told == stop, machine.state
    assert hive.peer.calls == []


@pytest.mark.parametrize(("service", "text"), WITHOUT_RECEIVER)
def test_without_a_receiver_there_is_nothing_to_do_where_it_does_not_run(
    hive: Hive, machine: RecordingMachine, tmp_path: Path, service: ServiceWithLogin, text: str
) -> None:
    config = tmp_path / "hive.toml"
    config.write_text(text, encoding="utf-8")
    with closing(Session(hive.peer.path)) as session:
        install_login_service(machine, session, service, config)
    assert machine.told == []


def set_up(machine: HostMachine, session: Session, service: ServiceWithLogin, file: Path) -> None:
    install_login_service(machine, session, service, file)


def renew(machine: HostMachine, session: Session, service: ServiceWithLogin, file: Path) -> None:
    renew_tokens(machine, session, (service,), file)


@pytest.mark.parametrize("apply", [set_up, renew])
@pytest.mark.parametrize("others", [[], [{"login": "l2", "name": "mine"}]])
@pytest.mark.parametrize("service", [NOTIFY, OTEL])
def test_a_service_that_is_no_longer_wanted_loses_its_token_and_its_account(
    hive: Hive, tmp_path: Path, service: ServiceWithLogin, others: list[Message],
    apply: Callable[..., None],
) -> None:  # fmt: skip
    """The account stays where the operator has opened another login of it."""
    config, token = tmp_path / "hive.toml", tmp_path / "login"
    config.write_text("[notify]\n[otel]\n", encoding="utf-8")
    token.write_text("token_x\n", encoding="utf-8")
    logins = [{"login": "l1", "name": service.unit}, *others]
    hive.peer.answers |= {
        "ListLogins": lambda _: {"logins": logins, "next": None}, "EndLogin": lambda _: {},
        "RemoveAccount": lambda _: {},
    }  # fmt: skip
    with closing(Session(hive.peer.path)) as session:
        apply(RecordingMachine(), session, replace(service, token=token), config)
    assert not token.exists()
    ended = [params["login"] for params in hive.peer.params_of("EndLogin")]
    removed = [params["account"] for params in hive.peer.params_of("RemoveAccount")]
    assert (ended, removed) == ((["l1"], []) if others else ([], [service.account]))


def test_a_token_whose_account_is_gone_is_removed_and_one_that_did_not_end_stays(
    hive: Hive, machine: RecordingMachine, tmp_path: Path
) -> None:
    """The next setup tries again."""
    config, token = tmp_path / "hive.toml", tmp_path / "login"
    config.write_text("[notify]\n", encoding="utf-8")
    token.write_text("token_x\n", encoding="utf-8")
    hive.peer.answers["ListLogins"] = lambda _: {"logins": [], "next": None}
    refusals: list[HiveError] = [Busy("starting"), NotFound("no account hive-notify")]

    def refuse(_: Message) -> Message:
        raise refusals.pop(0)

    hive.peer.answers["RemoveAccount"] = refuse
    with closing(Session(hive.peer.path)) as session:
        with pytest.raises(Busy):
            install_login_service(machine, session, replace(NOTIFY, token=token), config)
        assert token.exists()
        install_login_service(machine, session, replace(NOTIFY, token=token), config)
    assert not token.exists()


DAY = 86_400.0


@dataclass(frozen=True, slots=True)
class Case:
    """What is there before: the file of the token, and when tokens of the service end.

    `is_orphaned`: the last of them was made after the file was written.
    """

    has_file: bool
    ends_in: tuple[float, ...]
    is_renewed: bool
    is_orphaned: bool = False


@pytest.mark.parametrize(
    "case",
    [
        Case(has_file=False, ends_in=(), is_renewed=True),
        Case(has_file=True, ends_in=(), is_renewed=True),
        Case(has_file=False, ends_in=(300 * DAY,), is_renewed=True),
        Case(has_file=True, ends_in=(29 * DAY,), is_renewed=True),
        Case(has_file=True, ends_in=(29 * DAY, 300 * DAY), is_renewed=False),
        Case(has_file=True, ends_in=(29 * DAY, 300 * DAY), is_renewed=True, is_orphaned=True),
        Case(has_file=True, ends_in=(300 * DAY,), is_renewed=True, is_orphaned=True),
    ],
)
def test_a_host_set_up_by_its_configuration_renews_a_token_that_is_missing_or_ends_soon(
    hive: Hive, machine: RecordingMachine, tmp_path: Path, case: Case
) -> None:
    config, token = tmp_path / "hive.toml", tmp_path / "login"
    config.write_text(ROUTE, encoding="utf-8")
    if case.has_file:
        token.write_text("token_old\n", encoding="utf-8")
    logins = [
        {"login": f"l{at}", "name": NOTIFY.unit, "expires": time.time() + seconds,
         "opened": time.time() - DAY}
        for at, seconds in enumerate(case.ends_in)
    ]  # fmt: skip
    if case.is_orphaned:
        logins[-1]["opened"] = time.time() + 60.0
    mine = {"login": "mine", "name": "mine", "expires": time.time() + 300 * DAY}
    hive.peer.answers |= {
        "CreateAccount": lambda _: {}, "CreateToken": lambda _: {"token": "token_x", "login": "x"},
        "ListLogins": lambda _: {"logins": [*logins, mine], "next": None},
        "EndLogin": lambda _: {},
    }  # fmt: skip
    services = (replace(NOTIFY, token=token), replace(OTEL, token=tmp_path / "none"))
    with closing(Session(hive.peer.path)) as session:
        renew_tokens(machine, session, services, config)

    ended = [params["login"] for params in hive.peer.params_of("EndLogin")]
    if case.is_renewed:
        assert token.read_text(encoding="utf-8") == "token_x\n"
        assert ended == [row["login"] for row in logins]
        # The service may wait for this: nothing waits for its restart, and nothing enables it.
        assert machine.told[-1] == f"systemctl restart --no-block {NOTIFY.unit}"
        assert not any("enable" in line for line in machine.told)
    else:
        assert token.read_text(encoding="utf-8") == "token_old\n"
        assert (ended, machine.told) == ([], [])


def test_without_a_receiver_no_token_is_renewed(
    hive: Hive, machine: RecordingMachine, tmp_path: Path
) -> None:
    config = tmp_path / "hive.toml"
    config.write_text("[notify]\n[otel]\n", encoding="utf-8")
    with closing(Session(hive.peer.path)) as session:
        renew_tokens(machine, session, config=config)
    assert (machine.told, hive.peer.calls) == ([], [])


class FullMachine(RecordingMachine):
    """Its disk takes no file."""

    @override
    def file(self, wanted: File) -> bool:
        raise OSError(errno.ENOSPC, "No space left on device")


def test_a_token_that_could_not_be_written_ends_and_the_one_before_stays(
    hive: Hive, tmp_path: Path
) -> None:
    config, token = tmp_path / "hive.toml", tmp_path / "login"
    config.write_text(ROUTE, encoding="utf-8")
    token.write_text("token_old\n", encoding="utf-8")
    old = {"login": "l1", "name": NOTIFY.unit, "expires": time.time() + DAY}
    hive.peer.answers |= {
        "CreateAccount": lambda _: {}, "ListLogins": lambda _: {"logins": [old], "next": None},
        "EndLogin": lambda _: {}, "CreateToken": lambda _: {"token": "token_x", "login": "l3"},
    }  # fmt: skip
    services = (replace(NOTIFY, token=token),)
    with closing(Session(hive.peer.path)) as session, pytest.raises(OSError, match="No space"):
        renew_tokens(FullMachine(), session, services, config)
    assert token.read_text(encoding="utf-8") == "token_old\n"
    assert [params["login"] for params in hive.peer.params_of("EndLogin")] == ["l3"]


def test_an_empty_file_is_no_token(hive: Hive, machine: RecordingMachine, tmp_path: Path) -> None:
    config, token = tmp_path / "hive.toml", tmp_path / "login"
    config.write_text(ROUTE, encoding="utf-8")
    token.touch()
    valid = {"login": "l1", "name": NOTIFY.unit, "expires": time.time() + 300 * DAY}
    hive.peer.answers |= {
        "CreateAccount": lambda _: {}, "ListLogins": lambda _: {"logins": [valid], "next": None},
        "EndLogin": lambda _: {}, "CreateToken": lambda _: {"token": "token_x", "login": "l3"},
    }  # fmt: skip
    with closing(Session(hive.peer.path)) as session:
        renew_tokens(machine, session, (replace(NOTIFY, token=token),), config)
    assert token.read_text(encoding="utf-8") == "token_x\n"
