"""The request road: batches of calls, each batch one transaction, replies after its COMMIT."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import groupby
from typing import Final, TypeVar

from hive_core.broker import reply
from hive_core.broker.audit import Audit, adoption_entry, rejected_peer_entry
from hive_core.broker.batch import Batch, RetryWithSavepoints, Services
from hive_core.broker.branches import branch_of
from hive_core.broker.call import Call, Change, Outcome, Record
from hive_core.broker.connection import (
    CallOutcome,
    ClientConnection,
    PendingCall,
    Transport,
    release_read,
)
from hive_core.broker.dispatch import Dispatch
from hive_core.broker.fair_queue import READING, RECORDING, BatchTime, FairQueue
from hive_core.broker.operation import Operation, Result
from hive_core.broker.outcome import EVENTS, TREE, strike_rights
from hive_core.broker.request import Fixed, RequestReader, size_of
from hive_core.broker.waiters import WaitingConnections
from hive_core.errors import BadFrame, Busy, Conflict, HiveError, StorageFull
from hive_core.ledger.audit.events import AuditEntry
from hive_core.model.agents.hive import Hive

R = TypeVar("R", bound=Result)

# Bytes of answers to one party in a batch, the one that goes beyond included.
OUT: Final = 1 << 20
FULL: Final = "the disk of the host is full"
# How often a branch that moved is looked at, and how many batches have savepoints after one was
# missed: whoever makes calls fail late must not make every batch run twice.
_LOOKS: Final = 2
_CAREFUL: Final = 100


class Broker:
    """Synchronous: the transport feeds lines, asks for turns and writes what they leave behind.

    `hive` is the snapshot in force. `moved` is called when the branch is not where the ledger says;
    it judges that and may `adopt`. `spare` frees the ballast of a full disk; while it is
    `strapped`, what room there is belongs to urgent calls.
    """

    def __init__(
        self, world: Services, hive: Hive, registry: Mapping[str, Operation],
        fixed: Mapping[str, Fixed],
    ) -> None:  # fmt: skip
        self.hive = hive
        self.world = world
        self.branch_moved: Callable[[], None] = lambda: None
        self.release_ballast: Callable[[], bool] = lambda: False
        self.disk_full: Callable[[], bool] = lambda: False
        self.listeners: list[Callable[[frozenset[str]], None]] = []
        self.audit = Audit(world.ledger, world.settings.limits.refusals_kept)
        self._dispatch = Dispatch(world, self.audit)
        self._queue = FairQueue(RequestReader(registry, fixed, world.clock.monotonic))
        self._waiting = WaitingConnections(world.clock, self.enqueue)
        self._rejected_peers: list[AuditEntry] = []
        self._batches_with_savepoints = 0
        world.ledger.events.thinning.branch_of = partial(branch_of, self)
        self._transport: Transport | None = None
        self.batches_served = 0  # batches that were served: a sign of life

    def attach(self, door: Transport) -> None:
        self._transport = door

    def receive(self, line: ClientConnection, frames: Sequence[bytes | BadFrame]) -> None:
        """Frames have arrived. Bytes that are no frame come as the fault: answered, then closed."""
        line.frames.extend(frames)
        line.bytes_held += sum(map(size_of, frames))
        self.enqueue(line)

    def write_resumed(self, line: ClientConnection) -> None:
        """The peer reads again."""
        line.write_blocked = False
        self.enqueue(line)

    def read_completed(self, line: ClientConnection, found: Result | HiveError) -> None:
        """A slow read has ended; the call is judged again and then answered."""
        if not (line.calls and line.busy):
            release_read(found)
            return
        line.calls[0].release()
        line.calls[0].ready, line.busy = found, False
        self.enqueue(line)

    def drop(self, line: ClientConnection) -> None:
        """The connection is gone, and with it everything asked and not yet begun."""
        self._waiting.drop(line)
        self._queue.leave(line)
        line.forget()

    def reject_peer(self, party: str, uid: int) -> bool:
        """Somebody outside of the party's uid range opened its socket; whether that is kept."""
        now = self.world.clock.now()
        if kept := self.audit.admits_rejected_peer(party, now):
            self._rejected_peers.append(rejected_peer_entry(party, uid, self.hive, now))
            self._wake()
        return kept

    def serve_batch(self) -> None:
        """Serve one batch of what has arrived."""
        strangers, self._rejected_peers = self._rejected_peers, []
        if strangers:
            self.audit.write_refusals(strangers)
            self._publish(frozenset((EVENTS,)))
        for batch in self._queue.collect():
            self._serve(batch)
            self.batches_served += 1
        if self._queue:
            self._wake()

    def touch(self, topics: Iterable[str]) -> None:
        """Something that calls may wait for has changed outside of a call."""
        self._waiting.touch(topics)

    def adopt(
        self, hive: Hive, commit: str, reason: str, also: Callable[[], Iterable[str]] = tuple
    ) -> None:
        """A hand commit that was judged elsewhere is in force from now on.

        `also` writes the rows that go with it, in the same transaction, and names the topics.
        """
        clock, ledger = self.world.clock, self.world.ledger
        with ledger.transaction():
            ledger.head = commit
            self.audit.write(adoption_entry(commit, reason, clock.now()))
            strike_rights(ledger, self.hive, hive)
            topics = frozenset((TREE, EVENTS, *also()))
        self.hive = hive.at_commit(commit)
        self._publish(topics)

    def perform(self, name: str, handler: Callable[[Call], Change[R] | Record[R]]) -> R:
        """Something that the daemon does by itself, in the same steps as a call."""
        kept: list[R] = []

        def kept_too(call: Call) -> Outcome:
            kept[:] = [(found := handler(call)).result]
            return found

        self._settle(self._transact(lambda turn: self._dispatch.own(turn, name, kept_too)))
        return kept[0]

    def _serve(self, batch: Sequence[PendingCall]) -> None:
        try:
            if any(ask.writes for ask in batch):
                self._settle(self._attempt(batch))
            else:
                self._read(batch)
        except HiveError:
            # Rolled back as a whole. One by one, only the call that does not fit fails.
            for ask in batch:
                line = ask.connection
                if line.is_ready and line.calls and line.calls[0] is ask:
                    self._settle(self._alone(ask))

    def _read(self, batch: Sequence[PendingCall]) -> None:
        """Answer each party before the next is served; one that was refused after the record."""
        time, refused = self._queue.time_of(batch, READING), list[Batch]()
        for _, calls in groupby(batch, lambda ask: ask.connection.party):
            turn = self._turn(inside=False)
            over = self._steps(calls, turn, time)
            if turn.entries:
                refused.append(turn)
            else:
                self._settle(turn)
            if over:
                break
        self.audit.write_refusals([entry for turn in refused for entry in turn.entries])
        for turn in refused:
            self._settle(turn)

    def _attempt(self, batch: Sequence[PendingCall], *, urgent: bool = False) -> Batch:
        def work(turn: Batch) -> None:
            self._steps(batch, turn, self._queue.time_of(batch, RECORDING))

        if any(ask.writes for ask in batch):
            if self.disk_full() and not urgent:
                raise StorageFull(FULL)
            return self._transact(work)
        turn = self._turn(inside=False)
        work(turn)
        self.audit.write_refusals(turn.entries)
        return turn

    def _alone(self, ask: PendingCall) -> Batch:
        """A batch of one: it fits now, or with the ballast, or it fails."""
        urgent = ask.request is not None and ask.request[0].urgent
        try:
            try:
                return self._attempt([ask], urgent=urgent)
            except StorageFull:
                if not (urgent and self.release_ballast()):
                    raise
                return self._attempt([ask], urgent=True)
        except HiveError as error:
            turn = self._turn(inside=False)
            turn.outcomes.append(CallOutcome(ask, reply.refusal(error)))
            return turn

    def _turn(self, *, inside: bool, frozen: bool = False, careful: bool = False) -> Batch:
        clock = self.world.clock
        return Batch(
            self.hive, clock.now(), clock.monotonic(), inside, frozen=frozen, use_savepoints=careful
        )

    def _transact(self, work: Callable[[Batch], None]) -> Batch:
        """COMMIT is the decision; a branch in other hands is looked at, then worked around."""
        moved = 0
        while moved <= _LOOKS:
            turn = self._turn(
                inside=True, frozen=moved == _LOOKS, careful=self._batches_with_savepoints > 0
            )
            self._batches_with_savepoints = max(0, self._batches_with_savepoints - 1)
            try:
                self._commit(turn, work)
            except RetryWithSavepoints:
                self._batches_with_savepoints = _CAREFUL
            except (Conflict, Busy):
                if not turn.commits:
                    raise
                moved += 1
                self.branch_moved()
            else:
                return turn
        raise Busy("the meta repo is being changed by hand; try again")

    def _commit(self, turn: Batch, work: Callable[[Batch], None]) -> None:
        """Objects -> lock and check the ref -> head in the transaction -> COMMIT -> the ref."""
        ledger, before, move = self.world.ledger, turn.hive.commit, None
        with ExitStack() as held:
            with ledger.transaction():
                work(turn)
                if turn.commits:
                    move = held.enter_context(self.world.repo.hold(before))
                    ledger.head = turn.hive.commit
            if move is not None:
                move(turn.hive.commit)

    def _steps(self, batch: Iterable[PendingCall], turn: Batch, time: BatchTime) -> bool:
        """Ask each call once, as long as its party has time left; whether all of it is over."""
        steps, stopped, sized = turn.outcomes, turn.stopped_connections, turn.bytes_answered
        for ask in batch:
            line = ask.connection
            size = sized.get(line.party, 0)
            if size > OUT or line in stopped or time.is_used_up(line.party):
                continue
            step = self._dispatch.step(ask, turn)
            steps.append(step)
            sized[line.party] = size + len(step.data)
            if not step.done or ask.fault is not None:
                stopped.add(line)
            if time.spend(line.party):
                return True
        return False

    def _settle(self, turn: Batch) -> None:
        self.hive = turn.hive
        lines: dict[ClientConnection, None] = {}
        for step in turn.outcomes:
            lines[step.call.connection] = None
            self._apply(step)
        for line in lines:
            if line.out or line.full:
                line.send(b"".join(line.out), line.closing)
                line.out.clear()
            self._queue.again(line)
        if turn.wakes or turn.topics:
            self._publish(frozenset(turn.wakes).union(turn.topics))

    def _apply(self, step: CallOutcome) -> None:
        ask, line = step.call, step.call.connection
        if step.data and not ask.oneway:
            line.out.append(step.data)
        if step.done or (ask.oneway and step.read is None):  # who wants no answer waits for none
            line.bytes_held -= line.calls.popleft().size
            ask.release()
            if isinstance(ask.fault, BadFrame):
                line.closing = True
        elif step.page is not None:
            ask.turn_page(step.page)
        elif step.read is not None and self._transport is not None:
            line.busy = True
            self._transport.read(line, step.read)
        else:
            ask.due, ask.job = step.due, step.job
            self._waiting.park(line, step)

    def _publish(self, topics: frozenset[str]) -> None:
        self._waiting.touch(topics)
        for listener in self.listeners:
            listener(topics)

    def enqueue(self, line: ClientConnection) -> None:
        if self._queue.add(line):
            self._wake()

    def _wake(self) -> None:
        if self._transport is not None:
            self._transport.wake()
