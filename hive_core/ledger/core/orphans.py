"""Deletes unreferenced rows of destroyed agents and pruned events."""

from __future__ import annotations

from hive_core.ledger.core.connection import Connection


def forget(connection: Connection, base: int, before: float) -> int:
    """Delete rows of events up to `base`, and of agents destroyed before a time; return how many.

    Former ancestors are kept while the destroyed agent has artifacts or can be restored.
    """
    gone = connection.run(
        "DELETE FROM reads WHERE caller IN (SELECT agent FROM departed WHERE at < ?)", (before,)
    )
    gone += connection.run(
        "DELETE FROM quarantines WHERE agent IN (SELECT agent FROM departed WHERE at < ?)"
        " AND agent NOT IN (SELECT uuid FROM archives)",
        (before,),
    )
    gone += connection.run("DELETE FROM task_events WHERE seq <= ?", (base,))
    return gone + connection.run(
        "DELETE FROM heirs WHERE gone NOT IN (SELECT owner FROM artifacts)"
        " AND gone NOT IN (SELECT uuid FROM archives)"
    )
