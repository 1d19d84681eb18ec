"""What an agent keeps of itself for its next start (row K12)."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import Field

from hive_core.broker.call import Call, Record
from hive_core.broker.operation import Mutation, Params, Result, operation
from hive_core.errors import Conflict
from hive_core.operations.fields import bounded_text
from hive_core.policy.rules import SELF

SNAPSHOT_MOST: Final = 64 * 1024


class KeepSnapshotParams(Mutation):
    data: Annotated[str, bounded_text(SNAPSHOT_MOST)] = Field(
        description="Text, at most 64 KiB; it takes the place of the one before. Empty: none."
    )


class SavedSnapshot(Result):
    size: int = Field(description="Bytes that are kept.")


class GetSnapshotParams(Params):
    """Nothing."""


class Snapshot(Result):
    data: str = Field(description="What was kept; empty when nothing was.")
    kept_at: float | None = Field(description="Seconds since 1970; null when nothing was.")


@operation(action="work", allow=SELF)
def keep_snapshot(call: Call, params: KeepSnapshotParams) -> Record[SavedSnapshot]:
    """Keep something for the caller's next start; also while it is being stopped, in its grace.

    It outlives stops, crashes, moves and the daemon, and an archive that is restored has it too.
    """
    if call.by_operator:
        raise Conflict("cannot keep snapshot: the operator is no agent")
    call.ledger.lives.save_snapshot(call.uuid, params.data, call.now)
    return Record(SavedSnapshot(size=len(params.data.encode())))


@operation(action="read", allow=SELF)
def get_snapshot(call: Call, _params: GetSnapshotParams) -> Snapshot:
    """Give the caller what it kept last."""
    data, at = call.ledger.lives.snapshot(call.uuid)
    return Snapshot(data=data, kept_at=at)
