"""The program `hive-model`: reads its files, connects to hived, serves agents until a signal."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import signal
import socket
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from uvicorn.server import ServerState

from hive_core.errors import HiveError, InvalidArgument
from hive_core.proxy.accounts import NOTE_EVERY, Accounts
from hive_core.proxy.app import ModelApp
from hive_core.proxy.attempts import RETRIES
from hive_core.proxy.config import load_config
from hive_core.proxy.connection import model_connections
from hive_core.proxy.limits import MINUTE, CallLimits
from hive_core.proxy.model_call import CallServices
from hive_core.proxy.operator import OperatorApp
from hive_core.proxy.providers import Providers
from hive_core.proxy.upstream import Upstream
from hive_core.services.command_line import ServiceOption, ServiceProgram, parse_arguments
from hive_core.services.listeners import HandedListener, HandoverClient, Listeners
from hive_core.services.notify import notify
from hive_core.services.packets import HandedSocket

log = logging.getLogger(__name__)
GROUP: Final = "hive-operator"
_BACKLOG: Final = 16
_LISTEN_FD: Final = 3  # the first descriptor that systemd passes
_END_SECONDS: Final = 10.0
_BAD_CONFIG: Final = 78
_ALL_UIDS: Final = (1 << 32) - 1
_PROGRAM: Final = ServiceProgram("hive-model", "Call models for agents.", (
    ServiceOption("models", "FILE", "models and providers"),
    ServiceOption("keys", "FOLDER", "keys of providers, a file each"),
    ServiceOption("control", "SOCKET", "where hived reserves and charges calls"),
    ServiceOption("hand", "SOCKET", "where hived hands over the sockets of agents"),
    ServiceOption("operator", "SOCKET", "socket for `hive model test`"),
    ServiceOption("small", "SOCKET", "socket of the embedded model"),
    ServiceOption("journal", "FILE", "settlements that hived has not answered yet"),
))  # fmt: skip


@dataclass(frozen=True, slots=True)
class ProxyOptions:
    """`retries` are the seconds before each further try of a provider.

    `note_every` are those between two notes of a running call, and `patience` those that a call
    waits for hived.
    """

    models: Path = Path("/etc/hive/models.toml")
    keys: Path = Path("/etc/hive/keys")
    control: Path = Path("/run/hive/model-control.sock")
    hand: Path = Path("/run/hive/hand-model.sock")
    operator: Path = Path("/run/hive-model/operator.sock")
    small: Path = Path("/run/hive-small/small.sock")
    journal: Path = Path("/var/lib/hive-model/unsettled")
    retries: Sequence[float] = RETRIES
    note_every: float = NOTE_EVERY
    patience: float = 3.0


@dataclass(slots=True)
class HiveModel:
    """All parts of the program. `stop` lets calls that run come to their end, for some seconds."""

    options: ProxyOptions
    app: ModelApp
    listeners: Listeners
    state: ServerState
    operator: HandedListener | None = None
    _tasks: list[asyncio.Task[None]] = field(default_factory=list)

    @property
    def accounts(self) -> Accounts:
        return self.app.services.accounts

    def start(self) -> None:
        hand = HandoverClient(self.options.hand, self.listeners)
        factory = model_connections(OperatorApp(self.app), self.state)
        agent_socket = HandedSocket("", "operator", "", 0, _ALL_UIDS)
        self.operator = HandedListener(
            agent_socket, operator_socket(self.options.operator), factory
        )
        self.operator.start()
        loops = (self.accounts.run(), self.accounts.send_notes(), hand.run(), self._sweep())
        self._tasks = [asyncio.create_task(loop) for loop in loops]
        self._warm()

    def reload(self) -> bool:
        """Read the files again; with a fault in them all stays as it is."""
        try:
            self.app.config = load_config(self.options.models, self.options.keys)
        except InvalidArgument as error:
            log.error("Cannot reload, and keep the settings: %s", error)  # noqa: TRY400
            return False
        self._warm()
        return True

    def _warm(self) -> None:
        self._tasks.append(asyncio.create_task(self._look_up_prices()))

    async def _look_up_prices(self) -> None:
        """Look all prices up before a call needs one, and tell hived which are unknown."""
        unknown = await asyncio.to_thread(self.app.config.prices.find_unknown)
        self.accounts.note_unpriced(unknown)

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(MINUTE)
            self.app.services.limits.sweep()
            self._tasks = [task for task in self._tasks if not task.done()]

    async def stop(self) -> None:
        self.listeners.close()
        if self.operator is not None:
            self.operator.stop(abort=True)
        calls = list(self.state.tasks)
        if calls:
            _, late = await asyncio.wait(calls, timeout=_END_SECONDS)
            for call in late:
                call.cancel()
            await asyncio.gather(*late, return_exceptions=True)
        await self.accounts.drain(NOTE_EVERY)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.app.services.providers.upstream.close()


def build(options: ProxyOptions) -> HiveModel:
    """The program, not started. InvalidArgument: a fault in models.toml or in a file it names."""
    config = load_config(options.models, options.keys)
    providers = Providers(Upstream(), options.small)
    accounts = Accounts(options.control, options.note_every, options.patience, options.journal)
    services = CallServices(accounts, CallLimits(), providers, options.retries)
    app = ModelApp(services, config)
    state = ServerState()
    return HiveModel(options, app, Listeners(model_connections(app, state)), state)


def operator_socket(path: Path) -> socket.socket:
    """The socket that systemd passed, or a new one for the group of operators."""
    if os.environ.get("LISTEN_PID") == str(os.getpid()) and os.environ.get("LISTEN_FDS") == "1":
        return socket.socket(fileno=_LISTEN_FD)
    path.unlink(missing_ok=True)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        listening.bind(str(path))
    finally:
        os.umask(before)
    with suppress(LookupError, PermissionError):  # then it is for this user and root alone
        shutil.chown(path, group=GROUP)
        path.chmod(0o660)
    listening.listen(_BACKLOG)
    return listening


async def run(options: ProxyOptions) -> None:
    """Serve until SIGTERM or SIGINT."""
    program = build(options)
    loop, ended = asyncio.get_running_loop(), asyncio.Event()

    def reload() -> None:
        notify(f"RELOADING=1\nMONOTONIC_USEC={time.monotonic_ns() // 1000}")
        is_new = program.reload()
        notify(
            f"READY=1\nSTATUS={'serving' if is_new else 'serving; the new settings are invalid'}"
        )

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    loop.add_signal_handler(signal.SIGHUP, reload)
    program.start()
    notify("READY=1\nSTATUS=serving")
    await ended.wait()
    notify("STOPPING=1\nSTATUS=stopping")
    await program.stop()


def parse_options(arguments: Sequence[str]) -> ProxyOptions:
    return ProxyOptions(**parse_arguments(_PROGRAM, ProxyOptions(), arguments))


def main() -> None:
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    options = parse_options(sys.argv[1:])
    try:
        asyncio.run(run(options))
    except HiveError as error:
        sys.stderr.write(f"hive-model: {error}\n")
        sys.exit(_BAD_CONFIG)
    except OSError as error:
        sys.stderr.write(f"hive-model: cannot start: {error}\n")
        sys.exit(1)


if __name__ == "__main__":
    main()
