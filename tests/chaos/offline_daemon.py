"""A daemon without sockets: its stores on disk, opened as hived opens them, and its broker."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fixtures.meta_repo import git
from fixtures.world import at_once

from hive_core import varlink
from hive_core.broker.batch import Services
from hive_core.broker.connection import ClientConnection, SlowRead
from hive_core.broker.core import Broker
from hive_core.broker.operation import Result, camel
from hive_core.errors import HIVE, HiveError, from_wire
from hive_core.host.config.diffs import ReviewDiffs
from hive_core.host.git.manual_commits import ManualCommits
from hive_core.host.storage.deferred_reads import DeferredReads
from hive_core.host.storage.stores import Stores
from hive_core.ledger.core.ballast import Ballast
from hive_core.ledger.mail.letters import text_id
from hive_core.model.config.settings import Paths, RootAgentSettings, Settings
from hive_core.model.wire.record import OPERATOR
from hive_core.operations import load
from hive_core.operations.triggers.fires import fire_triggers
from hive_core.plan.desired import ReconcilePlan
from hive_core.reconcile.deps import BrokerHandle as Given
from hive_core.reconcile.deps import Ports
from hive_core.reconcile.observed import ObservedState
from hive_core.reconcile.timers.upkeep import Upkeep
from hive_core.testing import (
    ManualClock,
    MemoryJobs,
    MemoryJournal,
    MemoryMachines,
    MemorySubAgentSockets,
)

Reply = dict[str, Any]
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_ID = re.compile(r"\b[0-9a-f]{12}\b")  # of fires and tasks: another one in each life


class OfflineDaemon:
    """One run of a daemon that has no sockets: opened, called, and closed or killed."""

    def __init__(self, folder: Path, ballast: int = 0) -> None:
        self.folder = folder
        paths = Paths(state=folder, runtime=folder / "run")
        self.settings = Settings(
            paths=paths, ballast=ballast, root=RootAgentSettings(autostart=False)
        )
        self.clock = ManualClock()
        self.stores = Stores.open(self.settings)
        ledger, repo = self.stores.ledger, self.stores.repo
        self.look = ObservedState.build(ledger, self.settings, self.stores.hive, self.clock)
        self.look.damage = self.stores.damage
        result = self.stores.vault, self.stores.contents
        world = Services(ledger, repo, self.settings, self.look, self.clock, *result)
        registry = self.stores.served_operations(load())
        self.broker = Broker(world, self.stores.hive, registry, {})
        self.ballast = Ballast(paths.ballast, ballast)
        self.look.disk_is_full = lambda: self.ballast.short
        self.broker.release_ballast, self.broker.disk_full = (
            self.ballast.release,
            lambda: self.ballast.spent,
        )
        self.hand = ManualCommits(repo, self.broker, self.look)
        self.broker.branch_moved = self.hand.check_branch
        if self.stores.recovery is not None:
            self.hand.apply_recovery(self.stores.recovery)
        self._woken = False
        self.broker.attach(self)

    @property
    def upkeep(self) -> Upkeep:
        ledger, clock = self.stores.ledger, self.clock
        machines = MemoryMachines()
        jobs = MemoryJobs(machines)
        ports = Ports(machines, MemoryJournal(), jobs, clock, ledger, self.settings)
        result = Given(lambda: self.broker.hive, self.broker.touch, self.broker.perform)
        return Upkeep(ports, result)

    def wake(self) -> None:
        self._woken = True

    def read(self, line: ClientConnection, read: SlowRead) -> None:
        """What is slow is done at once, and in one thread: each life is the same, step by step."""
        self.stores.contents.beside = self.stores.vault.beside = at_once
        diff = ReviewDiffs(self.settings.paths.applied).read
        sockets = MemorySubAgentSockets(self.stores.ledger)
        reads = DeferredReads(MemoryJournal(), self._nothing, diff, {}, self._no_look, sockets)
        self.broker.on_read_completed(line, asyncio.run(_read(read, reads)))

    async def _nothing(self) -> ReconcilePlan:
        return ReconcilePlan()

    async def _no_look(self) -> None:
        """There is no host."""

    def call(self, operation: str, by: str = OPERATOR, /, **parameters: object) -> Reply:
        """One call, answered; raises the error that it is answered with."""
        replies: list[Reply] = []

        def send(data: bytes, _closing: bool) -> None:  # noqa: FBT001 - as Line.send is called
            replies.extend(varlink.decode(frame) for frame in data.split(b"\0")[:-1])

        party = by if by == OPERATOR else self.broker.hive.spec(by).id
        frame = varlink.encode({"method": HIVE + camel(operation), "parameters": parameters})
        self.broker.receive(ClientConnection(party, 0, send), [frame[:-1]])
        while self._woken:
            self._woken = False
            self.broker.serve_batch()
        (reply,) = replies
        result: Reply = reply.get("parameters", {})
        if "error" in reply:
            raise from_wire(str(reply["error"]), result)
        return result

    def uuid(self, name: str) -> str:
        return self.broker.hive.spec(name).id

    def close(self) -> None:
        self.stores.ledger.close()


_BY_UUID = ("runs", "archives", "tombstones", "keys")
TABLES = {
    "runs": "SELECT agent, wanted, nonce, reason FROM runs ORDER BY agent",
    # What has just come in may have no place in the queue yet (ledger/mail/mailboxes.py).
    "messages": "SELECT p.party, COALESCE(q.state, 0), COALESCE(q.attempt, 0), m.body"
    " FROM messages m JOIN parties p ON p.id = m.recipient"
    " LEFT JOIN queue q ON q.inbox = m.recipient AND q.id = m.id ORDER BY m.id",
    "keys": "SELECT caller, key, operation FROM keys ORDER BY caller, key",
    "jobs": "SELECT operation, caller, goals, state FROM jobs ORDER BY id",
    "ranges": "SELECT base, agent FROM ranges ORDER BY base",
    "archives": "SELECT uuid, name, parent FROM archives ORDER BY uuid",
    "tombstones": "SELECT uuid FROM tombstones ORDER BY uuid",
    "triggers": "SELECT name, act, due, fired FROM triggers ORDER BY number",
    "fires": "SELECT state, count, detail FROM fires ORDER BY number",
    "artifacts": "SELECT name, version, size, digest, latest FROM artifacts ORDER BY number",
    "events": "SELECT body FROM events ORDER BY seq",
}


def durable_state(daemon: OfflineDaemon) -> Reply:
    """Everything that is durable, without what differs between two runs of the same."""
    connection, repo = daemon.stores.ledger.connection, daemon.stores.repo
    hive = daemon.broker.hive
    reply: Reply = {name: connection.rows(sql) for name, sql in TABLES.items()}
    reply["events"] = [_event(json.loads(body)) for (body,) in reply["events"]]
    reply["tree"] = dict(sorted(hive.topology.parents.items()))
    reply["specs"] = {name: spec.model_dump(mode="json") for name, spec in hive.specs.items()}
    reply["refused"] = len(repo.refusals())
    names = {**hive.names, **{archive[0]: archive[1] for archive in reply["archives"]}}
    text = json.dumps(reply, sort_keys=True)
    text = _UUID.sub(lambda uuid: names.get(uuid[0], "somebody"), text)
    reply = json.loads(_ID.sub("an id", text))
    for name in _BY_UUID:
        reply[name].sort()
    return reply


def _event(body: Reply) -> list[object]:
    return [body[key] for key in ("kind", "caller", "operation", "target", "allowed")]


def faults(daemon: OfflineDaemon, *, deep: bool) -> list[str]:
    """Inconsistencies of the stores; there are none after any crash. `deep` also runs git fsck."""
    repo, ledger, meta = daemon.stores.repo, daemon.stores.ledger, daemon.settings.paths.meta
    faults_ = [daemon.stores.damage] if daemon.stores.damage else []
    faults_ += [fault.text for fault in repo.verify()]
    if repo.head() != ledger.head:
        faults_.append(f"the branch is at {repo.head()}, the ledger at {ledger.head}")
    if (broken := ledger.events.verify()) is not None:
        faults_.append(f"the audit log is broken at {broken}")
    if (sound := ledger.connection.value("PRAGMA integrity_check")) != "ok":
        faults_.append(f"the ledger: {sound}")
    faults_ += [f"changed by nobody: {changed_file}" for changed_file in repo.changed_files()]
    locks = [meta / ".git" / name for name in ("refs/heads/main.lock", "index.lock")]
    faults_ += [f"left behind: {lock}" for lock in locks if lock.exists()]
    return faults_ + (_deep(meta) if deep else [])


def _deep(meta: Path) -> list[str]:
    try:
        said = [git(meta, "fsck", "--strict", "--no-dangling"), git(meta, "status", "--porcelain")]
    except subprocess.CalledProcessError as error:
        said = [error.stdout + error.stderr]
    return [f"git: {text}" for text in said if text]


@dataclass(frozen=True)
class DurableChange:
    """A call that changes the disk at once: after a crash the old or the new state is there.

    `before` runs in the previous daemon, `ready` in this one. With `again` the call is repeated
    after a crash with the same key, as a client would. With `opens` the opening of the daemon is
    interrupted, on an `empty` disk or not.
    """

    do: Callable[[OfflineDaemon], object]
    before: Callable[[OfflineDaemon], object] = lambda _: None
    ready: Callable[[OfflineDaemon], object] = lambda _: None
    again: bool = True
    opens: bool = False
    empty: bool = False
    closes: bool = False


async def _read(read: SlowRead, reads: DeferredReads) -> Result | HiveError:
    try:
        return await read(reads)
    except HiveError as error:
        return error


def asks(operation: str, /, **parameters: object) -> DurableChange:
    """A call of the operator's with an idempotency key."""
    parameters["idempotency_key"] = "k"
    return DurableChange(lambda daemon: daemon.call(operation, OPERATOR, **parameters))


