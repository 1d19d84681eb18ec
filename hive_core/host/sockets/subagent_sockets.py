"""The sockets of sub-agents: two or three for each, in `run/sub/ID/` beside those of its agent.

They are hived's own files in a directory of its own, like the sockets of the agent, and root does
nothing with them. They end with the sub-agent, and with the daemon: no store keeps them.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from hive_core.errors import HiveError, Internal
from hive_core.host.sockets.server import SocketServer
from hive_core.host.sockets.service_sockets import ServiceSockets
from hive_core.ledger.core.ledger import Ledger
from hive_core.model.agents.subagent import SUBAGENT_UIDS, address, split_address
from hive_core.model.config.settings import Paths

log = logging.getLogger(__name__)
_TOPIC: Final = "subagent:"
# Every uid of the container may look; the peer's uid decides who may connect.
_MODE: Final = 0o755


class SubAgentEgress(Protocol):
    """The part of the sockets of hive-egress that serves sub-agents."""

    def open_subagent(self, party: str, directory: Path, uid: int) -> None: ...
    def close(self, uuid: str) -> None: ...


@dataclass(frozen=True, slots=True)
class SubAgentServices:
    """What serves sub-agents beside hived. `egress` connects those that have a network."""

    models: ServiceSockets
    egress: Callable[[], SubAgentEgress]


class SubAgentSocketPairs:
    """Opens and closes the sockets; the ledger says which sub-agents there are."""

    def __init__(
        self, sockets: Callable[[], SocketServer], services: SubAgentServices, paths: Paths,
        ledger: Ledger, name: Callable[[str], str],
    ) -> None:  # fmt: skip
        self._sockets, self._services = sockets, services
        self._paths, self._ledger, self._name = paths, ledger, name
        self._open: set[str] = set()
        # Those of them that the ledger cannot have yet: their call has not ended.
        self._new: set[str] = set()

    @property
    def parties(self) -> frozenset[str]:
        """The sub-agents that have sockets, as `UUID/ID`."""
        return frozenset(self._open)

    async def open(self, agent: str, id_: str, uid: int, *, has_network: bool) -> None:
        """Listen for a sub-agent of the agent, on peers with this uid of its container only."""
        base = self._ledger.ranges.base(agent)
        if base is None or uid not in SUBAGENT_UIDS:
            raise Internal(f"cannot listen for a sub-agent: {agent} has no uid {uid}")
        party = address(agent, id_)
        self._open.add(party)
        self._new.add(party)
        try:
            folder = self._make_folder(agent, id_)
            await self._sockets().listen_subagent(party, folder / "broker.sock", base + uid)
            model = folder / "model.sock"
            self._services.models.open_subagent(party, self._name(agent), model, base + uid)
            if has_network:
                self._services.egress().open_subagent(party, folder, base + uid)
        except (HiveError, OSError) as error:
            self._close(party)
            raise Internal(f"cannot listen for a sub-agent: {error}") from error

    def settle(self, agent: str, id_: str) -> None:
        """The call that opened them has ended: keep them if the ledger has the sub-agent."""
        self._new.discard(address(agent, id_))
        self._close_ended()

    def on_topics(self, topics: frozenset[str]) -> None:
        if any(topic.startswith(_TOPIC) for topic in topics):
            self._close_ended()

    def stop(self) -> None:
        """Close all: they end with the daemon."""
        for party in list(self._open):
            self._close(party)

    def remove_left(self) -> None:
        """Remove what a daemon left that did not stop by itself."""
        for agent in self._ledger.ranges.all():
            _remove(self._paths.subagents(agent))

    def _close_ended(self) -> None:
        """Close the sockets of all sub-agents that the ledger does not have."""
        if ended := self._open - self._new:
            for party in ended - {sub.party for sub in self._ledger.subagents.all()}:
                self._close(party)

    def _make_folder(self, agent: str, id_: str) -> Path:
        folder = self._paths.subagents(agent) / id_
        for made in (folder.parent, folder):
            made.mkdir(exist_ok=True)
            made.chmod(_MODE)  # whatever the umask is
        return folder

    def _close(self, party: str) -> None:
        self._open.discard(party)
        self._new.discard(party)
        self._services.models.close(party)
        self._services.egress().close(party)
        self._sockets().close(party)
        agent, id_ = split_address(party)
        _remove(self._paths.subagents(agent) / id_)


def _remove(folder: Path) -> None:
    try:
        shutil.rmtree(folder)
    except FileNotFoundError:
        pass
    except OSError as error:
        log.warning("Cannot remove %s: %s", folder, error)
