"""What waits for the operator: listed, shown as it was checked, approved, denied."""

from __future__ import annotations

import re
from contextlib import suppress
from itertools import islice
from typing import Annotated, Final

from pydantic import AfterValidator, Field

from hive_core.broker.call import Call, Later, Record, SlowReadSources
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
from hive_core.operations.approvals.input_followers import (
    ROWS_MOST,
    FollowerRow,
    strongest_effect,
    visible_followers,
)
from hive_core.operations.approvals.outcome import approval_topic, display_name, end_approval
from hive_core.operations.approvals.views import (
    ApprovalRow,
    MarkRow,
    approval_row,
    can_see,
    is_above,
    is_requester,
    mark_rows,
    visible_figures,
)
from hive_core.operations.fields import WaitParams
from hive_core.operations.pages import Page, Paged, fitting, written
from hive_core.policy.rules import OPERATOR, SELF

_WITH_LINES: Final = (ApprovalKind.CONFIG, ApprovalKind.INPUTS)
_UNREAD: Final = (ApprovalState.RECEIVED, ApprovalState.REFUSED)
_DIGITS: Final = re.compile(r"[0-9a-f]+", re.ASCII)

Id = Annotated[str, Field(max_length=64)]


def _check_digits(text: str) -> str:
    if not _DIGITS.fullmatch(text):
        raise ValueError("are not the digits of a commit")
    if not SHOWN_DIGITS <= len(text) <= 40:  # noqa: PLR2004 - of a commit
        raise ValueError(f"must be the first {SHOWN_DIGITS} digits of the commit, or more")
    return text


class ListApprovalsParams(Paged):
    all: bool = Field(default=False, description="Those that have ended too.")


class GetApprovalParams(Paged):
    id: Id = Field(description="The approval.")
    after: str | None = Field(
        None, pattern=CURSOR, description="`next` of the page before: the lines behind it."
    )
    limit: int = Field(2000, ge=1, le=10_000, description="Lines in a page at most.")


class ApproveParams(WaitParams):
    id: Id = Field(description="The approval.")
    commit: Annotated[str, AfterValidator(_check_digits)] = Field(
        max_length=64, description="The first 8 digits of its commit, or more of them."
    )


class DenyParams(Mutation):
    id: Id = Field(description="The approval.")
    why: str = Field(
        min_length=1, max_length=1000, description="Why; who asked and the parent are told."
    )


class ApprovalRows(Page):
    approvals: list[ApprovalRow] = Field(description="The newest first.")


class ShownApproval(Page):
    approval: ApprovalRow = Field(description="The row.")
    review: dict[str, object] = Field(description="Figures of the check: files, bytes, changes.")
    marks: list[MarkRow] = Field(description="Each value of `[request]` with what it changes.")
    lines: list[LineRow] = Field(description="Of the difference to what is deployed.")
    follows: list[FollowerRow] = Field(
        description="Of newer inputs: the agents that follow once they are approved, in the order"
        " in which they are tried; the first 500."
    )
    followers: int = Field(description="How many follow in all.")
    whole: bool = Field(description="False: the message, marks and lines are not the caller's.")


class Decided(Result):
    id: str = Field(description="The approval.")
    state: str = Field(description="How far it is now.")
    agent: str = Field(description="The agent it is about.")
    commit: str = Field(description="What is approved, with all digits.")
    effect: str = Field(description="What it does to a running agent.")
    job: str = Field(description="Ends when it is deployed and healthy, or will never be.")


class Denied(Result):
    id: str = Field(description="The approval.")
    state: str = Field(description="denied.")


@operation(action="read", allow=SELF)
def list_approvals(call: Call, params: ListApprovalsParams) -> ApprovalRows:
    """List what waits for the operator, the newest first; with `all` what has ended too.

    An agent sees what it asked for itself, and that there is one for itself or a descendant.
    """
    found = _approvals_on_page(call, params)
    rows = [approval_row(call, each) for each in found[: params.most]]
    fit = list(fitting(rows, lambda row: written(row.message, row.reason)))
    return ApprovalRows(approvals=fit, next=fit[-1].id if len(fit) < len(found) else None)


@operation(action="read", allow=SELF)
def get_approval(call: Call, params: GetApprovalParams) -> Later[ShownApproval]:
    """Show one request: who asks, what it would do and give, and each line that it changes.

    Called with `more`, the lines follow in pages. Who asked sees all of it, an ancestor of the
    agent that there is one.
    """
    found = _find_approval(call, params.id)
    follows = (
        visible_followers(call)
        if _is_open_input_update(found) and is_requester(call, found)
        else []
    )
    shown = ShownApproval(
        approval=approval_row(call, found).model_copy(update=_current_fields(call, found)),
        review=visible_figures(call, found),
        marks=mark_rows(call, found),
        lines=[],
        follows=follows[:ROWS_MOST],
        followers=len(follows),
        whole=is_requester(call, found),
    )

    async def read(reads: SlowReadSources) -> ShownApproval:
        if not shown.whole or found.kind not in _WITH_LINES or found.state in _UNREAD:
            return shown
        # Of what has ended the lines may be gone; what may still be approved is shown or not.
        with suppress(*(() if found.open else (NotFound,))):
            return await _add_lines(reads, shown, params)
        return shown

    return Later(read)


