"""The judge of the campaigns: it finds nothing in a sound hive, and each kind of damage by name."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from chaos.campaign import Row, silences
from chaos.oracle import Evidence, verdict, verify_tampered_logs
from chaos.soak import Slope
from fixtures.world import World, rows, world

Damage = Callable[[Evidence], object]


def sends(made: World, number: int, kind: str = "") -> Iterator[Row]:
    for index in range(number):
        mark = f"ann/keyed>cid#{index}{kind}"
        sent = made.call("ann", "send", to="cid", body=f"{mark} x", idempotency_key=mark)
        yield {"who": "ann/keyed", "what": "sent", "mark": mark, "id": sent["id"], "key": mark}


def client_rows(made: World) -> Iterator[Row]:
    """What clients would have kept of a short life: letters, of which two are acked; a child."""
    yield {"who": "operator/first", "what": "told", "method": "spawn", "times": 3}
    yield from sends(made, 4)
    result = rows(made.call("cid", "recv", max=3)["messages"])
    for message in result:
        mark = str(message["body"]).partition(" ")[0]
        sender = str(message["from_uuid"])
        yield {
            "who": "cid/reader",
            "what": "got",
            "id": message["id"],
            "sender": sender,
            "mark": mark,
        }
    made.call("cid", "ack", ids=[message["id"] for message in result[:2]])
    yield {"who": "cid/reader", "what": "acked", "ids": [message["id"] for message in result[:2]]}
    for method, words in (("Spawn", {"name": "pet"}), ("Destroy", {"agent": "pet"})):
        reply = made.call("ann", method.lower(), **words)
        yield {"who": "ann/gardener", "what": "did", "method": method, "pet": "pet", "at": 1.0,
               "uuid": reply.get("uuid"), "job": reply["job"]}  # fmt: skip


@pytest.fixture(name="sound", scope="module")
def _sound(tmp_path_factory: pytest.TempPathFactory) -> Evidence:
    folder = tmp_path_factory.mktemp("sound")
    with world(None, "root/ann:lead", "ann/cid") as made:
        result = [{"at": 1.0, **row} for row in client_rows(made)]
        for job in made.ledger.jobs.open():
            made.finish(job.id)
        made.ledger.checkpoint()
        shutil.copytree(made.ledger.connection.path.parent, folder, dirs_exist_ok=True)
    return Evidence(folder, result)


@pytest.fixture(name="evidence")
def _evidence(sound: Evidence) -> Iterator[Evidence]:
    """On the RAM disk: every look at a ledger opens it, with fsyncs."""
    with TemporaryDirectory(prefix="hive-evidence-", dir="/dev/shm") as folder:
        shutil.copytree(sound.folder, folder, dirs_exist_ok=True)
        yield Evidence(Path(folder), [dict(row) for row in sound.rows])


def sql(*statements: str) -> Damage:
    def damage(evidence: Evidence) -> None:
        with closing(sqlite3.connect(evidence.folder / "hive.db")) as database:
            for (trigger,) in database.execute(
                "SELECT name FROM sqlite_schema WHERE type = 'trigger'"
            ).fetchall():
                database.execute(f"DROP TRIGGER {trigger}")
            for statement in statements:
                database.execute(statement)
            database.commit()

    return damage


def row(**values: object) -> Damage:
    return lambda evidence: evidence.rows.append({"at": 9.0, **values})


def deliver_again(evidence: Evidence) -> None:
    """Deliver a message that its reader has acknowledged."""
    evidence.rows.append(next(evidence.of("got")))


def swap_order(evidence: Evidence) -> None:
    first, second, *_ = evidence.of("got")
    first["id"], second["id"] = second["id"], first["id"]
    first["mark"], second["mark"] = second["mark"], first["mark"]


def duplicate_spawn(evidence: Evidence) -> None:
    """A spawn that is in the log twice."""
    (body,) = evidence.query("SELECT body FROM events WHERE body LIKE '%\"uuid\":%' LIMIT 1")[0]
    with closing(sqlite3.connect(evidence.folder / "hive.db")) as database:
        database.execute(
            "INSERT INTO events SELECT MAX(seq) + 1, zeroblob(32), ? FROM events", (body,)
        )
        database.commit()


def foreign_commit(evidence: Evidence) -> None:
    git = ["git", "-C", str(evidence.folder / "meta"), "-c", "user.name=x", "-c", "user.email=x"]
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "x"], check=True)


def delete_spec(evidence: Evidence) -> None:
    (evidence.folder / "meta/agents/cid.json").unlink()


MAKE_UP = (
    "INSERT INTO messages SELECT id + 1, sender, recipient, relation, kind, thread, reply_to,"
    " priority, sent_at, expires_at, body, source, hops FROM messages ORDER BY id DESC LIMIT 1",
    "INSERT INTO queue SELECT inbox, state, rank, id + 1, size, attempt, due, why, died FROM queue"
    " ORDER BY id DESC LIMIT 1",
)
DAMAGES: dict[str, tuple[Damage, str]] = {
    "a letter is gone": (sql("DELETE FROM messages WHERE id = (SELECT MAX(id) FROM messages)"),
                         "lost: "),
    "an ack is gone": (sql("UPDATE queue SET state = 0 WHERE state = 4"), "the ack of "),
    "a letter is there twice": (sql(*MAKE_UP), "doubled: "),
    "a letter without a record": (sql(*MAKE_UP), "sent by "),
    "given after its ack": (deliver_again, "given after its ack: "),
    "out of order": (swap_order, "out of order: "),
    "a job that never ends": (sql("UPDATE jobs SET ended = NULL"), "never ended"),
    "a job that fails": (row(what="job", pet="x", job="j", state="failed"), "failed: "),
    "an effect without a record": (row(who="ann/gardener", what="did", method="Stop", pet="pet",
                                       uuid=None, job="j"), "('ann', 'stop'): 1 heard"),
    "a record too many": (row(who="ann/keyed", what="told", method="send", times=-1),
                          "('ann', 'send'): 3 heard"),
    "a commit without a record": (foreign_commit, "commits differ"),
    "another head": (sql("UPDATE meta SET value = 'x' WHERE key = 'head'"), "the ledger says x"),
    "born twice": (duplicate_spawn, "was made 2 times"),
    "a spec is gone": (delete_spec, "replayed and living differ"),
    "a spawn without a record": (row(who="ann/gardener", what="did", method="Spawn", pet="x",
                                     uuid="u", job="j"), "nothing is recorded of "),
    "the log was edited": (sql("UPDATE events SET body = body || ' ' WHERE seq = 3"),
                           "the audit log breaks at 3"),
    "a fault of the daemon": (row(what="wrong", error="Internal"), "heard: "),
    "a call without an answer": (row(what="stuck", method="Send"), "heard: "),
}  # fmt: skip


def test_a_sound_hive_has_no_findings(evidence: Evidence) -> None:
    assert verdict(evidence) == []


@pytest.mark.parametrize("name", DAMAGES)
def test_each_kind_of_damage_is_named(evidence: Evidence, name: str) -> None:
    damage, expected = DAMAGES[name]
    damage(evidence)
    result = verdict(evidence)
    assert any(expected in line for line in result), result


def test_a_message_deleted_after_its_ack_is_not_lost(evidence: Evidence) -> None:
    sql("DELETE FROM messages WHERE id IN (SELECT id FROM queue WHERE state = 4)",
        "DELETE FROM queue WHERE state = 4")(evidence)  # fmt: skip
    assert verdict(evidence) == []


@pytest.mark.parametrize("seed", range(2))
def test_a_changed_audit_log_is_detected(evidence: Evidence, seed: int) -> None:
    result = verify_tampered_logs(evidence.folder, seed)
    assert len(result) == 6
    assert None not in result.values()


def test_the_silence_after_a_kill_is_the_longest_pause_that_begins_with_it() -> None:
    heard_at: list[Row] = [{"what": "sent", "at": at} for at in (1.0, 1.1, 2.5, 2.6, 4.0)]
    assert silences(heard_at, [1.05, 3.0]) == [pytest.approx(1.4), pytest.approx(1.4)]


def test_a_slope_is_that_of_the_line_and_its_error_that_of_the_noise() -> None:
    straight = Slope.of([(60.0 * x, 5.0 + x) for x in range(10)])
    assert straight.an_hour == pytest.approx(60)
    assert straight.error == pytest.approx(0, abs=1e-6)
    noisy = Slope.of([(60.0 * x, float(x % 2)) for x in range(40)])
    assert abs(noisy.an_hour) < 2 * noisy.error
