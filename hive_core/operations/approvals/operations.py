"""Requests to the operator: list, show, approve and deny them."""

from __future__ import annotations

import re
from contextlib import suppress
from itertools import islice
from typing import Annotated, Final

from pydantic import AfterValidator, Field

from hive_core.broker.call import Call, EventTarget, Later, Record, SlowReadSources
from hive_core.broker.login_rule import LoginRule
from hive_core.broker.operation import Mutation, Result, operation
from hive_core.errors import Conflict, Expired, InvalidArgument, NotFound
from hive_core.model.config.approval import (
    SHOWN_DIGITS,
    Approval,
    ApprovalKind,
    ApprovalState,
    Effect,
)
from hive_core.operations.approvals.diff_pages import CURSOR, DiffPosition, LineRow, diff_page
from hive_core.operations.approvals.outcome import approval_topic, display_name, end_approval
from hive_core.operations.approvals.views import (
    ROWS_MOST,
    ApprovalRow,
    FollowerRow,
    MarkRow,
    approval_row,
    can_see,
    is_above,
    is_requester,
    mark_rows,
    models_after,
    strongest_effect,
    visible_figures,
    visible_followers,
)
from hive_core.operations.fields import WaitParams
from hive_core.operations.pages import Page, Paged, reply_bytes, take_fitting
from hive_core.policy.rules import OPERATOR, SELF

_WITH_LINES: Final = (ApprovalKind.CONFIG, ApprovalKind.INPUTS)
_UNREAD: Final = (ApprovalState.RECEIVED, ApprovalState.REFUSED)
_DIGITS: Final = re.compile(r"[0-9a-f]+", re.ASCII)

Id = Annotated[str, Field(max_length=64)]


def _check_digits(text: str) -> str:
    if not _DIGITS.fullmatch(text):
        raise ValueError("must be hexadecimal digits of a commit")
    if not SHOWN_DIGITS <= len(text) <= 40:  # noqa: PLR2004 - of a commit
        raise ValueError(f"must be the first {SHOWN_DIGITS} digits of the commit, or more")
    return text


class ListApprovalsParams(Paged):
    all: bool = Field(default=False, description="Whether to list ended ones too.")


class GetApprovalParams(Paged):
    id: Id = Field(description="The approval.")
    after: str | None = Field(
        None, pattern=CURSOR, description="`next` of the page before: the lines after it."
    )
    limit: int = Field(2000, ge=1, le=10_000, description="Maximum number of lines in a page.")


class ApproveParams(WaitParams):
    id: Id = Field(description="The approval.")
    commit: Annotated[str, AfterValidator(_check_digits)] = Field(
        max_length=64, description="The first 8 or more digits of its commit."
    )


class DenyParams(Mutation):
    id: Id = Field(description="The approval.")
    why: str = Field(
        min_length=1,
        max_length=1000,
        description="Reason, which is sent to the requester and to the parent.",
    )


class ApprovalRows(Page):
    approvals: list[ApprovalRow] = Field(description="The approvals, the newest first.")


class ShownApproval(Page):
    approval: ApprovalRow = Field(description="The approval.")
    review: dict[str, object] = Field(description="Figures of the check: files, bytes, changes.")
    marks: list[MarkRow] = Field(description="Each value of `[request]` and what it changes.")
    models: list[str] = Field(
        description="Models that the agent may use once this is granted, its own first."
    )
    lines: list[LineRow] = Field(description="Lines of the diff to what is deployed.")
    follows: list[FollowerRow] = Field(
        description="For newer inputs: the first 500 agents that are rebuilt once the inputs are"
        " approved, in the order of the rollout."
    )
    followers: int = Field(description="Number of agents that are rebuilt.")
    whole: bool = Field(description="Whether the caller may read the message, marks and lines.")


class Decided(Result):
    id: str = Field(description="The approval.")
    state: str = Field(description="Its state.")
    agent: str = Field(description="The agent that it concerns.")
    commit: str = Field(description="The approved commit, with all digits.")
    effect: str = Field(description="The effect on a running agent.")
    job: str = Field(
        description="The job; it ends when the commit is deployed and healthy, or has failed."
    )


