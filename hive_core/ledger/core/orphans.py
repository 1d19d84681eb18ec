"""Rows that nothing refers to any more, because an agent or an event is gone."""

from __future__ import annotations

from hive_core.ledger.core.connection import Connection


def forget(connection: Connection, base: int, before: float) -> int:
    """Forget rows about events up to `base`, and about agents that went before a moment; how many.

    Who is below an agent that is gone is remembered while something that it stored is there, or
    while it can be restored.
    """
    gone = connection.run(
        "DELETE FROM reads WHERE caller IN (SELECT agent FROM departed WHERE at < ?)", (before,)
    )
    gone += connection.run("DELETE FROM task_events WHERE seq <= ?", (base,))
    return gone + connection.run(
        "DELETE FROM heirs WHERE gone NOT IN (SELECT owner FROM artifacts)"
        " AND gone NOT IN (SELECT uuid FROM archives)"
    )