@operation(action="administer", allow=OPERATOR, urgent=True)
def approve(call: Call, params: ApproveParams) -> Record[Decided]:
    """Let an agent run with exactly the commit that was shown; it is deployed at once.

    An approval is used once. It is void when it is too old, when the agent runs with another
    commit than the one it was compared with, and when what is there is not what was shown.
    """
    found = _find_approval(call, params.id)
    if not found.binding.commit.startswith(params.commit):
        reason = f"these are not the first digits of its commit: `hive approval show {found.id}`"
        raise InvalidArgument(reason, field="commit")
    return use_approval(call, found, f"uid:{call.uid}")


@operation(action="administer", allow=OPERATOR, urgent=True)
def deny(call: Call, params: DenyParams) -> Record[Denied]:
    """Refuse a request. Nothing of it is ever deployed; who asked and the parent are told why."""
    found = _find_approval(call, params.id)
    topics = end_approval(call, found, "deny", by=f"uid:{call.uid}", reason=params.why)
    return Record(
        Denied(id=found.id, state=ApprovalState.DENIED),
        topics,
        {**_audit_fields(call, found), "reason": params.why},
    )


def _current_fields(call: Call, approval: Approval) -> dict[str, object]:
    """What an open request for newer inputs does as of now; of others it was worked out before."""
    checked = _is_open_input_update(approval) and approval.state not in _UNREAD
    return (
        {"effect": _current_effect(call, approval)}
        if checked and is_requester(call, approval)
        else {}
    )


def _is_open_input_update(approval: Approval) -> bool:
    return approval.kind is ApprovalKind.INPUTS and approval.open


def use_approval(call: Call, approval: Approval, by: str) -> Record[Decided]:
    """Use an approval, once: Conflict or Expired when it cannot be used (any more)."""
    cannot = f"cannot approve {approval.id}"
    if approval.state is ApprovalState.RECEIVED:
        raise Conflict(f"{cannot}: it is still being checked")
    if approval.state is ApprovalState.PENDING and approval.expires <= call.now:
        raise Expired(f"{cannot}: its time is over")
    if approval.state is not ApprovalState.PENDING:
        raise Conflict(f"{cannot}: it is {approval.state}")
    _check_base(call, approval, cannot)
    found = call.ledger.approvals.move(approval.id, "approve", call.now, by=by)
    effect = _current_effect(call, found)
    return Record(
        Decided(
            id=found.id,
            state=found.state,
            agent=display_name(call, found.agent) if found.agent else "",
            commit=found.binding.commit,
            effect=effect,
            job=found.job,
        ),
        frozenset({approval_topic(found.id)}),
        {**_audit_fields(call, found), "decided_by": by},
    )


def _check_base(call: Call, approval: Approval, cannot: str) -> None:
    """What it was compared with is still what is deployed, and the agent is still there."""
    if not approval.agent:
        return
    name = call.hive.name(approval.agent)
    if name is None:
        raise Conflict(f"{cannot}: the agent is gone")
    if (call.hive.spec(name).config or "") != approval.binding.base:
        raise Conflict(f"{cannot}: {name} runs with another configuration since it was checked")


def _current_effect(call: Call, approval: Approval) -> Effect:
    """As it is now: who follows newer inputs may have been stopped or started since the check."""
    if not _is_open_input_update(approval):
        return approval.effect
    return strongest_effect(visible_followers(call))


def _audit_fields(call: Call, approval: Approval) -> dict[str, object]:
    """Row H27: on whose behalf, of what."""
    return {
        "approval": approval.id, "agent": approval.agent,
        "agent_name": display_name(call, approval.agent) if approval.agent else "",
        "requester": approval.requester, "requester_name": display_name(call, approval.requester),
        "commit": approval.binding.commit, "effect": approval.effect.value,
    }  # fmt: skip


def _approvals_on_page(call: Call, params: ListApprovalsParams) -> list[Approval]:
    """Those on the page, and one more if there is one; the others are as if they were not."""
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
    return approvals.existing(islice(seen, params.most + 1))


def _find_approval(call: Call, id_: str) -> Approval:
    """The approval, if the caller may know of it; else there is none (attack 41)."""
    found = call.ledger.approvals.get(id_)
    if found is None or not can_see(call, found):
        raise NotFound(f"no approval {id_}")
    return found


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
