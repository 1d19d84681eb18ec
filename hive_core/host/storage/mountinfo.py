"""Reads from the kernel which agents' storage is mounted, and watches for changes.

hived has its own mount namespace; mounts of the host appear in it as well.
https://man7.org/linux/man-pages/man5/proc_pid_mountinfo.5.html
"""

from __future__ import annotations

import asyncio
import os
import re
import select
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from hive_core.plan.render import STORES

FILE: Final = Path("/proc/self/mountinfo")
_POINT: Final = 4  # the index of the mount point in a line
_BOTH: Final = 2  # a root and a node
_SETTLE: Final = 0.1  # seconds; a start mounts several things one after another


def mounted_agents(folder: Path, text: str) -> frozenset[str] | None:
    """Agents with both mounts below `folder`; None if mounts of the host do not appear here."""
    if not _follows(folder, text):
        return None
    place = re.compile(rf" {re.escape(str(folder))}/([0-9a-f-]{{36}})/(root|tree) ")
    counts = Counter(uuid for uuid, _ in set(place.findall(text)))
    return frozenset(uuid for uuid, count in counts.items() if count == _BOTH)


def visible_stores(socket_directories: Path, text: str) -> frozenset[tuple[str, str]] | None:
    """Agents and the stores mounted in their socket directories, without replaced ones."""
    if not _follows(socket_directories, text):
        return None
    place = re.compile(
        rf"/(\S*) {re.escape(str(socket_directories))}/([0-9a-f-]{{36}})/(meta|applied) "
    )
    groups = (match.groups() for match in place.finditer(text))
    whole = ((uuid, store) for root, uuid, store in groups if not root.endswith("//deleted"))
    return frozenset(whole)


def _follows(folder: Path, text: str) -> bool:
    """Whether mounts of the host appear below `folder`.

    They do not if the host's own root was private when hived started.
    """
    around = {"/", *map(str, folder.parents), str(folder)}
    lines = [line.split(" ") for line in text.rstrip("\n").split("\n")]
    holding = [fields for fields in lines if len(fields) > _POINT and fields[_POINT] in around]
    nearest = max(holding, key=lambda fields: len(fields[_POINT]), default=[])
    return any(field.startswith("master:") for field in nearest)


class Mounts(NamedTuple):
    """Mounts of agents' storage, and stores in socket directories.

    None if they do not appear here.
    """

    agents: frozenset[str] | None
    stores: frozenset[tuple[str, str]] | None

    def visible_stores(self, uuid: str, otherwise: frozenset[str]) -> frozenset[str]:
        """The stores in an agent's socket directory; `otherwise` if mounts do not appear here."""
        if self.stores is None:
            return otherwise
        return frozenset(store for store in STORES if (uuid, store) in self.stores)


class MountWatch:
    """Watches mounts. `changed` is called with the agents whose mounts were added or removed."""

    def __init__(
        self, folder: Path, socket_directories: Path, changed: Callable[[frozenset[str]], None]
    ) -> None:
        self._folder, self._socket_directories = folder, socket_directories
        self._changed = changed
        self._news = select.poll()
        self._news.register(os.open(FILE, os.O_RDONLY | os.O_CLOEXEC), select.POLLPRI)
        self._last = self._seen = self._read()

    def look(self) -> Mounts:
        """The current mounts.

        The list is long on a large host, so it is read only when it changed.
        """
        if self._news.poll(0):
            self._last = self._read()
        return self._last

    def _read(self) -> Mounts:
        text = FILE.read_text(encoding="utf-8", errors="replace")
        return Mounts(
            mounted_agents(self._folder, text), visible_stores(self._socket_directories, text)
        )

    async def run(self) -> None:
        """Watch until cancelled."""
        # The file is always readable; a change shows as an error, once per open file. An epoll of
        # its own listens to that only, and can be waited for itself.
        watched, news = os.open(FILE, os.O_RDONLY | os.O_CLOEXEC), asyncio.Event()
        epoll, loop = select.epoll(), asyncio.get_running_loop()
        try:
            epoll.register(watched, select.EPOLLPRI)
            loop.add_reader(epoll.fileno(), news.set)
            while True:
                await news.wait()
                epoll.poll(0)
                news.clear()
                await asyncio.sleep(_SETTLE)
                self._compare()
        finally:
            loop.remove_reader(epoll.fileno())
            epoll.close()
            os.close(watched)

    def _compare(self) -> None:
        now = self.look()
        before, self._seen = self._seen, now
        changed = set[str]()
        if now.agents is not None and before.agents is not None:
            changed |= before.agents ^ now.agents
        if now.stores is not None and before.stores is not None:
            changed |= {uuid for uuid, _ in before.stores ^ now.stores}
        if changed:
            self._changed(frozenset(changed))
