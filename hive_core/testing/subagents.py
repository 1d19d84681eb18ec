"""The sockets of sub-agents in memory: which of them listen."""

from __future__ import annotations

from hive_core.ledger.core.ledger import Ledger
from hive_core.model.agents.subagent import SUBAGENT_UIDS, address


class MemorySubAgentSockets:
    """`listening`: the uid that the sockets of each sub-agent accept, by its party.

    `networked`: those of them that have a socket to hosts.

    Without a ledger they listen for ever.
    """

    def __init__(self, ledger: Ledger | None = None) -> None:
        self._ledger = ledger
        self.listening: dict[str, int] = {}
        self.networked: set[str] = set()
        self._new: set[str] = set()

    async def open(self, agent: str, id_: str, uid: int, *, has_network: bool) -> None:
        """Listen for a sub-agent."""
        if uid not in SUBAGENT_UIDS:
            raise ValueError(f"{uid} is not the uid of a sub-agent")
        self.listening[address(agent, id_)] = uid
        if has_network:
            self.networked.add(address(agent, id_))
        self._new.add(address(agent, id_))

    def settle(self, agent: str, id_: str) -> None:
        """The call that opened them has ended."""
        self._new.discard(address(agent, id_))
        self._close_ended()

    def on_topics(self, topics: frozenset[str]) -> None:
        """Close the sockets of sub-agents that ended."""
        if any(topic.startswith("subagent:") for topic in topics):
            self._close_ended()

    def _close_ended(self) -> None:
        if self._ledger is None:
            return
        known = {sub.party for sub in self._ledger.subagents.all()}
        for party in self.listening.keys() - known - self._new:
            del self.listening[party]
            self.networked.discard(party)
