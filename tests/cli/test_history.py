"""`hive history` and `hive rollback`."""

from __future__ import annotations

import json

from cli.run import Hive

from hive_core.varlink import Message

ID, COMMIT = "0123456789ab", "1a" * 20
JOB: Message = {"id": "j1", "operation": "", "state": "done", "error": ""}


def test_history_lists_generations_of_one_agent_or_of_all(hive: Hive) -> None:
    row = {
        "agent": "alice", "number": 3, "current": True, "commit": COMMIT, "approval": ID,
        "kind": "config", "requester": "bob", "at": 1.0, "system": "", "failed": "no\x1b[1m hello",
    }  # fmt: skip
    hive.peer.answers["History"] = lambda _: {"generations": [row], "next": None}
    out = hive("history", "alice").out
    assert all(text in out for text in ("alice", "3", "yes", COMMIT[:12], ID, "no⟨U+001B⟩"))
    assert "\x1b" not in out
    assert json.loads(hive("history", "-o", "json").out) == [row]
    assert [param.get("agent") for param in hive.peer.params_of("History")] == ["alice", None]


def test_rollback_waits_for_the_deploy(hive: Hive) -> None:
    hive.peer.answers["Rollback"] = lambda _: {
        "agent": "alice", "approval": ID, "generation": 2, "commit": COMMIT, "job": "j1",
    }  # fmt: skip
    hive.peer.answers["WaitJob"] = lambda _: {**JOB, "state": "failed", "error": "Conflict: bad"}
    done = hive("rollback", "alice", "--to", "2")
    assert (done.status, "generation 2" in done.err) == (1, True)
    (asked,) = hive.peer.params_of("Rollback")
    assert (asked["agent"], asked["to"]) == ("alice", "2")
    assert hive("rollback", "alice", "--no-wait").status == 0
    assert "to" not in hive.peer.params_of("Rollback")[1]
