"""What a parent hears of the end of its child."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from hive_core.broker.call import Call
from hive_core.ledger.mail.posting import one_line
from hive_core.model.agents.hive import Hive
from hive_core.model.wire.record import DAEMON
from hive_core.operations.notices import tell

EXIT: Final = "child_exit"


def tell_parents(
    call: Call, hive: Hive, names: Collection[str], done: str, why: str = ""
) -> frozenset[str]:
    """Somebody ended these agents: each parent that did not do it itself hears of it.

    Who is ended with its child need not know, and nobody is told what the daemon clears away.
    """
    topics, ended = frozenset[str](), frozenset(names)
    for name in names:
        parent = call.hive.topology.parent(name)
        if parent is None or parent in ended or call.caller in (parent, DAEMON):
            continue
        reason = f": {one_line(why)}" if why else ""
        topics |= tell(call, hive, parent, EXIT, f"{name} was {done} by {call.caller}{reason}")
    return topics
