"""The request road: batches of calls, each batch one transaction, replies after its COMMIT."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import groupby
from typing import Final, TypeVar

from hive_core.broker import reply
from hive_core.broker.audit import Audit, adopted, stranger
from hive_core.broker.batch import Redo, Turn, World
from hive_core.broker.branches import branch_of
from hive_core.broker.call import Call, Change, Outcome, Record
from hive_core.broker.connection import Ask, Door, Line, Step, released
from hive_core.broker.dispatch import Dispatch
from hive_core.broker.fair_queue import READING, RECORDING, BatchTime, FairQueue
from hive_core.broker.operation import Operation, Result
from hive_core.broker.outcome import EVENTS, TREE, strike
from hive_core.broker.request import Fixed, Reader, size_of
from hive_core.broker.waiters import Waiting
from hive_core.errors import BadFrame, Busy, Conflict, HiveError, StorageFull
from hive_core.ledger.audit.events import Entry
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
        self, world: World, hive: Hive, registry: Mapping[str, Operation],
        fixed: Mapping[str, Fixed],
    ) -> None:  # fmt: skip
        self.hive = hive
        self.world = world
        self.moved: Callable[[], None] = lambda: None
        self.spare: Callable[[], bool] = lambda: False
        self.strapped: Callable[[], bool] = lambda: False
        self.listeners: list[Callable[[frozenset[str]], None]] = []
        self.audit = Audit(world.ledger, world.settings.limits.refusals_kept)
        self._dispatch = Dispatch(world, self.audit)
        self._queue = FairQueue(Reader(registry, fixed, world.clock.monotonic))
        self._waiting = Waiting(world.clock, self._ripe)
        self._strangers: list[Entry] = []
        self._careful = 0
        world.ledger.events.thinning.branch_of = partial(branch_of, self)
        self._door: Door | None = None
        self.turns = 0  # batches that were served: a sign of life

    def attach(self, door: Door) -> None:
        self._door = door

    def feed(self, line: Line, frames: Sequence[bytes | BadFrame]) -> None:
        """Frames have arrived. Bytes that are no frame come as the fault: answered, then closed."""
        line.frames.extend(frames)
        line.held += sum(map(size_of, frames))
        self._ripe(line)

    def drained(self, line: Line) -> None:
        """The peer reads again."""
        line.choked = False
        self._ripe(line)

    def brought(self, line: Line, found: Result | HiveError) -> None:
        """A slow read has ended; the call is judged again and then answered."""
        if not (line.asks and line.busy):
            released(found)
            return
        line.asks[0].over()
        line.asks[0].ready, line.busy = found, False
        self._ripe(line)

    def drop(self, line: Line) -> None:
        """The connection is gone, and with it everything asked and not yet begun."""
        self._waiting.drop(line)
        self._queue.leave(line)
        line.forget()

    def stranger(self, party: str, uid: int) -> bool:
        """Somebody outside of the party's uid range opened its socket; whether that is kept."""
        now = self.world.clock.now()
        if kept := self.audit.admits_stranger(party, now):
            self._strangers.append(stranger(party, uid, self.hive, now))
            self._wake()
        return kept

    def turn(self) -> None:
        """Serve one batch of what has arrived."""
        strangers, self._strangers = self._strangers, []
        if strangers:
            self.audit.keep(strangers)
            self._tell(frozenset((EVENTS,)))
        for batch in self._queue.collect():
            self._serve(batch)
            self.turns += 1
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
            self.audit.write(adopted(commit, reason, clock.now()))
            strike(ledger, self.hive, hive)
            topics = frozenset((TREE, EVENTS, *also()))
        self.hive = hive.at_commit(commit)
        self._tell(topics)

    def perform(self, name: str, handler: Callable[[Call], Change[R] | Record[R]]) -> R:
        """Something that the daemon does by itself, in the same steps as a call."""
        kept: list[R] = []

        def kept_too(call: Call) -> Outcome:
            kept[:] = [(found := handler(call)).result]
            return found

        self._settle(self._transact(lambda turn: self._dispatch.own(turn, name, kept_too)))
        return kept[0]

    def _serve(self, batch: Sequence[Ask]) -> None:
        try:
            if any(ask.writes for ask in batch):
                self._settle(self._attempt(batch))
            else:
                self._read(batch)
        except HiveError:
            # Rolled back as a whole. One by one, only the call that does not fit fails.
            for ask in batch:
                line = ask.line
                if line.willing and line.asks and line.asks[0] is ask:
                    self._settle(self._alone(ask))

    def _read(self, batch: Sequence[Ask]) -> None:
        """Answer each party before the next is served; one that was refused after the record."""
        time, refused = self._queue.time_of(batch, READING), list[Turn]()
        for _, calls in groupby(batch, lambda ask: ask.line.party):
            turn = self._turn(inside=False)
            over = self._steps(calls, turn, time)
            if turn.entries:
                refused.append(turn)
            else:
                self._settle(turn)
            if over:
                break
        self.audit.keep([entry for turn in refused for entry in turn.entries])
        for turn in refused:
            self._settle(turn)

    def _attempt(self, batch: Sequence[Ask], *, urgent: bool = False) -> Turn:
        def work(turn: Turn) -> None:
            self._steps(batch, turn, self._queue.time_of(batch, RECORDING))

        if any(ask.writes for ask in batch):
            if self.strapped() and not urgent:
                raise StorageFull(FULL)
            return self._transact(work)
        turn = self._turn(inside=False)
        work(turn)
        self.audit.keep(turn.entries)
        return turn

    def _alone(self, ask: Ask) -> Turn:
        """A batch of one: it fits now, or with the ballast, or it fails."""
        urgent = ask.request is not None and ask.request[0].urgent
        try:
            try:
                return self._attempt([ask], urgent=urgent)
            except StorageFull:
                if not (urgent and self.spare()):
                    raise
                return self._attempt([ask], urgent=True)
        except HiveError as error:
            turn = self._turn(inside=False)
            turn.steps.append(Step(ask, reply.refusal(error)))
            return turn

    def _turn(self, *, inside: bool, frozen: bool = False, careful: bool = False) -> Turn:
        clock = self.world.clock
        return Turn(
            self.hive, clock.now(), clock.monotonic(), inside, frozen=frozen, careful=careful
        )

    def _transact(self, work: Callable[[Turn], None]) -> Turn:
        """COMMIT is the decision; a branch in other hands is looked at, then worked around."""
        moved = 0
        while moved <= _LOOKS:
            turn = self._turn(inside=True, frozen=moved == _LOOKS, careful=self._careful > 0)
            self._careful = max(0, self._careful - 1)
            try:
                self._commit(turn, work)
            except Redo:
                self._careful = _CAREFUL
            except (Conflict, Busy):
                if not turn.commits:
                    raise
                moved += 1
                self.moved()
            else:
                return turn
        raise Busy("the meta repo is being changed by hand; try again")

    def _commit(self, turn: Turn, work: Callable[[Turn], None]) -> None:
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

    def _steps(self, batch: Iterable[Ask], turn: Turn, time: BatchTime) -> bool:
        """Ask each call once, as long as its party has time left; whether all of it is over."""
        steps, stopped, sized = turn.steps, turn.stopped, turn.sized
        for ask in batch:
            line = ask.line
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

    def _settle(self, turn: Turn) -> None:
        self.hive = turn.hive
        lines: dict[Line, None] = {}
        for step in turn.steps:
            lines[step.ask.line] = None
            self._apply(step)
        for line in lines:
            if line.out or line.full:
                line.send(b"".join(line.out), line.closing)
                line.out.clear()
            self._queue.again(line)
        if turn.wakes or turn.topics:
            self._tell(frozenset(turn.wakes).union(turn.topics))

    def _apply(self, step: Step) -> None:
        ask, line = step.ask, step.ask.line
        if step.data and not ask.oneway:
            line.out.append(step.data)
        if step.done or (ask.oneway and step.read is None):  # who wants no answer waits for none
            line.held -= line.asks.popleft().size
            ask.over()
            if isinstance(ask.fault, BadFrame):
                line.closing = True
        elif step.page is not None:
            ask.turn_page(step.page)
        elif step.read is not None and self._door is not None:
            line.busy = True
            self._door.read(line, step.read)
        else:
            ask.due, ask.job = step.due, step.job
            self._waiting.park(line, step)

    def _tell(self, topics: frozenset[str]) -> None:
        self._waiting.touch(topics)
        for listener in self.listeners:
            listener(topics)

    def _ripe(self, line: Line) -> None:
        if self._queue.add(line):
            self._wake()

    def _wake(self) -> None:
        if self._door is not None:
            self._door.wake()
