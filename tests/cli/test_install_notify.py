"""hive setup and hive-notify: its account, its token, and whether it runs."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from cli.run import Hive
from typing_extensions import override

from hive_core.cli.core.session import Session
from hive_core.cli.host.install.machine import HostMachine
from hive_core.cli.host.install.notify import UNIT, install_notify

ROUTE = '[notify.routes.phone]\ntype = "ntfy"\nurl = "https://ntfy.sh"\ntopic = "t"\n'


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


def test_a_route_gives_the_service_a_token_of_its_own_and_starts_it(
    hive: Hive, machine: RecordingMachine, tmp_path: Path
) -> None:
    config, token = tmp_path / "hive.toml", tmp_path / "login"
    config.write_text(ROUTE, encoding="utf-8")
    old = [{"login": "l1", "name": UNIT}, {"login": "l2", "name": "mine"}]
    hive.peer.answers |= {
        "CreateAccount": lambda _: {}, "ListLogins": lambda _: {"logins": old, "next": None},
        "EndLogin": lambda _: {}, "CreateToken": lambda _: {"token": "token_x", "login": "l3"},
    }  # fmt: skip
    with closing(Session(hive.peer.path)) as session:
        install_notify(machine, session, config, token)
    assert token.read_text(encoding="utf-8") == "token_x\n"
    assert token.stat().st_mode & 0o777 == 0o600
    assert not any("token_x" in line for line in machine.told)
    assert [params["login"] for params in hive.peer.params_of("EndLogin")] == ["l1"]
    assert hive.peer.params_of("CreateAccount")[0]["scopes"] == ["notifier"]
    assert f"restarted {UNIT}" in machine.told


def test_without_a_route_it_is_stopped_and_asks_hived_nothing(
    hive: Hive, machine: RecordingMachine, tmp_path: Path
) -> None:
    machine.running = True
    config = tmp_path / "hive.toml"
    config.write_text("[notify]\n", encoding="utf-8")
    with closing(Session(hive.peer.path)) as session:
        install_notify(machine, session, config, tmp_path / "login")
    assert machine.told == [f"systemctl disable --now --quiet {UNIT}"]
    assert hive.peer.calls == []
