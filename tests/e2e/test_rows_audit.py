"""The audit log and `hive why`, tested through the sockets in the containers: row H27."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import pytest
from e2e.authority_tree import TREE, above, events_of_request, make_authority_host
from e2e.hivehost import HiveHost
from e2e.shared_hosts import SharedHost

pytestmark = pytest.mark.lab
TAMPERING = {
    "edit": "UPDATE events SET body = replace(body, 'operator', 'nobody') WHERE seq ="
    " (SELECT min(seq) FROM events WHERE body LIKE '%operator%')",
    "cut": "DELETE FROM events WHERE seq = (SELECT max(seq) FROM events)",
}


@pytest.fixture(scope="module")
def host(shared_host: SharedHost) -> HiveHost:
    return make_authority_host(shared_host)


@pytest.fixture(autouse=True)
def tidy(host: HiveHost) -> Iterator[None]:
    yield
    host.prune(TREE)


def test_every_change_and_refusal_is_an_event(host: HiveHost) -> None:
    """H27: who, what, on whom, by which rule, why, which commit; in one gap-free row."""
    before = host.events(last=1)[0]["seq"]
    commit = host.call("Status")["commit"]
    host.ask("ben", "Stop", agent="lead")
    host.ask("ben", "Stop", agent="cid")
    host.ask("ann", "Stop", agent="cid", wait=20)
    host.ask("ann", "Start", agent="cid", wait=20)
    host.ask("ann", "ListAgents")
    host.call("Allow", agent="cid", other="island")
    events = host.events(after=str(before))
    keys = {"seq", "time", "kind", "caller", "operation", "target", "allowed", "rule", "reason",
            "commit", "request"}  # fmt: skip
    assert all(keys <= event.keys() for event in events)
    assert [event["seq"] for event in events] == [*range(before + 1, before + 1 + len(events))]
    events = events_of_request(events)
    result = [
        (event["caller"], event["operation"], event["target"], event["allowed"]) for event in events
    ]
    assert result == [
        ("ben", "stop", "lead", False), ("ben", "stop", "cid", False), ("ann", "stop", "cid", True),
        ("ann", "start", "cid", True), ("operator", "allow", "cid", True),
    ]  # fmt: skip
    assert [event["commit"] for event in events[:4]] == [commit] * 4
    assert events[4]["commit"] == host.call("Status")["commit"] != commit
    assert all(event["rule"] and event["reason"] and event["request"] for event in events)
    assert len({event["request"] for event in events}) == len(events)
    host.call("Disallow", agent="cid", other="island")
    assert host.ask("root", "ListEvents").error == "NotAllowed"
    assert host.ask("root", "Why", caller="cid", operation="stop").error == "NotAllowed"
    host.close_connections("cid")


def test_why_predicts_the_decision(host: HiveHost) -> None:
    """H27: the same answer as the deed, and nothing is done or recorded."""
    before = host.events(last=1)[0]["seq"]
    for caller, target in product(TREE, TREE):
        for operation in ("stop", "destroy", "get_logs"):
            reply = host.call("Why", caller=caller, operation=operation, target=target)
            own = operation == "get_logs" and caller == target
            assert reply["allowed"] == (own or caller in above(target)), (caller, operation, target)
            assert reply["rule"]
            assert reply["reason"]
    reply = host.call("Why", caller="ann", operation="stop", target="cid")
    assert reply.parameters.keys() == {"allowed", "action", "rule", "reason", "chain", "commit"}
    assert reply["chain"] == ["cid", "ann"]
    assert host.hive("why", "lead", "move", "cid", "ben").startswith("allowed\n")
    done = host.run("hive", "why", "ann", "move", "cid", "ben", check=False)
    assert (done.returncode, done.stdout[:8]) == (5, "refused\n")
    assert host.fails(2, "why", "ann", "fly", "cid")
    assert host.events(last=1)[0]["seq"] == before
    assert host.tree() == TREE


def audit_alarms(host: HiveHost) -> list[str]:
    return [alarm for alarm in host.call("Status")["alarms"] if "audit" in alarm]


def test_tampering_with_the_audit_log_is_detected(host: HiveHost) -> None:
    """H27: an edited or cut-off event is an alarm; test_rows_kill.py has each way in a copy."""
    assert not audit_alarms(host)
    host.run("systemctl", "stop", "hived.service")
    host.run("cp", "-a", "/var/lib/hive/hive.db", "/var/lib/hive/kept.db")
    as_hive = ("setpriv", "--reuid=hive", "--regid=hive", "--init-groups", "/usr/bin/python3")
    back = "cd /var/lib/hive; rm -f hive.db-wal hive.db-shm; cp -a kept.db hive.db"
    for change in TAMPERING.values():
        code = f"import sqlite3; d = sqlite3.connect(DB); d.execute({change!r}); d.commit()"
        host.run(*as_hive, "-Ic", f"DB = '/var/lib/hive/hive.db'; {code}; d.close()")
        host.run("systemctl", "start", "hived.service")
        host.until(lambda: audit_alarms(host), f"not found: {change}")
        host.run("systemctl", "stop", "hived.service")
        host.run("sh", "-ec", back)
    host.run("systemctl", "start", "hived.service")
    assert not audit_alarms(host)
    host.close_connections()
