"""The branch of the tree that a party belongs to: its agents share the limits of a branch."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from hive_core.model.agents.hive import Hive, branch_top
from hive_core.model.agents.subagent import split_address
from hive_core.model.wire.record import DAEMON, OPERATOR

if TYPE_CHECKING:
    from hive_core.broker.core import Broker


def branch_of(broker: Broker, party: str) -> str:
    """The branch that a party is in now."""

    def parent(uuid: str) -> str | None:
        archive = broker.services.ledger.archives.get(uuid)
        return archive.parent if archive else None

    return branch_in(broker.hive, party, parent)


def branch_in(hive: Hive, party: str, parent: Callable[[str], str | None]) -> str:
    """The branch of a party in this hive.

    A destroyed agent belongs to the branch of its former parent.
    """
    above: str | None = split_address(party)[0]
    while above is not None:
        if (name := hive.name(above)) is not None:
            return branch_top(hive, name)
        above = parent(above)
    return party if party in (OPERATOR, DAEMON) else ""
