"""Checking the chain of the audit log, in slices, so that other calls are served in between."""

from __future__ import annotations

from typing import Final

from pydantic import Field

from hive_core.broker.call import Call
from hive_core.broker.operation import Params, operation
from hive_core.operations.pages import Page
from hive_core.policy.rules import OPERATOR

# Events of a slice: about 2 ms, less than a fifth of what a batch of reads may take.
SLICE: Final = 200


class CheckEventsParams(Params):
    after: str | None = Field(
        None, max_length=18, pattern=r"^[0-9]+$",
        description="`next` of the previous slice; absent: from the first event on.",
    )  # fmt: skip


class CheckedEvents(Page):
    checked: int = Field(description="Number of events of this slice whose digests were computed.")
    last: int = Field(description="Number of the last event that is known to be right.")
    broken_at: int | None = Field(
        description="Number of the first event that is not what was recorded; null: none so far."
    )


@operation(action="administer", allow=OPERATOR)
def check_events(call: Call, params: CheckEventsParams) -> CheckedEvents:
    """Check a slice of the audit log's chain of digests; called with `more`, the whole of it.

    The chain is right when `next` is null and `broken_at` is null in all slices.
    """
    part = call.ledger.events.check_slice(int(params.after or 0), SLICE)
    return CheckedEvents(
        checked=part.checked, last=part.last, broken_at=part.broken,
        next=None if part.is_end else str(part.last),
    )  # fmt: skip
