"""One call, once: authorize it, run its handler, record its effect. Nothing leaves from here."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Never
from uuid import uuid4

from hive_core.broker import idempotency, reply
from hive_core.broker.audit import REFUSED, Audit, Judgement, call_entry, refused_party
from hive_core.broker.authorize import judge, refusal
from hive_core.broker.batch import CallBatch, RetryWithSavepoints, Services
from hive_core.broker.call import Call, Outcome, Ready
from hive_core.broker.confirmation import take_confirmation
from hive_core.broker.connection import CallOutcome, ClientConnection, PendingCall
from hive_core.broker.hooks import CallRefused, emit
from hive_core.broker.operation import Operation, Params, unlisted_operation
from hive_core.broker.outcome import (
    EVENTS,
    AuthorizedCall,
    Written,
    outcome_after_job,
    outcome_of_mutation,
    outcome_of_read,
    page_outcome,
    record_effect,
    recorded_outcome,
)
from hive_core.broker.rate_limit import RateLimiter
from hive_core.broker.scopes import scope_denial
from hive_core.broker.storage_limits import StorageLimiter
from hive_core.broker.subagents import require_subagent
from hive_core.errors import HiveError, Internal, LimitReached, NotAllowed, NotFound, StorageFull
from hive_core.model.agents.model_catalog import ModelCatalog
from hive_core.model.wire.record import (
    DAEMON,
    EGRESS,
    EGRESS_CALLER,
    LOGIN,
    MODEL,
    MODEL_CALLER,
    OPERATOR,
)
from hive_core.policy.algebra import Decision

if TYPE_CHECKING:
    from hive_core.ledger.core.ledger import Savepoint

# hive-model limits the calls of each agent itself; hive-web those of each login.
_SERVICES = {MODEL: MODEL_CALLER, EGRESS: EGRESS_CALLER, LOGIN: OPERATOR}
_UNLIMITED = frozenset({OPERATOR, *_SERVICES})
log = logging.getLogger(__name__)


def _discard_reply(_: bytes, __: bool) -> None:  # noqa: FBT001 - as a connection's send is called
    """The daemon's own doings have no client to answer."""


