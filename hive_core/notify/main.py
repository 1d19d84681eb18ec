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
from pydantic import ValidationError

from hive_core.errors import HiveError, InvalidArgument
from hive_core.model.config.notify import NotifyRoute, NotifySettings
from hive_core.model.config.web import WebSettings
from hive_core.notify.deliveries import NotifyState
from hive_core.notify.notifier import Notifier
from hive_core.notify.senders import (
    NtfySender,
    Sender,
    WebhookSender,
    apprise_sender,
    webhook_key,
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
    """What hive.toml says: the routes, and the address of the dashboard for *Open*."""

    routes: Mapping[str, NotifyRoute]
    dashboard: str


def load_config(path: Path) -> NotifyConfig:
    """The tables `[notify]` and `[web]`; InvalidArgument names the first wrong key."""
    document = read_settings(path, "notify")
    try:
        settings = NotifySettings.model_validate(document.get("notify", {}))
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        key = ".".join(("notify", *map(str, fault["loc"])))
        raise InvalidArgument(f"{key}: {fault['msg']}", field=key) from error
    web = document.get("web")
    origins = web.get("origins") if isinstance(web, dict) else None
    addresses = origins if isinstance(origins, list) and origins else WebSettings().origins
    return NotifyConfig(settings.routes, str(addresses[-1]))


def build_sender(
    name: str, route: NotifyRoute, dashboard: str, client: httpx2.AsyncClient
) -> Sender:
    """The sender of a route, with its secret `/etc/hive/notify/NAME`."""
    secret = read_credential(f"notify_{name}")
    try:
        match route.type:
            case "ntfy":
                return NtfySender(route, client, secret, dashboard)
            case "webhook":
                return WebhookSender(route, client, webhook_key(secret), dashboard)
            case "apprise":
                return apprise_sender(secret)
    except InvalidArgument as error:
        reason = f"route {name}: {error.reason} (in /etc/hive/notify/{name})"
        raise InvalidArgument(reason, field=f"notify.routes.{name}") from error


async def run(options: NotifyOptions) -> None:
    """Notify until SIGTERM or SIGINT."""
    config, token = load_config(options.settings), read_credential(_LOGIN)
    if not token:
        raise InvalidArgument("no credential notify_login: run `hive setup`", field="login")
    async with httpx2.AsyncClient(trust_env=False) as client:
        senders = {
            name: build_sender(name, route, config.dashboard, client)
            for name, route in config.routes.items()
        }
        file = ServiceStateFile(options.state / "state.json", NotifyState)
        source = LoginSource(options.socket, token)
        notifier = Notifier(source, config.routes, senders, file, time.time)
        notifier.load()
        try:
            await run_until_signal(notifier.run(), f"{len(senders)} routes")
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