class Denied(Result):
    id: str = Field(description="The approval.")
    state: str = Field(description="denied.")


@operation(action="read", allow=SELF)
def list_approvals(call: Call, params: ListApprovalsParams) -> ApprovalRows:
    """List the requests that wait for the operator, the newest first; with `all` ended ones too.

    An agent sees all of its own requests. Of requests for itself or a descendant it sees only that
    they exist.
    """
    approvals = _approvals_on_page(call, params)
    rows = [approval_row(call, approval) for approval in approvals[: params.most]]
    fit = list(take_fitting(rows, lambda row: reply_bytes(row.message, row.reason)))
    return ApprovalRows(approvals=fit, next=fit[-1].id if len(fit) < len(approvals) else None)


@operation(action="read", allow=SELF)
def get_approval(call: Call, params: GetApprovalParams) -> Later[ShownApproval]:
    """Show one request: requester, effect, granted rights, and each changed line.

    Called with `more`, it returns the lines in pages. The requester sees all of it; an ancestor of
    the agent sees only that it exists.
    """
    approval = _find_approval(call, params.id)
    follows = (
        visible_followers(call)
        if _is_open_input_update(approval) and is_requester(call, approval)
        else []
    )
    shown = ShownApproval(
        approval=approval_row(call, approval).model_copy(update=_current_fields(call, approval)),
        review=visible_figures(call, approval),
        marks=mark_rows(call, approval),
        models=models_after(call, approval),
        lines=[],
        follows=follows[:ROWS_MOST],
        followers=len(follows),
        whole=is_requester(call, approval),
    )

    async def read(reads: SlowReadSources) -> ShownApproval:
        if not shown.whole or approval.kind not in _WITH_LINES or approval.state in _UNREAD:
            return shown
        # The lines of an ended request may be deleted; those of an open one must be shown.
        with suppress(*(() if approval.open else (NotFound,))):
            return await _add_lines(reads, shown, params)
        return shown

    return Later(read)


def _bound_request(call: Call, params: ApproveParams) -> str:
    """What a confirmation of `approve` is bound to: all that the approval is bound to."""
    approval = _find_approval(call, params.id)
    return repr((approval.kind.value, approval.agent, approval.binding, approval.requested))


@operation(
    action="administer",
    allow=OPERATOR,
    urgent=True,
    login=LoginRule(confirm="each", bound=_bound_request),
)
def approve(call: Call, params: ApproveParams) -> Record[Decided]:
    """Approve exactly the commit that was shown; it is deployed at once.

    An approval is used once. It is void when it has expired, when the agent runs with another
    commit than the one it was compared with, and when the commit or the lock has changed since.
    """
    approval = _find_approval(call, params.id)
    if not approval.binding.commit.startswith(params.commit):
        reason = (
            f"cannot approve {approval.id}: these are not the first digits of its commit;"
            f" see `hive approval show {approval.id}`"
        )
        raise InvalidArgument(reason, field="commit")
    return use_approval(call, approval, call.person)


@operation(action="administer", allow=OPERATOR, urgent=True)
def deny(call: Call, params: DenyParams) -> Record[Denied]:
    """Deny a request: it is never deployed, and the requester and the parent get the reason."""
    approval = _find_approval(call, params.id)
    end_approval(call, approval, "deny", by=call.person, reason=params.why)
    return Record(
        Denied(id=approval.id, state=ApprovalState.DENIED),
        fields={**_audit_fields(call, approval), "reason": params.why},
        target=_event_target(call, approval),
    )


def _current_fields(call: Call, approval: Approval) -> dict[str, object]:
    """The present effect of an open request for newer inputs; others have a stored one."""
    checked = _is_open_input_update(approval) and approval.state not in _UNREAD
    return (
        {"effect": _current_effect(call, approval)}
        if checked and is_requester(call, approval)
        else {}
    )


