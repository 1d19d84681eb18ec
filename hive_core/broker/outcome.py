"""From what a handler returned to the next step of its call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from hive_core.broker import idempotency, reply
from hive_core.broker.audit import Judgement
from hive_core.broker.batch import Batch, Repository
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
_WRITTEN = (Change, Record)


@dataclass(slots=True, eq=False)
class AuthorizedCall:
    """One allowed call on its way through a batch. `key` is its idempotency key, if it has one."""

    pending: PendingCall
    batch: Batch
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
    """The step for an outcome that recorded nothing."""
    if isinstance(outcome, Wait):
        return _outcome_of_wait(case, outcome)
    if isinstance(outcome, Later):
        return CallOutcome(case.pending, done=False, read=outcome.read)
    if isinstance(outcome, _WRITTEN):
        raise TypeError(f"{case.operation.name} must not return {type(outcome).__name__}")
    return page_outcome(case.pending, outcome)


def page_outcome(ask: PendingCall, result: Result) -> CallOutcome:
    """A whole answer, or the next part of a stream; `next` None is its end."""
    text = reply.body(result)
    if not (ask.more and ask.streams) or ask.request is None:
        return CallOutcome(ask, reply.last_frame(text))
    _, params = ask.request
    if "next" not in type(result).model_fields:
        return CallOutcome(ask, reply.continued_frame(text), done=False, page=params)
    after = getattr(result, "next", None)
    if after is None:
        return CallOutcome(ask, reply.last_frame(text))
    following = params.model_copy(update={"after": after})
    return CallOutcome(ask, reply.continued_frame(text), done=False, page=following)


def _outcome_of_wait(case: AuthorizedCall, wait: Wait[Result]) -> CallOutcome:
    ask, turn = case.pending, case.batch
    due = ask.due
    if due is None and wait.deadline is not None:
        due = turn.monotonic + wait.deadline - turn.now
    if due is not None and turn.monotonic >= due:
        return page_outcome(ask, wait.otherwise)
    until = None if wait.until is None else turn.monotonic + wait.until - turn.now
    return CallOutcome(ask, done=False, topics=wait.topics, until=until, due=due)


def record_effect(
    case: AuthorizedCall, outcome: Outcome, repo: Repository, audit: Audit
) -> tuple[bytes, Hive]:
    """Record what a handler did, in the savepoint of its call; the result as JSON, the new hive."""
    call, operation = case.call, case.operation
    hive, kind = call.hive, type(outcome)
    if kind is Change:
        hive = _commit_change(case, cast("Change[Result]", outcome), repo)
        strike_rights(call.ledger, call.hive, hive)
    elif kind is not Record:
        _store_bare_result(case, outcome)
        return b"", hive
    recorded = cast("Change[Result] | Record[Result]", outcome)
    text = reply.body(recorded.result)
    if operation.mutates and not recorded.audited:
        audit.record(recorded.kind, case, hive.commit, recorded.fields)
        case.batch.wakes.add(EVENTS)
        if case.key is not None:
            idempotency.store_result(call, operation, case.params, case.key, text)
    return text, hive


def outcome_of_mutation(
    case: AuthorizedCall, outcome: Outcome, text: bytes, hive: Hive
) -> CallOutcome:
    """The reply to a call whose effect stays: its savepoint was not rolled back."""
    batch, pending = case.batch, case.pending
    if type(outcome) is Record:
        recorded: Change[Result] | Record[Result] = outcome
    elif type(outcome) is Change:
        recorded = outcome
        batch.hive = hive
        batch.commits += 1
        batch.wakes.add(TREE)
    else:
        return outcome_of_read(case, outcome)
    if recorded.wakes:
        batch.wakes |= recorded.wakes
    if pending.streams:
        return page_outcome(pending, recorded.result)
    if not case.operation.awaits:
        return CallOutcome(pending, reply.last_frame(text))
    return recorded_outcome(pending, batch, text, case.call.ledger.jobs)


def strike_rights(ledger: Ledger, before: Hive, after: Hive) -> None:
    """What somebody may do no more, nobody who was below it comes back with from an archive."""
    changed = before.specs is not after.specs and ledger.archives.any
    if changed and (lost := revoked_capabilities(before, after)):
        ledger.archives.strike_capabilities(lost)


def _store_bare_result(case: AuthorizedCall, outcome: Outcome) -> None:
    """That there was nothing to do is a first result too: a repeat must not find something."""
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


def recorded_outcome(ask: PendingCall, turn: Batch, text: bytes, jobs: JobTable) -> CallOutcome:
    """The reply to a recorded call: now, or once its job has ended when the caller waits for it."""
    if ask.request is None or not ask.request[0].awaits:
        return CallOutcome(ask, reply.last_frame(text))
    wait = getattr(ask.request[1], "wait", None)
    job = reply.job_of(text) if wait else None
    if not wait or job is None:
        return CallOutcome(ask, reply.last_frame(text))
    # It may have ended already: a repeated call gets the job of the first one.
    return _after(CallOutcome(ask, due=turn.monotonic + wait, job=(job, text)), turn, jobs)


def outcome_after_job(ask: PendingCall, turn: Batch, jobs: JobTable) -> CallOutcome:
    """The same when the call is asked again."""
    return _after(CallOutcome(ask, due=ask.due, job=ask.job), turn, jobs)


def _after(held: CallOutcome, turn: Batch, jobs: JobTable) -> CallOutcome:
    """The reply that is held back for a job: one that failed is the caller's error."""
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
    if job is None or held.due is None or turn.monotonic >= held.due:
        return CallOutcome(held.call, reply.last_frame(text))
    held.done, held.topics = False, frozenset((f"job:{name}",))
    return held
