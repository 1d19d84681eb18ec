"""The program `hive-otel`: reads its settings and secrets, sends traces until a signal."""

from __future__ import annotations

import asyncio
import logging
import socket
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import httpx2
from pydantic import ValidationError

from hive_core import VERSION
from hive_core.errors import HiveError, InvalidArgument
from hive_core.model.config.otel import OtelSettings
from hive_core.otel.exporter import EventReader, TraceExporter
from hive_core.otel.receiver import OtlpReceiver, parse_headers
from hive_core.otel.spans import Attribute
from hive_core.otel.state import OtelState
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
_LOGIN: Final = "otel_login"
_HEADERS: Final = "otel_headers"
_PROGRAM: Final = ServiceProgram("hive-otel", "Send what agents do as traces of OpenTelemetry.", (
    SETTINGS, LOGIN_SOCKET,
    ServiceOption("state", "FOLDER", "folder of what has been sent"),
))  # fmt: skip


@dataclass(frozen=True, slots=True)
class OtelOptions:
    settings: Path = Path("/etc/hive/hive.toml")
    socket: Path = Path("/run/hive/login.sock")
    state: Path = Path("/var/lib/hive-otel")


def load_otel_settings(path: Path) -> OtelSettings:
    """The table `[otel]`; InvalidArgument names the first wrong key."""
    try:
        settings = OtelSettings.model_validate(read_settings(path, "otel").get("otel", {}))
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        key = ".".join(("otel", *map(str, fault["loc"])))
        raise InvalidArgument(f"{key}: {fault['msg']}", field=key) from error
    if not settings.url:
        raise InvalidArgument("otel.url: must name a receiver", field="otel.url")
    return settings


def resource_of(settings: OtelSettings) -> dict[str, Attribute]:
    """What all spans of this host share."""
    return {
        "service.name": settings.service, "service.version": VERSION,
        "host.name": socket.gethostname(),
    }  # fmt: skip


async def run(options: OtelOptions) -> None:
    """Export until SIGTERM or SIGINT."""
    settings, token = load_otel_settings(options.settings), read_credential(_LOGIN)
    if not token:
        raise InvalidArgument("no credential otel_login: run `hive setup`", field="login")
    headers = parse_headers(read_credential(_HEADERS))
    async with httpx2.AsyncClient(trust_env=False) as client:
        receiver = OtlpReceiver(settings.url, client, resource_of(settings), headers)
        source = EventReader(options.socket, token)
        file = ServiceStateFile(options.state / "state.json", OtelState)
        exporter = TraceExporter(source, receiver, file, time.time, settings.texts)
        exporter.load()
        try:
            await run_until_signal(exporter.run())
        finally:
            await source.end()


def parse_options(arguments: Sequence[str]) -> OtelOptions:
    return OtelOptions(**parse_arguments(_PROGRAM, OtelOptions(), arguments))


def main() -> None:
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    logging.getLogger("httpx2").setLevel(logging.WARNING)  # it logs addresses
    options = parse_options(sys.argv[1:])
    try:
        asyncio.run(run(options))
    except (HiveError, OSError) as error:
        sys.stderr.write(f"hive-otel: cannot start: {error}\n")
        sys.exit(1)


if __name__ == "__main__":
    main()