def _is_open_input_update(approval: Approval) -> bool:
    return approval.kind is ApprovalKind.INPUTS and approval.open


def use_approval(call: Call, approval: Approval, by: str) -> Record[Decided]:
    """Use an approval, once; raise Conflict or Expired when it cannot be used."""
    cannot = f"cannot approve {approval.id}"
    if approval.state is ApprovalState.RECEIVED:
        raise Conflict(f"{cannot}: it is still being checked")
    if approval.state is ApprovalState.PENDING and approval.expires <= call.now:
        raise Expired(f"{cannot}: it has expired")
    if approval.state is not ApprovalState.PENDING:
        raise Conflict(f"{cannot}: it is {approval.state}")
    _check_base(call, approval, cannot)
    used = call.ledger.approvals.move(approval.id, "approve", call.now, by=by)
    effect = _current_effect(call, used)
    call.notify(approval_topic(used.id))
    return Record(
        Decided(
            id=used.id,
            state=used.state,
            agent=display_name(call, used.agent) if used.agent else "",
            commit=used.binding.commit,
            effect=effect,
            job=used.job,
        ),
        fields={**_audit_fields(call, used), "decided_by": by},
        target=_event_target(call, used),
    )


def _check_base(call: Call, approval: Approval, cannot: str) -> None:
    """Check that the agent exists and that the approval was compared with its deployed commit."""
    if not approval.agent:
        return
    name = call.hive.name(approval.agent)
    if name is None:
        raise Conflict(f"{cannot}: its agent was destroyed")
    if (call.hive.spec(name).config or "") != approval.binding.base:
        raise Conflict(f"{cannot}: the configuration of {name} has changed since the check")


def _current_effect(call: Call, approval: Approval) -> Effect:
    """The effect as of now.

    Followers of newer inputs may have been stopped or started since the check.
    """
    if not _is_open_input_update(approval):
        return approval.effect
    return strongest_effect(visible_followers(call))


def _audit_fields(call: Call, approval: Approval) -> dict[str, object]:
    """The requester and the subject, for the audit log (row H27)."""
    return {
        "approval": approval.id, "agent": approval.agent,
        "agent_name": display_name(call, approval.agent) if approval.agent else "",
        "requester": approval.requester, "requester_name": display_name(call, approval.requester),
        "commit": approval.binding.commit, "effect": approval.effect.value,
    }  # fmt: skip


def _event_target(call: Call, approval: Approval) -> EventTarget | None:
    """The agent whose configuration it changes; None: the inputs of all."""
    agent = approval.agent
    return EventTarget(agent, display_name(call, agent)) if agent else None


def _approvals_on_page(call: Call, params: ListApprovalsParams) -> list[Approval]:
    """The approvals of the page that the caller can see, and one more if there is one."""
    approvals, after, open_ = call.ledger.approvals, params.after, not params.all
    if after is not None:
        _find_approval(call, after)
    if call.by_operator:
        return approvals.page(after, params.most + 1, open_=open_)
    seen = (
        id_
        for id_, agent, requester in approvals.parties(after, open_=open_)
        if requester == call.uuid or is_above(call, agent)
    )
    return approvals.find_all(islice(seen, params.most + 1))


def _find_approval(call: Call, id_: str) -> Approval:
    """The approval if the caller can see it.

    Otherwise NotFound, as for an unknown id (attack 41).
    """
    approval = call.ledger.approvals.get(id_)
    if approval is None or not can_see(call, approval):
        raise NotFound(f"no approval {id_}")
    return approval


async def _add_lines(
    reads: SlowReadSources, shown: ShownApproval, params: GetApprovalParams
) -> ShownApproval:
    """The page with as many lines as fit."""
    mark = DiffPosition.of(params.after)
    data, more = await reads.diff(shown.approval.agent_uuid, shown.approval.id, mark.at)
    lines, following = diff_page(data, mark, params.limit)
    if following.at == mark.at + len(data) and not more:
        return shown.model_copy(update={"lines": lines})
    return shown.model_copy(update={"lines": lines, "next": following.text})
