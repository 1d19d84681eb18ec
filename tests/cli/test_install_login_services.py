"""hive setup, hive-notify and hive-otel: their accounts and tokens, and whether they run."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from cli.run import Hive
from typing_extensions import override

from hive_core.cli.core.session import Session
from hive_core.cli.host.install.login_services import (
    NOTIFY,
    OTEL,
    ServiceWithLogin,
    install_login_service,
)
from hive_core.cli.host.install.machine import HostMachine

ROUTE = '[notify.routes.phone]\ntype = "ntfy"\nurl = "https://ntfy.sh"\ntopic = "t"\n'
RECEIVER = '[otel]\nurl = "http://localhost:4318/v1/traces"\n'


@dataclass
class RecordingMachine(HostMachine):
    """A machine whose systemd is a list; files are real."""

    running: bool = False
    told: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(self.told.append)

    @override
    def run(self, *argv: str, check: bool = True) -> str:
        self.told.append(" ".join(argv))
        return ""

    @override
    def active(self, unit: str) -> bool:
        return self.running

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


@pytest.mark.parametrize(("service", "text"), [(NOTIFY, "[notify]\n"), (OTEL, "[otel]\n")])
def test_without_a_receiver_it_is_stopped_and_asks_hived_nothing(
    hive: Hive, machine: RecordingMachine, tmp_path: Path, service: ServiceWithLogin, text: str
) -> None:
    machine.running = True
    config = tmp_path / "hive.toml"
    config.write_text(text, encoding="utf-8")
    with closing(Session(hive.peer.path)) as session:
        install_login_service(machine, session, service, config)
    assert machine.told == [f"systemctl disable --now --quiet {service.unit}"]
    assert hive.peer.calls == []
