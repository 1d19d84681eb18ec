"""From what a handler returned to the outcome of its call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from hive_core.broker import idempotency, reply
from hive_core.broker.audit import Judgement
from hive_core.broker.batch import CallBatch, Repository
from hive_core.broker.call import Call, Change, Later, Outcome, Record, Wait
from hive_core.broker.connection import CallOutcome, PendingCall
from hive_core.broker.operation import Operation, Params, Result
from hive_core.errors import Busy
from hive_core.model.agents.hive import Hive
from hive_core.policy.algebra import Decision
from hive_core.policy.grants import revoked_capabilities

if TYPE_CHECKING:
    from hive_core.broker.audit import Audit
    from hive_core.ledger.core.jobs import JobTable
    from hive_core.ledger.core.ledger import Ledger

TREE, EVENTS = "tree", "events"
_RECORDED = frozenset({EVENTS})
_WRITTEN = (Record, Change)
# What a call wrote: the outcome, its result as JSON, and the new hive.
Written = tuple[Change[Result] | Record[Result], bytes, Hive]


@dataclass(slots=True, eq=False)
class AuthorizedCall:
    """One allowed call on its way through a batch. `key` is its idempotency key, if it has one."""

    pending: PendingCall
    batch: CallBatch
    call: Call
    operation: Operation
    params: Params
    target: str | None
    decision: Decision
    key: str | None = None

    @property
    def judgement(self) -> Judgement:
        """The decision as it is recorded."""
        decision = self.decision
        return Judgement(self.operation.name, self.target, decision.rule, decision.reason)


def outcome_of_read(case: AuthorizedCall, outcome: Outcome) -> CallOutcome:
    """The outcome of a handler that recorded nothing."""
    if isinstance(outcome, Wait):
        return _outcome_of_wait(case, outcome)
    if isinstance(outcome, Later):
        return CallOutcome(case.pending, done=False, read=outcome.read)
    if isinstance(outcome, _WRITTEN):
        raise TypeError(f"{case.operation.name} must not return {type(outcome).__name__}")
    return page_outcome(case.pending, outcome)


def page_outcome(call: PendingCall, result: Result) -> CallOutcome:
    """A whole answer, or the next part of a stream; `next` None is its end."""
    text = reply.body(result)
    if not (call.more and call.streams) or call.request is None:
        return CallOutcome(call, reply.last_frame(text))
    _, params = call.request
    if "next" not in type(result).model_fields:
        return CallOutcome(call, reply.continued_frame(text), done=False, page=params)
    after = getattr(result, "next", None)
    if after is None:
        return CallOutcome(call, reply.last_frame(text))
    next_params = params.model_copy(update={"after": after})
    return CallOutcome(call, reply.continued_frame(text), done=False, page=next_params)


def _outcome_of_wait(case: AuthorizedCall, wait: Wait[Result]) -> CallOutcome:
    call, batch = case.pending, case.batch
    due = call.due
    if due is None and wait.deadline is not None:
        due = batch.monotonic + wait.deadline - batch.now
    if due is not None and batch.monotonic >= due:
        return page_outcome(call, wait.otherwise)
    until = None if wait.until is None else batch.monotonic + wait.until - batch.now
    return CallOutcome(call, done=False, topics=wait.topics, until=until, due=due)


def record_effect(
    case: AuthorizedCall, outcome: Outcome, repo: Repository, audit: Audit
) -> Written | None:
    """Record what a handler did, in the savepoint of its call; None: it was nothing."""
    call, operation = case.call, case.operation
    hive = call.hive
    if type(outcome) is not Record and type(outcome) is not Change:
        _store_bare_result(case, outcome)
        return None
    if outcome.changes:
        hive = _commit_change(case, cast("Change[Result]", outcome), repo)
        strike_rights(call.ledger, call.hive, hive)
    text = reply.body(outcome.result)
    if operation.mutates and not outcome.audited:
        audit.record(case, outcome, hive.commit)
        case.batch.wakes |= _RECORDED
        if case.key is not None:
            idempotency.store_result(call, operation, case.params, case.key, text)
    return outcome, text, hive


def outcome_of_mutation(
    case: AuthorizedCall, outcome: Outcome, written: Written | None
) -> CallOutcome:
    """The reply to a call whose effect stays: its savepoint was not rolled back."""
    if written is None:
        return outcome_of_read(case, outcome)
    effect, text, hive = written
    batch, pending = case.batch, case.pending
    if effect.changes:
        batch.hive = hive
        batch.commits += 1
        batch.wakes.add(TREE)
    if pending.streams:
        return page_outcome(pending, effect.result)
    if not case.operation.awaits:
        return CallOutcome(pending, reply.last_frame(text))
    return recorded_outcome(pending, batch, text, case.call.ledger.jobs)


def strike_rights(ledger: Ledger, before: Hive, after: Hive) -> None:
    """Remove rights that an agent lost from the archives of its former descendants."""
    changed = before.specs is not after.specs and ledger.archives.any
    if changed and (lost := revoked_capabilities(before, after)):
        ledger.archives.strike_capabilities(lost)


def _store_bare_result(case: AuthorizedCall, outcome: Outcome) -> None:
    """Store a result that recorded nothing too: a repeat with the same key must return it."""
    bare = isinstance(outcome, Result) and not getattr(case.params, "dry_run", False)
    if case.key is not None and bare:
        text = reply.body(cast("Result", outcome))
        idempotency.store_result(case.call, case.operation, case.params, case.key, text)


def _commit_change(case: AuthorizedCall, change: Change[Result], repo: Repository) -> Hive:
    """The next hive with its commit, on top of what the batch has committed so far."""
    if case.batch.frozen:
        raise Busy("the meta repo is being changed by hand; try again")
    call = case.call
    trailers = {
        "Hive-Caller": f"{call.caller} {call.uuid}" if call.caller != call.uuid else call.caller,
        "Hive-Operation": case.operation.name,
        "Hive-Request": call.request,
        **change.trailers,
    }
    hive = change.hive.validate()
    return hive.at_commit(repo.write(hive, call.hive, change.message, trailers))


def recorded_outcome(
    call: PendingCall, batch: CallBatch, text: bytes, jobs: JobTable
) -> CallOutcome:
    """The reply to a recorded call: now, or once its job has ended when the caller waits for it."""
    if call.request is None or not call.request[0].awaits:
        return CallOutcome(call, reply.last_frame(text))
    wait = getattr(call.request[1], "wait", None)
    job = reply.job_of(text) if wait else None
    if not wait or job is None:
        return CallOutcome(call, reply.last_frame(text))
    # The job may have ended already: a repeated call gets the job of the first one.
    return _after(CallOutcome(call, due=batch.monotonic + wait, job=(job, text)), batch, jobs)


def outcome_after_job(call: PendingCall, batch: CallBatch, jobs: JobTable) -> CallOutcome:
    """The reply when a call that waits for a job runs again."""
    return _after(CallOutcome(call, due=call.due, job=call.job), batch, jobs)


def _after(held: CallOutcome, batch: CallBatch, jobs: JobTable) -> CallOutcome:
    """The reply that waits for a job; a job that failed becomes the error of the call."""
    if held.job is None:
        raise TypeError("no job is waited for")
    name, text = held.job
    job = jobs.get(name)
    if job is not None and job.ended is not None:
        frame = (
            reply.error_frame(reply.job_error(job))
            if job.error
            else reply.frame_after_job(text, job)
        )
        return CallOutcome(held.call, frame)
    if job is None or held.due is None or batch.monotonic >= held.due:
        return CallOutcome(held.call, reply.last_frame(text))
    held.done, held.topics = False, frozenset((f"job:{name}",))
    return held
