"""systemd over D-Bus: lists units, reads their properties, and watches for changes.

There is one connection. It is opened again when the bus or systemd restarts; then listeners look at
all units again, because signals may have been missed.
https://www.freedesktop.org/software/systemd/man/latest/org.freedesktop.systemd1.html
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from dbus_fast import BusType, Message, MessageType
from dbus_fast.aio import MessageBus
from dbus_fast.errors import DBusError

from hive_core.errors import TimedOut, Unreachable

log = logging.getLogger(__name__)
SYSTEMD: Final = "org.freedesktop.systemd1"
MANAGER: Final = "/org/freedesktop/systemd1"
UNITS: Final = "/org/freedesktop/systemd1/unit/"
_RULES: Final = (
    f"type='signal',sender='{SYSTEMD}',interface='{SYSTEMD}.Manager',member='JobRemoved'",
    f"type='signal',sender='{SYSTEMD}',interface='{SYSTEMD}.Manager',member='UnitRemoved'",
    f"type='signal',sender='{SYSTEMD}',interface='{SYSTEMD}.Manager',member='UnitNew'",
    f"type='signal',sender='{SYSTEMD}',interface='{SYSTEMD}.Manager',member='Reloading'",
    f"type='signal',sender='{SYSTEMD}',interface='org.freedesktop.DBus.Properties',"
    f"member='PropertiesChanged',path_namespace='{MANAGER}/unit'",
    "type='signal',sender='org.freedesktop.DBus',interface='org.freedesktop.DBus',"
    f"member='NameOwnerChanged',arg0='{SYSTEMD}'",
)
_GONE: Final = frozenset({
    "org.freedesktop.DBus.Error.UnknownObject",
    "org.freedesktop.DBus.Error.UnknownInterface",
    "org.freedesktop.systemd1.NoSuchUnit",
})  # fmt: skip
_AT_ONCE: Final = 100  # dbus-daemon refuses more than 128 calls without a reply
_PATTERNS: Final = 50
_PAUSES: Final = (0.05, 0.2, 1.0, 2.0)


class Unloaded(Unreachable):
    """The unit is not loaded: systemd unloads a unit as soon as it has ended."""


@dataclass(frozen=True, slots=True)
class Unit:
    """One line of systemd's list of units. `job` is the type of a pending job, if any."""

    name: str
    description: str
    load: str
    active: str
    sub: str
    path: str
    job: str


def escape(name: str) -> str:
    """A unit's name as the last part of its object path."""
    return "".join(c if c.isascii() and c.isalnum() else f"_{ord(c):02x}" for c in name)


def unescape(part: str) -> str:
    """The unit name of an escaped path part."""
    return re.sub(r"_([0-9a-f]{2})", lambda match: chr(int(match[1], 16)), part)


