"""What the clients heard, against what the ledger, the audit log and the meta repo hold."""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from random import Random
from typing import Any

from hive_core.ledger.core.ledger import Ledger
from hive_core.ledger.mail.letters import text_id

Row = dict[str, Any]
READY, LEASED, HELD, DEAD, DONE = range(5)
# Events of one operation each, and how the log calls what clients call a verb.
EDITS = {
    "edited": (
        "UPDATE events SET body = replace(body, '\"time\":1', '\"time\":2') WHERE seq = :one",
    ),
    "sealed anew": (
        "UPDATE events SET body = body || ' ', digest = zeroblob(32) WHERE seq = :one",
    ),
    "deleted": ("DELETE FROM events WHERE seq = :one",),
    "beheaded": ("DELETE FROM events WHERE seq <= :one",),
    "cut off": ("DELETE FROM events WHERE seq > :one",),
    "swapped": (
        "UPDATE events SET seq = -seq WHERE seq IN (:one, :one + 1)",
        "UPDATE events SET seq = 2 * :one + 1 + seq WHERE seq < 0",
    ),
}
JOBS = {"spawn", "destroy", "move", "start", "stop", "restart", "kill"}


@dataclass(frozen=True)
class Evidence:
    """A copy of what is on disk, and the rows of the clients in the order they came."""

    folder: Path
    rows: list[Row]

    def of(self, *kinds: str) -> Iterator[Row]:
        return (row for row in self.rows if row["what"] in kinds)

    @cached_property
    def acked(self) -> set[str]:
        """Ids whose ack was answered."""
        return {id_ for row in self.of("acked") for id_ in row["ids"]}

    @cached_property
    def maybe(self) -> set[str]:
        """Ids whose ack was asked for."""
        return {id_ for row in self.of("acked", "acking") for id_ in row["ids"]}

    def query(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(self.folder / "hive.db")) as database:
            return database.execute(sql, values).fetchall()

    @cached_property
    def mail(self) -> dict[str, tuple[str, str, int]]:
        """id -> mark, uuid of the sender, where it stands."""
        rows = self.query(
            "SELECT m.id, m.body, p.party, q.state FROM messages m JOIN parties p"
            " ON p.id = m.sender JOIN queue q ON q.inbox = m.recipient AND q.id = m.id"
        )
        return {text_id(id_): (body.partition(" ")[0], uuid, at) for id_, body, uuid, at in rows}

    @cached_property
    def events(self) -> list[Row]:
        return [json.loads(body) for (body,) in self.query("SELECT body FROM events ORDER BY seq")]

    @cached_property
    def commits(self) -> list[str]:
        """Of the branch, the oldest first."""
        command = ["git", "-C", str(self.folder / "meta"), "rev-list", "--reverse", "HEAD"]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()

    @cached_property
    def uuids(self) -> dict[str, str]:
        """Names that events know."""
        result = {event["fields"].get("caller_name", ""): event["caller"] for event in self.events}
        return {name: uuid for name, uuid in result.items() if name}


def verdict(evidence: Evidence) -> list[str]:
    """Everything that must not be; empty is what is promised."""
    with closing(Ledger.open(evidence.folder / "hive.db")) as ledger:
        broken = ledger.events.verify()
    checks = (
        _client_faults,
        _lost_messages,
        _doubled_messages,
        _came_again,
        _in_order,
        _jobs,
        _record_faults,
        _history,
        _living,
    )
    result = [line for check in checks for line in check(evidence)]
    return [f"the audit log breaks at {broken}"] * (broken is not None) + result


def _client_faults(evidence: Evidence) -> Iterator[str]:
    """The daemon has no fault, the first result stays, and no caller waits for ever."""
    for row in evidence.of("wrong", "stuck"):
        yield f"heard: {row}"


def _lost_messages(evidence: Evidence) -> Iterator[str]:
    """What was acknowledged is there, or was acked by its reader."""
    for row in evidence.of("sent"):
        if row["id"] not in evidence.mail and row["id"] not in evidence.maybe:
            yield f"lost: {row}"
    for id_ in evidence.acked & evidence.mail.keys():
        if evidence.mail[id_][2] not in {DONE, DEAD}:
            yield f"the ack of {id_} is lost: {evidence.mail[id_]}"