def _restore(daemon: OfflineDaemon) -> None:
    (archive,) = daemon.call("list_archives")["archives"] or [{"id": daemon.uuid("old")}]
    daemon.call("restore", id=archive["id"], idempotency_key="k")


def _ack(daemon: OfflineDaemon) -> None:
    first = daemon.stores.ledger.connection.value("SELECT MIN(id) FROM messages WHERE body = 'one'")
    daemon.call("ack", "lead", ids=[text_id(first)], idempotency_key="k")


def _set_triggers(daemon: OfflineDaemon) -> None:
    for kind, agent in (("message", "lead"), ("task", "writer")):
        action = {"kind": kind, "text": "look"}
        daemon.call("set_trigger", name=kind, agent=agent, when={"every": 60.0}, action=action)


def _fire(daemon: OfflineDaemon) -> None:
    """What the agenda does when the time has come."""
    daemon.clock.advance(60)
    at = daemon.stores.ledger.triggers.next_due(spawns=False)
    if at is not None and at <= daemon.clock.now():
        daemon.broker.perform("fire_triggers", fire_triggers)


def by_hand(text: str) -> Callable[[OfflineDaemon], None]:
    """A commit that an operator makes while the daemon does not run."""

    def commit(daemon: OfflineDaemon) -> None:
        file = daemon.settings.paths.meta / "topology.json"
        file.write_text(text, encoding="utf-8")
        git(file.parent, "commit", "-qam", "by hand")

    return commit


