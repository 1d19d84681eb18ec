"""Labels of the agents' secrets, and reports that one has expired. Values are elsewhere."""

from __future__ import annotations

import json
from typing import Any

from hive_core.ledger.core.connection import Connection
from hive_core.model.agents.credential import CredentialLabel, ExpiredReport, StoredCredential


def _credential(row: tuple[Any, ...]) -> StoredCredential:
    key, provider, alias, identity, tools, message, link, question = row
    label = CredentialLabel(provider, alias, identity, tuple(json.loads(tools)))
    expired = None if message is None else ExpiredReport(message, link, question)
    return StoredCredential(key, label, expired)


class CredentialStore:
    def __init__(self, connection: Connection) -> None:
        self._db = connection

    def of_agent(self, agent: str) -> dict[str, StoredCredential]:
        """The credentials of an agent (by UUID) that have a row, by key."""
        rows = self._db.rows(
            "SELECT key, provider, alias, identity, tools, message, link, question"
            " FROM credentials WHERE agent = ? ORDER BY key",
            (agent,),
        )
        return {row[0]: _credential(row) for row in rows}

    def set_label(self, agent: str, key: str, label: CredentialLabel) -> None:
        """Write the row of a new value: what was reported of the old one is over."""
        self._db.run(
            "INSERT OR REPLACE INTO credentials (agent, key, provider, alias, identity, tools)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            (agent, key, label.provider, label.alias, label.identity, json.dumps(label.tools)),
        )

    def set_expired(self, agent: str, key: str, report: ExpiredReport) -> None:
        """Note that a credential has expired; it may have no row yet."""
        self._db.run(
            "INSERT INTO credentials (agent, key, message, link, question) VALUES (?, ?, ?, ?, ?)"
            " ON CONFLICT (agent, key) DO UPDATE SET message = excluded.message,"
            " link = excluded.link, question = excluded.question",
            (agent, key, report.message, report.link, report.question),
        )

    def clear_report(self, agent: str, key: str) -> None:
        """Forget the report about the value of a removed secret."""
        self._db.run(
            "UPDATE credentials SET message = NULL, link = NULL, question = NULL"
            " WHERE agent = ? AND key = ?",
            (agent, key),
        )

    def delete_all_of(self, agent: str) -> None:
        """Delete the rows of an agent whose archive has been deleted."""
        self._db.run("DELETE FROM credentials WHERE agent = ?", (agent,))