def _doubled_messages(evidence: Evidence) -> Iterator[str]:
    """Each body is in one message, after any repetition."""
    ids: dict[str, set[str]] = defaultdict(set)
    for id_, (mark, _, _) in evidence.mail.items():
        ids[mark].add(id_)
    for row in evidence.of("got", "sent"):
        ids[row["mark"]].add(row["id"])
    for mark, message_ids in ids.items():
        if ">" in mark and len(message_ids) > 1:
            yield f"doubled: {mark} is {sorted(message_ids)}"


def _came_again(evidence: Evidence) -> Iterator[str]:
    """An acknowledged message is not delivered again."""
    done: set[tuple[str, str]] = set()
    for row in evidence.of("got", "acked"):
        if row["what"] == "acked":
            done.update((row["who"], id_) for id_ in row["ids"])
        elif (row["who"], row["id"]) in done:
            yield f"given after its ack: {row}"


def _in_order(evidence: Evidence) -> Iterator[str]:
    """The first time that a reader sees each letter of one pair is in the order of sending."""
    seen: set[str] = set()
    last: dict[str, int] = {}
    for row in evidence.of("got"):
        pair, _, number = row["mark"].rpartition("#")
        if row["id"] in seen or ">" not in pair:
            continue
        seen.add(row["id"])
        if int(number) <= last.get(pair, -1):
            yield f"out of order: {row} after {last[pair]}"
        last[pair] = int(number)


def _jobs(evidence: Evidence) -> Iterator[str]:
    """Every job ended, and those that nothing overtook ended well, or for want of room."""
    for job, operation in evidence.query("SELECT job, operation FROM jobs WHERE ended IS NULL"):
        yield f"job {job} ({operation}) never ended"
    for row in evidence.of("job"):
        # Stops and moves of what is down, and starts of what is up, end well too.
        full = str(row.get("error")).startswith("StorageFull")
        if row["state"] != "done" and not full and not _overtaken(evidence, row):
            yield f"failed: {row}"


def _overtaken(evidence: Evidence, failed: Row) -> bool:
    """Something was told to the same pet shortly before, and was not waited for."""
    for row in reversed([r for r in evidence.of("did", "job") if r.get("pet") == failed["pet"]]):
        if row["at"] < failed["at"] and row.get("job") != failed["job"]:
            return bool(row["what"] == "did")
    return False


def _record_faults(evidence: Evidence) -> Iterator[str]:
    """R24: one record for each effect. With a key there is exactly one; without a key at most one
    more for each call whose answer nobody heard."""
    events = Counter(
        (event["fields"].get("caller_name"), event["operation"])
        for event in evidence.events if event["allowed"]
    )  # fmt: skip
    heard, unknown = _count_calls(evidence)
    for key in events.keys() | heard.keys():
        name, operation = key
        if name in {"hived", None} or operation not in {"send", "ack", "nack", *JOBS}:
            continue
        if not heard[key] <= events[key] <= heard[key] + unknown[key]:
            yield f"{key}: {heard[key]} heard, {unknown[key]} unknown, {events[key]} recorded"
    yield from _sends(evidence)
    # Those of the daemon's own follow from a commit that somebody made by hand.
    asked = evidence.query("SELECT operation FROM jobs WHERE caller != 'daemon'")
    jobs = Counter(operation for (operation,) in asked)
    for operation in JOBS & jobs.keys():
        recorded = sum(
            count
            for (_, recorded_operation), count in events.items()
            if recorded_operation == operation
        )
        if recorded != jobs[operation]:
            yield f"{operation}: {jobs[operation]} jobs, {recorded} records"


