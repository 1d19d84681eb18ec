"""hive-notify on this machine: its account and token, and whether it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from hive_core.cli.core.session import Session
from hive_core.cli.host.install import layout
from hive_core.cli.host.install.layout import File
from hive_core.cli.host.install.machine import HostMachine, settings

UNIT: Final = layout.NOTIFY_UNIT
ACCOUNT: Final = "hive-notify"
TOKEN: Final = Path(layout.NOTIFY, "login")
_DAYS: Final = 365


def has_routes(config: Path) -> bool:
    """Whether the settings name a receiver of notifications."""
    table = settings(config).get("notify")
    return isinstance(table, dict) and bool(table.get("routes"))


def install_notify(
    machine: HostMachine, session: Session, config: Path = Path(layout.CONFIG), token: Path = TOKEN
) -> None:
    """Start hive-notify where hive.toml has a route, and stop it where it has none.

    A new token replaces the one before: a repeated `hive setup` keeps it from expiring.
    """
    if not has_routes(config):
        if machine.active(UNIT):
            machine.run("systemctl", "disable", "--now", "--quiet", UNIT)
        return
    session.change("create_account", name=ACCOUNT, scopes=["notifier"])
    for login in _old_tokens(session):
        session.change("end_login", login=login)
    made = session.change(
        "create_token", account=ACCOUNT, scopes=["notifier"], days=_DAYS, name=UNIT
    )
    machine.file(File(token, str(made.get("token")) + "\n", mode=0o600))
    machine.run("systemctl", "enable", "--quiet", UNIT)
    machine.restart(UNIT)


def _old_tokens(session: Session) -> list[str]:
    rows = session.rows("list_logins", "logins", account=ACCOUNT)
    return [str(row.get("login")) for row in rows if row.get("name") == UNIT]