class Bus:
    """A connection to systemd.

    `wake(unit)` is called on signals about units with one of `prefixes`.

    An empty unit name means: look at all of them.
    """

    def __init__(
        self, seconds: float, wake: Callable[[str], None], prefixes: Sequence[str]
    ) -> None:
        self._seconds = seconds
        self._wake = wake
        self._prefixes = tuple(prefixes)
        self._paths = tuple(UNITS + escape(prefix) for prefix in prefixes)
        self._bus: MessageBus | None = None
        self._up = asyncio.Event()
        self._slots = asyncio.Semaphore(_AT_ONCE)

    async def run(self) -> None:
        """Keep a connection until cancelled."""
        attempt = 0
        while True:
            bus = None
            try:
                bus = await self._connect()
                attempt = 0
                self._wake("")
                await bus.wait_for_disconnect()  # type: ignore[no-untyped-call]
            except (OSError, EOFError, DBusError, TimeoutError, Unreachable, TimedOut) as error:
                log.warning("Lost the system bus: %s", error)
            finally:
                self._bus = None
                self._up.clear()
                if bus is not None:
                    bus.disconnect()
            await asyncio.sleep(_PAUSES[min(attempt, len(_PAUSES) - 1)])
            attempt += 1

    async def ready(self) -> None:
        """Wait for the first connection, for the timeout of a call."""
        try:
            async with asyncio.timeout(self._seconds):
                await self._up.wait()
        except TimeoutError as error:
            raise Unreachable("no connection to the system bus") from error

    async def _connect(self) -> MessageBus:
        async with asyncio.timeout(self._seconds):
            bus = await MessageBus(bus_type=BusType.SYSTEM).connect()
            bus.add_message_handler(self._on_signal)
            self._bus = bus
            for rule in _RULES:
                await self.call(
                    ("org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus"),
                    "AddMatch", "s", [rule],
                )  # fmt: skip
            await self._subscribe()
        self._up.set()
        return bus

    async def _subscribe(self) -> None:
        await self._manager("Subscribe")

    async def call(
        self,
        where: tuple[str, str, str],
        member: str,
        signature: str = "",
        body: Sequence[object] = (),
    ) -> list[Any]:
        """Make one call with a timeout. `where` is destination, path and interface.

        Raises Unreachable and TimedOut.
        """
        if self._bus is None:
            raise Unreachable("no connection to the system bus")
        destination, path, interface = where
        message = Message(
            destination=destination, path=path, interface=interface, member=member,
            signature=signature, body=list(body),
        )  # fmt: skip
        try:
            async with self._slots, asyncio.timeout(self._seconds):
                reply = await self._bus.call(message)
        except TimeoutError as error:
            raise TimedOut(f"systemd did not answer {member} in {self._seconds} s") from error
        except (OSError, EOFError) as error:
            raise Unreachable(f"lost the system bus: {error}") from error
        if reply.message_type is MessageType.ERROR:
            text = reply.body[0] if reply.body else reply.error_name
            kind = Unloaded if reply.error_name in _GONE else Unreachable
            raise kind(f"systemd refused {member}: {text}")
        return list(reply.body)

    async def _manager(
        self, member: str, signature: str = "", body: Sequence[object] = ()
    ) -> list[Any]:
        where = (SYSTEMD, MANAGER, f"{SYSTEMD}.Manager")
        return await self.call(where, member, signature, body)

    async def state(self) -> str:
        """The state of the host as a whole: running, degraded, starting, stopping..."""
        return str(await self.get(MANAGER, "Manager", "SystemState"))

    async def list_units(self, patterns: Iterable[str]) -> list[Unit]:
        """The loaded units that match the patterns."""
        reply = await self._manager("ListUnitsByPatterns", "asas", [[], list(patterns)])
        return [_unit(row) for row in reply[0]]

    async def list_named_units(self, names: Iterable[str]) -> list[Unit]:
        """The loaded ones of these units.

        ListUnitsByNames would load the others briefly, and the signals about that would cause the
        next call, without end. hive's unit names contain no characters of patterns.
        """
        wanted = set(names)
        if not wanted:
            return []
        few = len(wanted) <= _PATTERNS  # for each pattern, systemd walks over all its units
        patterns = sorted(wanted) if few else [f"{prefix}*" for prefix in self._prefixes]
        return [unit for unit in await self.list_units(patterns) if unit.name in wanted]

    async def get(self, path: str, interface: str, name: str) -> Any:  # noqa: ANN401 - its type is systemd's
        """One property of an object."""
        where = (SYSTEMD, path, "org.freedesktop.DBus.Properties")
        reply = await self.call(where, "Get", "ss", [f"{SYSTEMD}.{interface}", name])
        return reply[0].value

    async def get_many(self, path: str, names: Iterable[tuple[str, str]]) -> list[Any]:
        """Several properties (interface, name) at once."""
        return await asyncio.gather(*(self.get(path, *name) for name in names))

    def _on_signal(self, message: Message) -> None:
        """Handle a signal; unknown ones are ignored."""
        if message.message_type is not MessageType.SIGNAL:
            return
        match message.member:
            case "PropertiesChanged" if message.path and message.path.startswith(self._paths):
                self._wake(unescape(message.path.removeprefix(UNITS)))
            case "JobRemoved":
                self._wake_unit(str(message.body[2]))
            case "UnitNew" | "UnitRemoved":
                self._wake_unit(str(message.body[0]))
            case "Reloading" if not message.body[0]:
                self._wake("")
            case "NameOwnerChanged" if message.body[2]:
                # systemd re-executed itself and lost its subscribers.
                self._again = asyncio.ensure_future(self._resubscribe())
            case _:
                pass

    async def _resubscribe(self) -> None:
        try:
            await self._subscribe()
        except (Unreachable, TimedOut) as error:
            log.warning("Cannot listen to systemd: %s", error)
        self._wake("")

    def _wake_unit(self, unit: str) -> None:
        if unit.startswith(self._prefixes):
            self._wake(unit)


def _unit(row: Sequence[Any]) -> Unit:
    name, description, load, active, sub, _, path, _, job, _ = row
    return Unit(name, description, load, active, sub, path, job)
