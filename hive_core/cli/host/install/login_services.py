"""hive-notify and hive-otel on this machine: their accounts and tokens, and whether they run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hive_core.cli.core.session import Session
from hive_core.cli.host.install import layout
from hive_core.cli.host.install.layout import File
from hive_core.cli.host.install.machine import HostMachine, settings

_DAYS: Final = 365


@dataclass(frozen=True, slots=True)
class ServiceWithLogin:
    """A service with a login of its own. It runs where a key of its table of hive.toml is set."""

    account: str
    scope: str
    token: Path
    table: str
    key: str

    @property
    def unit(self) -> str:
        return f"{self.account}.service"

    def is_wanted(self, document: Mapping[str, object]) -> bool:
        """Whether the settings name a receiver for it."""
        table = document.get(self.table)
        return isinstance(table, dict) and bool(table.get(self.key))


NOTIFY: Final = ServiceWithLogin(
    "hive-notify", "notifier", Path(layout.NOTIFY, "login"), "notify", "routes"
)
OTEL: Final = ServiceWithLogin("hive-otel", "viewer", Path(layout.OTEL, "login"), "otel", "url")


def install_login_services(machine: HostMachine, session: Session) -> None:
    """Start each service that the settings want, and stop the others."""
    for service in (NOTIFY, OTEL):
        install_login_service(machine, session, service)


def install_login_service(
    machine: HostMachine, session: Session, service: ServiceWithLogin,
    config: Path = Path(layout.CONFIG),
) -> None:  # fmt: skip
    """Start a service where hive.toml wants it, and stop it where not.

    A new token replaces the one before: a repeated `hive setup` keeps it from expiring.
    """
    unit, account = service.unit, service.account
    if not service.is_wanted(settings(config)):
        if machine.active(unit):
            machine.run("systemctl", "disable", "--now", "--quiet", unit)
        return
    session.change("create_account", name=account, scopes=[service.scope])
    for login in _old_tokens(session, service):
        session.change("end_login", login=login)
    made = session.change(
        "create_token", account=account, scopes=[service.scope], days=_DAYS, name=unit
    )
    machine.file(File(service.token, str(made.get("token")) + "\n", mode=0o600))
    machine.run("systemctl", "enable", "--quiet", unit)
    machine.restart(unit)


def _old_tokens(session: Session, service: ServiceWithLogin) -> list[str]:
    rows = session.rows("list_logins", "logins", account=service.account)
    return [str(row.get("login")) for row in rows if row.get("name") == service.unit]
