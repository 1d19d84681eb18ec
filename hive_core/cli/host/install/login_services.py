"""hive-notify and hive-otel on this machine: their accounts and tokens, and whether they run."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hive_core.cli.core.output import Row
from hive_core.cli.core.session import Session
from hive_core.cli.host.install import layout
from hive_core.cli.host.install.layout import File
from hive_core.cli.host.install.machine import HostMachine, settings
from hive_core.errors import NotFound

_DAYS: Final = 365
_RENEW_SECONDS: Final = 30 * 86_400.0
_LAG: Final = 1.0  # seconds by which the times of files may be behind the clock


@dataclass(frozen=True, slots=True)
class ServiceWithLogin:
    """A service with a login of its own. It runs where a key of its table of hive.toml is set.

    `has_alarms`: the alarms that it has asked for stay until hived reads settings without that key.
    """

    account: str
    scope: str
    token: Path
    table: str
    key: str
    has_alarms: bool = False

    @property
    def unit(self) -> str:
        return f"{self.account}.service"

    def has_receiver(self, document: Mapping[str, object]) -> bool:
        """Whether the settings name a receiver for it."""
        table = document.get(self.table)
        return isinstance(table, dict) and bool(table.get(self.key))


NOTIFY: Final = ServiceWithLogin(
    "hive-notify", "notifier", Path(layout.NOTIFY, "login"), "notify", "routes", has_alarms=True
)
OTEL: Final = ServiceWithLogin("hive-otel", "viewer", Path(layout.OTEL, "login"), "otel", "url")


SERVICES: Final = (NOTIFY, OTEL)


def install_login_services(machine: HostMachine, session: Session) -> None:
    """Start each service that the settings want, and stop the others."""
    for service in SERVICES:
        install_login_service(machine, session, service)


def renew_tokens(
    machine: HostMachine, session: Session, services: Sequence[ServiceWithLogin] = SERVICES,
    config: Path = Path(layout.CONFIG),
) -> None:  # fmt: skip
    """Where the settings want a service whose token is missing or ends soon, make a new one.

    A service that they no longer want loses its access. Whether one is enabled is the
    configuration's. It may wait for this, so that nothing waits for its restart.
    """
    document = settings(config)
    for service in services:
        if not service.has_receiver(document):
            _end_access(machine, session, service)
        elif not _has_token(session, service):
            _make_token(machine, session, service)
            machine.run("systemctl", "restart", "--no-block", service.unit)


def install_login_service(
    machine: HostMachine, session: Session, service: ServiceWithLogin,
    config: Path = Path(layout.CONFIG),
) -> None:  # fmt: skip
    """Start a service where hive.toml wants it; where not, stop it and end its access.

    A new token replaces the one before: a repeated `hive setup` keeps it from expiring.
    """
    unit = service.unit
    if not service.has_receiver(settings(config)):
        if machine.disable(unit) and service.has_alarms:
            machine.run("systemctl", "reload", "hived.service")
        _end_access(machine, session, service)
        return
    _make_token(machine, session, service)
    machine.run("systemctl", "enable", "--quiet", unit)
    machine.restart(unit)


def _make_token(machine: HostMachine, session: Session, service: ServiceWithLogin) -> None:
    """A token in place of those before, in the file that systemd shows to the service.

    Those before end when it is written: until then hived lists none whose file is not there.
    """
    unit, account = service.unit, service.account
    session.change("create_account", name=account, scopes=[service.scope])
    before = [str(row.get("login")) for row in _tokens(session, service)]
    made = session.change(
        "create_token", account=account, scopes=[service.scope], days=_DAYS, name=unit
    )
    try:
        machine.file(File(service.token, str(made.get("token")) + "\n", mode=0o600))
    except BaseException:  # also an interrupt
        session.change("end_login", login=str(made.get("login")))
        raise
    for login in before:
        session.change("end_login", login=login)


def _end_access(machine: HostMachine, session: Session, service: ServiceWithLogin) -> None:
    """End the tokens of a service that has one, then remove its file; the file last, to try again.

    Its account is removed too, unless it has other logins, which the operator has opened.
    """
    if not service.token.exists():
        return
    logins = list(session.rows("list_logins", "logins", account=service.account))
    own = [str(row.get("login")) for row in logins if row.get("name") == service.unit]
    if len(own) == len(logins):
        with suppress(NotFound):
            session.change("remove_account", account=service.account)
    else:
        for login in own:
            session.change("end_login", login=login)
    machine.remove([service.token])


def _has_token(session: Session, service: ServiceWithLogin) -> bool:
    """Whether its file has one, and a token of it will be valid for some time.

    A token that was made after the file was written is in no file: the process that made it was
    killed. It does not count, and ends when the next one is written.
    """
    if not service.token.exists() or not service.token.read_text(encoding="utf-8").strip():
        return False
    written, soon = service.token.stat().st_mtime, time.time() + _RENEW_SECONDS
    times = [(row.get("opened"), row.get("expires")) for row in _tokens(session, service)]
    return any(
        isinstance(opened, int | float) and opened <= written + _LAG
        and isinstance(end, int | float) and end > soon
        for opened, end in times
    )  # fmt: skip


def _tokens(session: Session, service: ServiceWithLogin) -> list[Row]:
    rows = session.rows("list_logins", "logins", account=service.account)
    return [row for row in rows if row.get("name") == service.unit]
