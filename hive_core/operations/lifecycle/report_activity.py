"""The session of an agent says that it waits: for a budget, for an answer, for a person."""

from __future__ import annotations

from pydantic import Field

from hive_core.broker.call import Call, Record
from hive_core.broker.hooks import AgentStarted, on
from hive_core.broker.operation import Mutation, Result, operation
from hive_core.errors import Conflict
from hive_core.operations.fields import Reason
from hive_core.operations.lifecycle.activity import update_activity
from hive_core.policy.rules import SELF


class ReportActivityParams(Mutation):
    blocked: bool = Field(description="Whether the caller can do nothing until something happens.")
    reason: Reason = Field("", description="What it waits for.")


class ReportedActivity(Result):
    activity: str = Field(description="The activity of the agent now: idle, running or blocked.")


@operation(action="work", allow=SELF)
def report_activity(call: Call, params: ReportActivityParams) -> Record[ReportedActivity]:
    """Report that the caller is blocked, or that it goes on.

    It stays so until the caller says otherwise, or its machine starts anew.
    """
    if call.by_operator:
        raise Conflict("cannot report activity: the operator is not an agent")
    reason = (params.reason or "it does not say why") if params.blocked else ""
    call.ledger.lives.set_blocked(call.uuid, call.ledger.events.masks.hide(reason))
    update_activity(call, call.uuid)
    call.notify(f"activity:{call.uuid}")
    fields = {"blocked": params.blocked, "reason": params.reason}
    return Record(ReportedActivity(activity=call.ledger.activity(call.uuid)), fields=fields)


@on(AgentStarted)
def forget_reported_activity(call: Call, event: AgentStarted) -> None:
    """A new machine has said nothing yet."""
    if call.ledger.lives.blocked_reason(event.uuid):
        call.ledger.lives.set_blocked(event.uuid, "")
        update_activity(call, event.uuid)