class Dispatch:
    """Runs calls one at a time, inside the batch that it is given."""

    def __init__(self, services: Services, audit: Audit) -> None:
        self._services = services
        self._audit = audit
        self._rates = RateLimiter()
        self._storage = StorageLimiter()
        self._models = ModelCatalog(services.models, services.settings.models)
        self._prefix, self._number = uuid4().hex[:12], 0

    def run(self, pending: PendingCall, batch: CallBatch) -> CallOutcome:
        """What the call comes to. A full disk and a retry with savepoints take the whole batch."""
        case: AuthorizedCall | CallOutcome | None = None
        connection, before = self._services.ledger.connection, None
        topics_before = len(batch.topics)
        try:
            case = self._authorize(pending, batch)
            if type(case) is CallOutcome:
                return case
            call, operation = case.call, case.operation
            if not operation.writes:
                connection.flush()  # inserts of earlier calls must not count as this call's
                changes = connection.changes
                outcome = operation.handler(call, case.params)
                if connection.changes != changes:
                    _refuse_change(operation)
                if pending.ready is None:
                    call.ledger.events.reads.count(call.uuid, operation.name)
                return outcome_of_read(case, outcome)
            if batch.savepoint is None:
                before = connection.changes
                outcome = operation.handler(call, case.params)
                written = record_effect(case, outcome, self._services.repo, self._audit)
            else:
                outcome, written = self._run_in_savepoint(case, batch.savepoint)
            return outcome_of_mutation(case, outcome, written)
        except (StorageFull, RetryWithSavepoints):
            raise
        except Exception as error:  # noqa: BLE001 - a fault of ours is logged and answered
            del batch.topics[topics_before:]
            return self._reply_with_error(pending, case, error, before)

    def _run_in_savepoint(
        self, case: AuthorizedCall, savepoint: Savepoint
    ) -> tuple[Outcome, Written | None]:
        """Run the handler, so that a failure takes back what it changed and no other call."""
        with savepoint:
            outcome = case.operation.handler(case.call, case.params)
            return outcome, record_effect(case, outcome, self._services.repo, self._audit)

    def run_own(self, batch: CallBatch, name: str, handler: Callable[[Call], Outcome]) -> None:
        """What the daemon does by itself: it needs no permission, and the rest is as above."""
        operation = unlisted_operation(name, lambda call, _: handler(call))
        pending = PendingCall(ClientConnection(DAEMON, -1, _discard_reply))
        call = self._call(batch, DAEMON, pending.connection, more=False)
        granted = Decision(allowed=True, rule=DAEMON, reason="")
        case = AuthorizedCall(pending, batch, call, operation, operation.params(), None, granted)
        outcome = operation.handler(call, case.params)
        written = record_effect(case, outcome, self._services.repo, self._audit)
        outcome_of_mutation(case, outcome, written)

    def _authorize(self, pending: PendingCall, batch: CallBatch) -> AuthorizedCall | CallOutcome:
        """The call with its permission, or its outcome where no handler has to run."""
        request = pending.request
        if request is None or pending.job is not None:
            return self._outcome_without_handler(pending, batch)
        operation, params = request
        connection = pending.connection
        party = name = connection.party
        if party != OPERATOR:
            names = batch.hive.names
            name = names[party] if party in names else _SERVICES.get(party, "")
            if not name:
                raise NotFound("the caller was destroyed")
        call = self._call(batch, name, connection, more=pending.streams)
        key = operation.key_of(params)
        if key is not None and (stored := _stored_result(call, operation, params, key)) is not None:
            return recorded_outcome(pending, batch, stored, call.ledger.jobs)
        target, decision = judge(call, operation, params)
        if connection.seat is not None:
            call, decision = self._confirm(pending, batch, call, decision)
        case = AuthorizedCall(pending, batch, call, operation, params, target, decision, key)
        if not decision.allowed:
            self._write_refusal(case, case.judgement)
            return CallOutcome(
                pending, reply.error_frame(refusal(operation, params, target, decision))
            )
        if party not in _UNLIMITED:
            self._check_limits(case)
        return case if pending.ready is None else _with_read_result(case)

    def _confirm(
        self, pending: PendingCall, batch: CallBatch, call: Call, decision: Decision
    ) -> tuple[Call, Decision]:
        """The call of a login with the confirmation that it needs, or the refusal without one."""
        login = call.login
        if not decision.allowed or login is None or pending.request is None:
            return call, decision
        if not pending.counted:
            pending.counted = True
            call.ledger.logins.note_call(login.id, call.now)
        if not pending.confirmed:
            decision, pending.confirmed = take_confirmation(call, login, *pending.request, decision)
            batch.confirmed.append(pending)
        return replace(call, confirmed=pending.confirmed), decision

    def _call(
        self, batch: CallBatch, name: str, connection: ClientConnection, *, more: bool
    ) -> Call:
        """A call of the party, or of its sub-agent, on the snapshot of this moment."""
        services = self._services
        self._number += 1
        party, sub = connection.party, connection.sub
        subagents, now = services.ledger.subagents, batch.now
        seat = connection.seat
        if seat is not None:
            party = OPERATOR
        return Call(
            name, party, f"{self._prefix}-{self._number:x}", batch.now, batch.hive, services.ledger,
            services.settings, services.states, batch.topics, more, connection.uid, services.vault,
            services.contents, None, services.git, self._models, services.prompts,
            require_subagent(subagents, party, sub, now) if sub else None, services.rows, seat,
            skills=services.skills,
        )  # fmt: skip

    def _outcome_without_handler(self, pending: PendingCall, batch: CallBatch) -> CallOutcome:
        if pending.job is not None:
            return outcome_after_job(pending, batch, self._services.ledger.jobs)
        if pending.fault is not None:
            raise pending.fault
        return CallOutcome(pending, pending.reply)

    def _check_limits(self, case: AuthorizedCall) -> None:
        """Count the call, once however often its handler runs, and check every bound."""
        pending, call, operation = case.pending, case.call, case.operation
        if not pending.counted:
            pending.counted = True
            case.batch.counted.append(pending)
            try:
                self._rates.check(call, operation)
            except LimitReached as error:
                self._audit_refusal(case, error)
                raise
        if not operation.mutates or pending.ready is not None:  # after a slow read: the same call
            return
        # What is recorded stays on disk, so that there is a bound on it (attacks 37 and 52).
        after = call.ledger.changes.take(call.uuid, call.now)
        if not after and operation.changes:
            after = call.ledger.commits.take(call.uuid, call.now)
        if after > 0:
            reason = f"cannot {operation.verb}: too many calls, try again in {after:.2f} s"
            raise LimitReached(reason, retry_after=after)
        if operation.writes:
            self._storage.check(call, operation)

    def _reply_with_error(
        self, pending: PendingCall, case: AuthorizedCall | CallOutcome | None, error: Exception,
        before: int | None,
    ) -> CallOutcome:  # fmt: skip
        """The error as the reply. A fault of the daemon costs other callers nothing.

        `before`: the rows that were changed before a handler without a savepoint ran.
        """
        if before not in (None, self._services.ledger.connection.changes):
            raise RetryWithSavepoints from error
        if not isinstance(error, HiveError):
            name = pending.request[0].verb if pending.request else "answer"
            log.error("cannot %s", name, exc_info=error)
            fault = Internal(f"cannot {name}: a fault of the daemon")
            return CallOutcome(pending, reply.error_frame(fault))
        if isinstance(case, AuthorizedCall):
            self._audit_refusal(case, error)
            if case.batch.in_transaction:
                emit(case.call, CallRefused(case.operation.name, case.params, error))
        return CallOutcome(pending, reply.error_frame(error))

    def _audit_refusal(self, case: AuthorizedCall, error: HiveError) -> None:
        """Record what a handler refused by a rule, and what a budget refused: never silent."""
        rule = error.fields.get("rule")
        if isinstance(error, NotAllowed):
            rule = rule or case.decision.rule
        elif not isinstance(error, LimitReached):
            return
        if rule:
            judgement = case.judgement._replace(rule=str(rule), reason=error.reason)
            self._write_refusal(case, judgement)

    def _write_refusal(self, case: AuthorizedCall, judgement: Judgement) -> None:
        """Recorded in order where a transaction is open, else after the batch in one of its own."""
        batch, call = case.batch, case.call
        if not self._audit.admits(refused_party(call), call.now):
            return
        refused = call_entry(REFUSED, call, judgement)
        batch.wakes.add(EVENTS)
        if batch.in_transaction:
            self._audit.write(refused)
        else:
            batch.entries.append(refused)


def _stored_result(call: Call, operation: Operation, params: Params, key: str) -> bytes | None:
    """The result of a repeated call. A login gets none that its scope does not have."""
    if call.seat is not None and scope_denial(call, operation, params) is not None:
        return None
    return idempotency.first_result(call, operation, params, key)


def _refuse_change(operation: Operation) -> Never:
    """A read changed the ledger: SQLite commits that alone, or takes it back with another call."""
    raise TypeError(f"{operation.name} is a read and must not change the ledger")


def _with_read_result(case: AuthorizedCall) -> AuthorizedCall | CallOutcome:
    """The call with what its slow read brought: for its handler, or as its reply."""
    ready = case.pending.ready
    if isinstance(ready, HiveError):
        return CallOutcome(case.pending, reply.error_frame(ready))
    if isinstance(ready, Ready):
        case.call = replace(case.call, read_result=ready.value)
    elif ready is not None:
        return page_outcome(case.pending, ready)
    return case
