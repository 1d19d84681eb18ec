"""The program `hive-notify`: reads its routes and secrets, notifies until a signal."""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import httpx2

from hive_core.errors import HiveError, InvalidArgument
from hive_core.model.config.notify import (
    NotifyRoute,
    check_routes,
    check_secret,
    webhook_key,
)
from hive_core.model.config.web import WebSettings
from hive_core.notify.deliveries import NotifyState
from hive_core.notify.notifier import Notifier
from hive_core.notify.senders import (
    NtfySender,
    Sender,
    WebhookSender,
    apprise_sender,
)
from hive_core.notify.source import LoginSource
from hive_core.services.command_line import (
    LOGIN_SOCKET,
    SETTINGS,
    ServiceOption,
    ServiceProgram,
    parse_arguments,
)
from hive_core.services.running import run_until_signal
from hive_core.services.service_files import ServiceStateFile, read_credential, read_settings

# systemd names the files of a folder of credentials NAME_FILE.
_LOGIN = "notify_login"
_SECRETS: Final = "/etc/hive/notify"
log = logging.getLogger(__name__)
_PROGRAM: Final = ServiceProgram(
    "hive-notify",
    "Tell people what waits for them, failed or is done.",
    (
        SETTINGS,
        LOGIN_SOCKET,
        ServiceOption("state", "FOLDER", "folder of what has been sent and waits to be sent"),
    ),
)


@dataclass(frozen=True, slots=True)
class NotifyOptions:
    settings: Path = Path("/etc/hive/hive.toml")
    socket: Path = Path("/run/hive/login.sock")
    state: Path = Path("/var/lib/hive-notify")


@dataclass(frozen=True, slots=True)
class NotifyConfig:
    """What hive.toml says: the routes, and the address of the dashboard for *Open*.

    `faults`: why the other routes of the file cannot be used.
    """

    routes: Mapping[str, NotifyRoute]
    dashboard: str
    faults: Mapping[str, str]


def load_config(path: Path) -> NotifyConfig:
    """The tables `[notify]` and `[web]`; InvalidArgument where the fault is not in one route."""
    document = read_settings(path, "notify")
    checked = check_routes(document.get("notify", {}))
    web = document.get("web")
    origins = web.get("origins") if isinstance(web, dict) else None
    addresses = origins if isinstance(origins, list) and origins else WebSettings().origins
    return NotifyConfig(checked.routes, str(addresses[-1]), checked.faults)


def build_sender(
    name: str, route: NotifyRoute, dashboard: str, client: httpx2.AsyncClient
) -> Sender:
    """The sender of a route, with its secret `/etc/hive/notify/NAME`."""
    secret = read_credential(f"notify_{name}")
    try:
        check_secret(name, route, secret)
        match route.type:
            case "ntfy":
                return NtfySender(route, client, secret, dashboard)
            case "webhook":
                return WebhookSender(route, client, webhook_key(secret), dashboard)
            case "apprise":
                return apprise_sender(secret)
    except InvalidArgument as error:
        reason = f"{_SECRETS}/{name}: {error.reason}"
        raise InvalidArgument(reason, field=f"notify.routes.{name}") from error


def build_senders(
    config: NotifyConfig, client: httpx2.AsyncClient
) -> tuple[dict[str, Sender], dict[str, str]]:
    """The senders of the routes that can be used, and why the others cannot."""
    senders, faults = dict[str, Sender](), dict(config.faults)
    for name, route in config.routes.items():
        try:
            senders[name] = build_sender(name, route, config.dashboard, client)
        except InvalidArgument as error:
            faults[name] = error.reason
    for name, reason in faults.items():
        log.error("Cannot send by route %s: %s", name, reason)
    return senders, faults


async def check_usable(
    senders: Mapping[str, Sender], faults: Mapping[str, str], source: LoginSource
) -> None:
    """Raise InvalidArgument where there are routes and none can be used; hived is told before."""
    if senders or not faults:
        return
    try:
        await source.report(faults)
    except HiveError as error:
        log.warning("Cannot tell hived of it: %s", error)
    finally:
        await source.end()
    raise InvalidArgument("no route can be used; `hive config check` says why", field="notify")


async def run(options: NotifyOptions) -> None:
    """Notify until SIGTERM or SIGINT."""
    config, token = load_config(options.settings), read_credential(_LOGIN)
    if not token:
        raise InvalidArgument("no credential notify_login: run `hive setup`", field="login")
    async with httpx2.AsyncClient(trust_env=False) as client:
        senders, faults = build_senders(config, client)
        source = LoginSource(options.socket, token)
        await check_usable(senders, faults, source)
        routes = {name: config.routes[name] for name in senders}
        file = ServiceStateFile(options.state / "state.json", NotifyState)
        notifier = Notifier(source, routes, senders, file, time.time, faults)
        notifier.load()
        try:
            unused = f", {len(faults)} unusable" if faults else ""
            await run_until_signal(notifier.run(), f"{len(senders)} routes{unused}")
        finally:
            await source.end()


def parse_options(arguments: Sequence[str]) -> NotifyOptions:
    return NotifyOptions(**parse_arguments(_PROGRAM, NotifyOptions(), arguments))


def main() -> None:
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    logging.getLogger("httpx2").setLevel(logging.WARNING)  # it logs addresses
    options = parse_options(sys.argv[1:])
    try:
        asyncio.run(run(options))
    except (HiveError, OSError) as error:
        sys.stderr.write(f"hive-notify: cannot start: {error}\n")
        sys.exit(1)


if __name__ == "__main__":
    main()
