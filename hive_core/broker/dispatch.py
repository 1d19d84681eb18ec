"""One call, once: authorize, ask the handler, record. Gives a `Step`; nothing leaves from here."""

from __future__ import annotations

import logging
from collections.abc import Callable
from itertools import count
from uuid import uuid4

from hive_core.broker import idempotency, outcome, reply
from hive_core.broker.audit import REFUSED, Audit, Judgement, call_entry
from hive_core.broker.authorize import judge, refusal
from hive_core.broker.batch import Batch, RetryWithSavepoints, Services
from hive_core.broker.call import Call, Outcome, Ready
from hive_core.broker.connection import CallOutcome, ClientConnection, PendingCall
from hive_core.broker.operation import Operation, unlisted_operation
from hive_core.broker.outcome import EVENTS, AuthorizedCall
from hive_core.broker.rate_limit import RateLimiter
from hive_core.broker.storage_limits import StorageLimiter
from hive_core.errors import HiveError, Internal, LimitReached, NotAllowed, NotFound, StorageFull
from hive_core.model.wire.record import DAEMON, OPERATOR
from hive_core.policy.algebra import Decision

log = logging.getLogger(__name__)


def _nowhere(_: bytes, __: bool) -> None:  # noqa: FBT001 - as Line.send is called
    """Where the daemon's own doings are answered."""


class Dispatch:
    """Asks calls one at a time, inside the turn that it is given."""

    def __init__(self, world: Services, audit: Audit) -> None:
        self._world = world
        self._audit = audit
        self._pace = RateLimiter()
        self._room = StorageLimiter()
        prefix = uuid4().hex[:12]
        self._requests = (f"{prefix}-{number:x}" for number in count(1))

    def step(self, ask: PendingCall, turn: Batch) -> CallOutcome:
        """What the call comes to. What takes the whole batch with it goes further up."""
        try:
            return self._step(ask, turn)
        except (StorageFull, RetryWithSavepoints):
            raise
        except HiveError as error:
            return CallOutcome(ask, reply.refusal(error))
        except Exception:
            # A fault of ours costs its caller this call, and nobody else anything.
            name = ask.request[0].verb if ask.request else "answer"
            log.exception("cannot %s", name)
            return CallOutcome(
                ask, reply.refusal(Internal(f"cannot {name}: a fault of the daemon"))
            )

    def _step(self, ask: PendingCall, turn: Batch) -> CallOutcome:
        if ask.request is None:
            if ask.fault is not None:
                raise ask.fault
            return CallOutcome(ask, ask.reply)
        if ask.job is not None:
            return outcome.outcome_after_job(ask, turn, self._world.ledger.jobs)
        operation, params = ask.request
        call = self.call(
            turn, ask.connection.party, ask.connection.uid, ask.more and operation.streams
        )
        if operation.mutates:
            stored = idempotency.first_result(call, operation, params)
            if stored is not None:
                return outcome.recorded_outcome(ask, turn, stored, self._world.ledger.jobs)
        target, decision = judge(call, operation, params)
        case = AuthorizedCall(ask, turn, call, operation, params, target, decision)
        if not decision.allowed:
            self._refused(case, case.judgement)
            raise refusal(operation, params, target, decision)
        if not call.by_operator:
            self._check_pace(case)
        return self._asked(case)

    def call(self, turn: Batch, party: str, uid: int, more: bool = False) -> Call:  # noqa: FBT001, FBT002 - the hottest call
        """A call of the party on the snapshot of this moment."""
        world, name = self._world, party
        if party not in (OPERATOR, DAEMON):
            name = turn.hive.names.get(party, "")
            if not name:
                raise NotFound("the caller is not an agent of this hive any more")
        return Call(
            name, party, next(self._requests), turn.now, turn.hive, world.ledger,
            world.settings, world.states, turn.topics, more, uid, world.vault, world.contents,
            None, world.git,
        )  # fmt: skip

    def _check_pace(self, case: AuthorizedCall) -> None:
        """Each call counts once, however often it is asked while it waits."""
        ask, call = case.pending, case.call
        if not ask.counted:
            ask.counted = True
            call.ledger.budgets.usage.on_rollback(ask.uncount)
            try:
                self._pace.check(call, case.operation)
            except LimitReached as error:
                self._over_budget(case, error)
                raise
        if case.operation.mutates and ask.ready is None:  # what was slow is the same call
            self._check_rate(call, case.operation)

    def _over_budget(self, case: AuthorizedCall, error: LimitReached) -> None:
        """A refusal by a budget is never silent."""
        if rule := error.fields.get("rule"):
            self._refused(case, case.judgement._replace(rule=str(rule), reason=error.reason))

    def _check_rate(self, call: Call, operation: Operation) -> None:
        """What is recorded stays on disk, so that there is a bound on it (attacks 37 and 52)."""
        after = call.ledger.changes.take(call.uuid, call.now)
        if not after and operation.changes:
            after = call.ledger.commits.take(call.uuid, call.now)
        if after > 0:
            reason = f"cannot {operation.verb}: too many calls, try again in {after:.2f} s"
            raise LimitReached(reason, retry_after=after)
        if operation.writes:
            self._room.check(call, operation)

    def _asked(self, case: AuthorizedCall) -> CallOutcome:
        ready = case.pending.ready
        if isinstance(ready, HiveError):
            raise ready
        if isinstance(ready, Ready):
            case = case._replace(call=case.call._replace(read_result=ready.value))
        elif ready is not None:
            return outcome.page_outcome(case.pending, ready)
        operation, call = case.operation, case.call
        try:
            if operation.writes:
                return outcome.run_mutation(case, self._world, self._audit)
            found = operation.handler(call, case.params)
        except NotAllowed as error:
            rule = str(error.fields.get("rule", case.decision.rule))
            self._refused(case, case.judgement._replace(rule=rule, reason=error.reason))
            raise
        except LimitReached as error:
            self._over_budget(case, error)
            raise
        if ready is None:
            call.ledger.events.reads.count(call.uuid, operation.name)
        return outcome.outcome_of_read(case, found)

    def _refused(self, case: AuthorizedCall, judged: Judgement) -> None:
        """Recorded in order where a transaction is open, else after the batch in one of its own."""
        turn, call = case.batch, case.call
        if not self._audit.admits(call.uuid, call.now):
            return
        found = call_entry(REFUSED, call, judged)
        turn.wakes.add(EVENTS)
        if turn.in_transaction:
            self._audit.write(found)
        else:
            turn.entries.append(found)

    def own(self, turn: Batch, name: str, handler: Callable[[Call], Outcome]) -> None:
        """What the daemon does by itself: nobody to judge, the rest as for a call."""
        operation = unlisted_operation(name, lambda call, _: handler(call))
        ask, call = PendingCall(ClientConnection(DAEMON, -1, _nowhere)), self.call(turn, DAEMON, -1)
        granted = Decision(allowed=True, rule=DAEMON, reason="")
        case = AuthorizedCall(ask, turn, call, operation, operation.params(), None, granted)
        outcome.run_mutation(case, self._world, self._audit)
