"""Reads change nothing, and see what the calls before them recorded."""

from __future__ import annotations

import pytest
from fixtures.broker import lend_broker
from fixtures.small_registry import SMALL, LookParams, Noted, NoteParams, Seen

from hive_core.broker.call import Call, Record
from hive_core.broker.operation import operation
from hive_core.ledger.mail.letters import NewMessage
from hive_core.model.wire.record import Relation
from hive_core.policy.rules import ANYONE


@pytest.mark.parametrize("behind_a_write", [False, True])
def test_a_read_that_changes_the_ledger_is_an_error_of_the_daemon(
    caplog: pytest.LogCaptureFixture, *, behind_a_write: bool
) -> None:
    """SQLite would commit the statement alone; in a transaction another call could take it back."""

    def peek(call: Call, params: LookParams) -> Seen:
        """Look, and change something."""
        insert = "INSERT INTO meta VALUES (?, '') RETURNING key"
        call.ledger.connection.rows(insert, (params.near,))
        return Seen(name="", agents=0)

    registry = dict(SMALL)
    operation(action="read", allow=ANYONE, into=registry)(peek)
    with lend_broker(registry) as harness:
        client = harness.client("root")
        if behind_a_write:
            client.ask("Note", {"agent": "ann"})
        client.ask("Peek")
        harness.run()
        assert [row for row in client.replies if "error" in row] == client.replies[-1:]
        assert str(client.replies[-1]["error"]).endswith(".Internal")
        assert "must not change the ledger" in caplog.text


def test_a_read_behind_a_write_finds_what_that_inserted() -> None:
    """Inserts that were held back, and what triggers add to them, do not count as the read's."""

    def peek(call: Call, _params: LookParams) -> Seen:
        """Look at what an earlier call of the batch inserted."""
        return Seen(
            name="", agents=int(call.ledger.connection.value("SELECT COUNT(*) FROM events"))
        )

    def send(call: Call, _params: NoteParams) -> Record[Noted]:
        """Send a message that has a time to live."""
        letter = NewMessage("root", "root", "ann", "ann", Relation.CHILD, "x", ttl=60.0)
        call.ledger.messages.send(letter, call.now)
        return Record(Noted(nonce=0))

    registry = dict(SMALL)
    operation(action="read", allow=ANYONE, into=registry)(peek)
    operation(action="read", allow=ANYONE, into=registry)(send)
    with lend_broker(registry) as harness:
        client = harness.client("root")
        client.ask("Send", {"agent": "ann"})
        client.ask("Peek")
        harness.run()
        assert client.results()[-1]["agents"] == 1
