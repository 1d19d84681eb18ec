"""In which branch of the tree a party is: what a branch may have is shared by all in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hive_core.model.branches import branch
from hive_core.model.record import DAEMON, OPERATOR

if TYPE_CHECKING:
    from hive_core.broker.core import Broker


def branch_of(broker: Broker, party: str) -> str:
    """The branch that a party is in; one that is gone is in that of who was above it."""
    above: str | None = party
    while above is not None:
        if (name := broker.hive.name(above)) is not None:
            return branch(broker.hive, name)
        archive = broker.world.ledger.archives.get(above)
        above = archive.parent if archive else None
    return party if party in (OPERATOR, DAEMON) else ""
