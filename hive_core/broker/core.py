"""The request path: batches of calls, each batch one transaction, replies after its COMMIT.

From a batch to a handler: `serve_batch`, `_serve`, `_transact`, `_run_calls`, `Dispatch.run`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import groupby
from operator import attrgetter
from typing import Final, TypeVar

from hive_core.broker import reply
from hive_core.broker.audit import Audit, adoption_entry, rejected_peer_entry
from hive_core.broker.batch import CallBatch, RetryWithSavepoints, Services
from hive_core.broker.branches import branch_of
from hive_core.broker.call import Call, Change, Outcome, Record
from hive_core.broker.connection import (
    CallOutcome,
    ClientConnection,
    PendingCall,
    Transport,
    release_read,
    without_traceback,
)
from hive_core.broker.dispatch import Dispatch
from hive_core.broker.fair_queue import READING, RECORDING, BatchTime, FairQueue
from hive_core.broker.operation import Operation, Result
from hive_core.broker.outcome import EVENTS, TREE, strike_rights
from hive_core.broker.request import Fixed, RequestReader
from hive_core.broker.row_versions import ROWS
from hive_core.broker.waiters import WaitingConnections
from hive_core.errors import BadFrame, Busy, Conflict, HiveError, StorageFull
from hive_core.ledger.audit.events import AuditEntry
from hive_core.model.agents.hive import Hive
from hive_core.model.agents.machine import Reading

R = TypeVar("R", bound=Result)

# Bytes of answers to one party in a batch, the one that goes beyond included.
OUT: Final = 1 << 20
FULL: Final = "the disk of the host is full"
# How often a branch that moved is looked at, and how many batches have savepoints after one was
# missed: a caller whose calls fail late must not make every batch run twice.
_LOOKS: Final = 2
_CAREFUL: Final = 100


_party_of: Final = attrgetter("connection.party")


class Broker:
    """Synchronous: the transport hands in frames, asks for batches and writes the replies.

    `hive` is the snapshot in force. `branch_moved` is called when the branch is not where the
    ledger says; it judges that and may `adopt`. `release_ballast` frees room on a full disk; while
    `disk_full` says so, what room there is belongs to urgent calls.
    """

    def __init__(
        self, services: Services, hive: Hive, registry: Mapping[str, Operation],
        fixed: Mapping[str, Fixed],
    ) -> None:  # fmt: skip
        self.hive = hive
        self.services = services
        self.branch_moved: Callable[[], None] = lambda: None
        self.release_ballast: Callable[[], bool] = lambda: False
        self.disk_full: Callable[[], bool] = lambda: False
        self.listeners: list[Callable[[frozenset[str]], None]] = []
        self.audit = Audit(services.ledger, services.settings.limits.refusals_kept)
        self._dispatch = Dispatch(services, self.audit)
        self._queue = FairQueue(RequestReader(registry, fixed, services.clock.monotonic))
        self._waiting = WaitingConnections(services.clock, self.enqueue)
        self._rejected_peers: list[AuditEntry] = []
        self._batches_with_savepoints = 0
        services.ledger.events.thinning.branch_of = partial(branch_of, self)
        self._transport: Transport | None = None
        self.batches_served = 0  # batches that were served: a sign of life

    def attach(self, transport: Transport) -> None:
        self._transport = transport

    def receive(self, connection: ClientConnection, frames: Sequence[bytes | BadFrame]) -> None:
        """Take frames that arrived. Bytes that are not a frame come as the fault to answer with."""
        connection.frames.extend(frames)
        for frame in frames:
            if type(frame) is bytes:
                connection.bytes_held += len(frame)
        self._queue.add(connection)
        if self._transport is not None:
            self._transport.wake()

    def on_write_resumed(self, connection: ClientConnection) -> None:
        """The peer reads again."""
        connection.write_blocked = False
        self.enqueue(connection)

    def on_read_completed(self, connection: ClientConnection, result: Result | HiveError) -> None:
        """A slow read has ended; the call is authorized again and then answered."""
        if not (connection.calls and connection.busy):
            release_read(result)
            return
        if isinstance(result, HiveError):
            result = without_traceback(result)
        call = connection.calls[0]
        call.release()
        call.ready, connection.busy = result, False
        self.enqueue(connection)

    def drop(self, connection: ClientConnection) -> None:
        """The connection is closed, and with it goes everything asked and not yet begun."""
        self._waiting.drop(connection)
        self._queue.leave((connection,))
        connection.forget()

    def reject_peer(self, party: str, uid: int) -> bool:
        """A peer outside of the party's uid range opened its socket; whether that is recorded."""
        now = self.services.clock.now()
        if is_recorded := self.audit.admits_rejected_peer(party, now):
            self._rejected_peers.append(rejected_peer_entry(party, uid, self.hive, now))
            self._wake()
        return is_recorded

    def serve_batch(self) -> None:
        """Serve one batch of what has arrived."""
        rejected, self._rejected_peers = self._rejected_peers, []
        if rejected:
            self.audit.write_refusals(rejected)
            self._publish(frozenset((EVENTS,)))
        for calls, writes in self._queue.collect():
            self._serve(calls, writes=writes)
            self.batches_served += 1
        if self._queue:
            self._wake()

    def touch(self, topics: Iterable[str]) -> None:
        """Something that calls may wait for has changed outside of a call."""
        topics = frozenset(topics)
        self._waiting.touch(topics)
        self._touch_rows(topics)

    def adopt(
        self, hive: Hive, commit: str, reason: str, also: Callable[[], Iterable[str]] = tuple
    ) -> None:
        """A hand commit that was judged elsewhere is in force from now on.

        `also` writes the rows that go with it, in the same transaction, and names the topics.
        """
        clock, ledger = self.services.clock, self.services.ledger
        with ledger.transaction():
            ledger.head = commit
            self.audit.write(adoption_entry(commit, reason, clock.now()))
            strike_rights(ledger, self.hive, hive)
            topics = frozenset((TREE, EVENTS, *also()))
        self.hive = hive.at_commit(commit)
        self._publish(topics)

    def perform(self, name: str, handler: Callable[[Call], Change[R] | Record[R]]) -> R:
        """Something that the daemon does by itself, in the same steps as a call."""
        results: list[R] = []

        def run_handler(call: Call) -> Outcome:
            outcome = handler(call)
            results[:] = [outcome.result]
            return outcome

        self._settle(self._transact(lambda batch: self._dispatch.run_own(batch, name, run_handler)))
        return results[0]

    def _serve(self, calls: Sequence[PendingCall], *, writes: bool) -> None:
        """Run reads, or writes in one transaction; what fails as a whole runs call by call."""
        clock = self._queue.time_of(calls, RECORDING if writes else READING)
        try:
            if not writes:
                self._read(calls, clock)
            elif self.disk_full():
                raise StorageFull(FULL)
            else:
                self._settle(self._transact(partial(self._run_calls, calls, clock)))
        except HiveError:
            # Rolled back as a whole. One by one, only the call that does not fit fails.
            for call in calls:
                connection = call.connection
                if connection.is_ready and connection.calls and connection.calls[0] is call:
                    self._settle(self._serve_alone(call))
        finally:
            self._queue.charge(clock.used)

    def _read(self, calls: Sequence[PendingCall], clock: BatchTime) -> None:
        """Answer each party before the next is served; one that was refused after the record."""
        batch, recorded, refused = self._new_batch(in_transaction=False), 0, list[CallOutcome]()
        for _, of_party in groupby(calls, _party_of):
            is_over = self._run_calls(of_party, clock, batch)
            if len(batch.entries) > recorded:
                recorded = len(batch.entries)
                refused += batch.outcomes
            else:
                self._answer(batch.outcomes)
            batch.outcomes.clear()
            if is_over:
                break
        self.audit.write_refusals(batch.entries)
        batch.outcomes = refused
        self._settle(batch)

    def _serve_alone(self, call: PendingCall) -> CallBatch:
        """A batch of one: it fits now, or with the ballast, or it fails."""
        urgent = call.request is not None and call.request[0].urgent
        try:
            try:
                return self._run_alone(call, urgent=urgent)
            except StorageFull:
                if not (urgent and self.release_ballast()):
                    raise
                return self._run_alone(call, urgent=True)
        except HiveError as error:
            batch = self._new_batch(in_transaction=False)
            batch.outcomes.append(CallOutcome(call, reply.error_frame(error)))
            return batch

    def _run_alone(self, call: PendingCall, *, urgent: bool) -> CallBatch:
        clock = self._queue.time_of([call], RECORDING)
        try:
            if call.writes:
                if self.disk_full() and not urgent:
                    raise StorageFull(FULL)
                return self._transact(partial(self._run_calls, [call], clock))
            batch = self._new_batch(in_transaction=False)
            self._run_calls([call], clock, batch)
            self.audit.write_refusals(batch.entries)
            return batch
        finally:
            self._queue.charge(clock.used)

    def _new_batch(
        self, *, in_transaction: bool, frozen: bool = False, use_savepoints: bool = False
    ) -> CallBatch:
        clock, ledger = self.services.clock, self.services.ledger
        savepoint = ledger.savepoint() if use_savepoints else None
        now, monotonic = clock.now(), clock.monotonic()
        return CallBatch(self.hive, now, monotonic, in_transaction, savepoint, frozen)

    def _transact(self, run: Callable[[CallBatch], object]) -> CallBatch:
        """Write git objects, check the branch, COMMIT with the new head, then move the branch.

        COMMIT is the decision. A branch in other hands is looked at, then worked around.
        """
        looks, ledger = 0, self.services.ledger
        while looks <= _LOOKS:
            batch = self._new_batch(
                in_transaction=True, frozen=looks == _LOOKS,
                use_savepoints=self._batches_with_savepoints > 0,
            )  # fmt: skip
            self._batches_with_savepoints = max(0, self._batches_with_savepoints - 1)
            before, move = self.hive.commit, None
            try:
                with ExitStack() as held:
                    with ledger.transaction():
                        run(batch)
                        if batch.commits:
                            move = held.enter_context(self.services.repo.hold(before))
                            ledger.head = batch.hive.commit
                    if move is not None:
                        move(batch.hive.commit)
            except BaseException as error:
                if not self._can_retry(batch, error):
                    raise
                looks += not isinstance(error, RetryWithSavepoints)
            else:
                return batch
        raise Busy("the meta repo is being changed by hand; try again")

    def _can_retry(self, batch: CallBatch, error: BaseException) -> bool:
        """A batch was rolled back: whether it may be run once more, after what this has changed."""
        for call in batch.counted:
            call.counted = False
        for call in batch.confirmed:
            call.confirmed = ""
        if isinstance(error, RetryWithSavepoints):
            self._batches_with_savepoints = _CAREFUL
            return True
        if isinstance(error, Conflict | Busy) and batch.commits:
            self.branch_moved()
            return True
        return False

    def _run_calls(self, calls: Iterable[PendingCall], clock: BatchTime, batch: CallBatch) -> bool:
        """Run each call once, as long as its party has time left; whether all of it is over."""
        run, append = self._dispatch.run, batch.outcomes.append
        used, share, end, monotonic = clock.used, clock.share, clock.end, clock.monotonic
        answered, stopped = defaultdict[str, int](int), set[ClientConnection]()
        for call in calls:
            connection = call.connection
            party = connection.party
            if connection in stopped or answered[party] > OUT or used[party] > share:
                continue
            outcome = run(call, batch)
            append(outcome)
            answered[party] += len(outcome.data)
            if not outcome.done or call.fault is not None:
                stopped.add(connection)
            began, clock.at = clock.at, monotonic()
            used[party] += clock.at - began
            if clock.at > end:
                return True
        return False

    def _settle(self, batch: CallBatch) -> None:
        """Committed: answer the calls, then wake what waits for what they touched."""
        self.hive = batch.hive
        self._answer(batch.outcomes)
        if batch.wakes or batch.topics:
            self._publish(frozenset(batch.wakes).union(batch.topics))

    def _answer(self, outcomes: Iterable[CallOutcome]) -> None:
        """Write the replies, one write for each connection, and queue what follows on it."""
        replies = defaultdict[ClientConnection, list[bytes]](list)
        for outcome in outcomes:
            call = outcome.call
            connection = call.connection
            replies[connection] += (b"" if call.oneway else outcome.data,)
            if outcome.done or (call.oneway and outcome.read is None):  # oneway waits for no answer
                connection.calls.popleft()
                connection.bytes_held -= call.size
                if call.ready is not None or call.fault is not None:
                    call.release()
                    connection.closing |= isinstance(call.fault, BadFrame)
            else:
                self._keep_unfinished_call(outcome)
        self._queue.leave(replies)
        for connection, parts in replies.items():
            data = b"".join(parts)
            if data or connection.full:
                connection.send(data, connection.closing)
            if (connection.calls or connection.frames) and connection.is_ready:
                self._queue.add(connection)  # behind the others of its party

    def _keep_unfinished_call(self, outcome: CallOutcome) -> None:
        """The call stays at the head of its connection: for its next page, a read, or a topic."""
        call, connection = outcome.call, outcome.call.connection
        if outcome.page is not None:
            call.turn_page(outcome.page)
        elif outcome.read is not None and self._transport is not None:
            connection.busy = True
            self._transport.read(connection, outcome.read)
        else:
            call.due = outcome.due
            call.await_job(outcome.job)
            self._waiting.park(connection, outcome)

    def _publish(self, topics: frozenset[str]) -> None:
        """Wake the connections that wait for these topics, and the change path."""
        self._waiting.touch(topics)
        self._touch_rows(topics)
        for listener in self.listeners:
            listener(topics)

    def _touch_rows(self, topics: frozenset[str]) -> None:
        """Wake those who watch agents, if one of the topics changes a row."""
        if self.services.rows.on_topics(topics):
            self._waiting.touch((ROWS,))

    def show_figures(self, readings: Mapping[str, Reading]) -> None:
        """Take what the kernel counts for the running machines."""
        clock, rows = self.services.clock, self.services.rows
        if rows.figures.add(readings, clock.now(), clock.monotonic()):
            self._waiting.touch((ROWS,))

    def enqueue(self, connection: ClientConnection) -> None:
        """Serve the connection soon, if it has a call that can run then."""
        self._queue.add(connection)
        if self._transport is not None:
            self._transport.wake()

    def _wake(self) -> None:
        if self._transport is not None:
            self._transport.wake()