def _count_calls(
    evidence: Evidence,
) -> tuple[Counter[tuple[str | None, str]], Counter[tuple[str | None, str]]]:
    heard: Counter[tuple[str | None, str]] = Counter()
    unknown: Counter[tuple[str | None, str]] = Counter()
    verbs = {"sent": "send", "acked": "ack", "nacked": "nack"}
    for row in evidence.of("sent", "acked", "nacked", "did", "unknown", "told"):
        name = row["who"].partition("/")[0]
        if row["what"] == "unknown":
            unknown[name, row["method"]] += 1
        elif row["what"] == "told":
            heard[name, row["method"]] += row["times"]
        else:
            heard[name, verbs.get(row["what"]) or row["method"].lower()] += 1
    return heard, unknown


def _sends(evidence: Evidence) -> Iterator[str]:
    """As many messages of each sender as the log has sends: those in the queue, and those that
    were cleared away after their ack."""
    senders: dict[str, set[str]] = defaultdict(set)
    for id_, (_, uuid, _) in evidence.mail.items():
        senders[uuid].add(id_)
    for row in evidence.of("got"):
        senders[row["sender"]].add(row["id"])
    events = Counter(
        event["caller"] for event in evidence.events
        if event["operation"] == "send" and event["allowed"]
    )  # fmt: skip
    for uuid in events.keys() | senders.keys() - {"daemon"}:
        if events[uuid] != len(senders[uuid]):
            yield f"sent by {uuid}: {events[uuid]} records, {len(senders[uuid])} messages"


def _history(evidence: Evidence) -> Iterator[str]:
    """The chain of commits is the chain of recorded changes, one for one and in that order."""
    changes = [event["commit"] for event in evidence.events if event["kind"] in {"change", "adopt"}]
    if changes != evidence.commits[-len(changes) :]:
        yield f"{len(changes)} changes are recorded, {len(evidence.commits)} commits differ"
    head = evidence.query("SELECT value FROM meta WHERE key = 'head'")[0][0]
    if head != evidence.commits[-1]:
        yield f"the ledger says {head}, the branch {evidence.commits[-1]}"


def _living(evidence: Evidence) -> Iterator[str]:
    """Replayed, the log gives the agents that are there; each spawn happened once."""
    born = Counter(
        event["fields"]["uuid"] for event in evidence.events
        if event["kind"] == "change" and "uuid" in event["fields"]
    )  # fmt: skip
    dead = {
        uuid for event in evidence.events if event["operation"] == "destroy" and event["allowed"]
        for uuid in event["fields"]["uuids"]
    }  # fmt: skip
    yield from (f"{uuid} was made {times} times" for uuid, times in born.items() if times != 1)
    folder = evidence.folder / "meta/agents"
    living = {json.loads(path.read_text())["uuid"] for path in folder.glob("*.json")}
    # hived makes the root agent by itself, and keeps it.
    root = {json.loads((folder / "root.json").read_text())["uuid"]}
    if (born.keys() | root) - dead != living:
        yield f"replayed and living differ: {(born.keys() | root) - dead ^ living}"
    for row in evidence.of("did"):
        if row["method"] == "Spawn" and row["uuid"] and row["uuid"] not in born:
            yield f"nothing is recorded of {row}"


def verify_tampered_logs(folder: Path, seed: int) -> Mapping[str, int | None]:
    """What `verify` says of logs that somebody changed behind the daemon's back."""
    random = Random(seed)  # noqa: S311 - a schedule, no secret
    with closing(sqlite3.connect(folder / "hive.db")) as database:
        ((last,),) = database.execute("SELECT MAX(seq) FROM events")
    one = {"one": random.randint(2, last - 1)}
    return {name: _verify_tampered(folder, script, one) for name, script in EDITS.items()}


def _verify_tampered(folder: Path, script: tuple[str, ...], one: Mapping[str, int]) -> int | None:
    copy = folder / "tampered.db"
    shutil.copy(folder / "hive.db", copy)
    with closing(sqlite3.connect(copy)) as database:
        for statement in script:
            database.execute(statement, one)
        database.commit()
    with closing(Ledger.open(copy)) as ledger:
        return ledger.events.verify()


def lines(texts: Iterable[str], most: int = 20) -> str:
    shown = list(texts)
    return "\n".join([*shown[:most], f"({len(shown)} in all)"])