def nothing(_: OfflineDaemon) -> None:
    """No further work follows."""


def look(daemon: OfflineDaemon) -> None:
    """The branch may have moved."""
    daemon.hand.check_branch()


MOVED = '{"lead": "root", "root": null, "tester": "root", "writer": "lead"}\n'
CYCLE = '{"lead": "writer", "root": null, "tester": "lead", "writer": "lead"}\n'

DURABLE_CHANGES: Mapping[str, DurableChange] = {
    "setup": DurableChange(nothing, again=False, opens=True, empty=True),
    "open": DurableChange(nothing, again=False, opens=True),
    "spawn": asks("spawn", name="fresh", parent="lead", role="worker"),
    "start": asks("start", agent="tester"),
    "stop": asks("stop", agent="lead", recursive=True),
    "kill": asks("kill", agent="writer"),
    "move": asks("move", agent="writer", parent="tester"),
    "destroy": asks("destroy", agent="lead", recursive=True),
    "restore": DurableChange(_restore),
    "send": asks("send", to="lead", body="three"),
    "ack": DurableChange(_ack),
    "fire": DurableChange(_fire, _set_triggers),
    "store": asks("store_artifact", owner="lead", name="notes", text="x" * 1000),
    "hand commit": DurableChange(look, ready=by_hand(MOVED)),
    "hand commit at start": DurableChange(nothing, by_hand(MOVED), opens=True),
    "refused commit": DurableChange(look, ready=by_hand(CYCLE)),
    "refused commit at start": DurableChange(nothing, by_hand(CYCLE), opens=True),
    "pack": DurableChange(lambda daemon: daemon.stores.repo.pack(1)),
    "sweep": DurableChange(lambda daemon: daemon.upkeep.sweep()),
    "close": DurableChange(lambda daemon: daemon.close(), again=False, closes=True),
}


def prepare_base(folder: Path) -> None:
    """Write the state on disk that every change but the first starts from."""
    daemon = OfflineDaemon(folder)
    for name, parent in (("root", ""), ("lead", "root"), ("writer", "lead"), ("tester", "lead")):
        daemon.call("spawn", name=name, parent=parent, role="agent")
    daemon.call("spawn", name="old", parent="root", role="agent")
    daemon.call("destroy", agent="old")
    daemon.call("stop", agent="tester")
    for body in ("one", "two"):
        daemon.call("send", to="lead", body=body)
    daemon.close()
