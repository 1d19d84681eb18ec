"""The text that an agent saves for its next start (row K12)."""

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
        description="Text, at most 64 KiB; it replaces the snapshot before. Empty: delete it."
    )


class SavedSnapshot(Result):
    size: int = Field(description="The size of the snapshot in bytes.")


class GetSnapshotParams(Params):
    """Nothing."""


class Snapshot(Result):
    data: str = Field(description="The snapshot; empty when there is none.")
    kept_at: float | None = Field(
        description="When it was saved, in seconds since 1970; null when there is none."
    )


@operation(action="work", allow=SELF)
def keep_snapshot(call: Call, params: KeepSnapshotParams) -> Record[SavedSnapshot]:
    """Save a text for the caller's next start; also during the grace of a stop.

    It survives stops, crashes, moves and restarts of the daemon, and is part of an archive.
    """
    if call.by_operator:
        raise Conflict("cannot keep snapshot: the operator is not an agent")
    call.ledger.lives.save_snapshot(call.uuid, params.data, call.now)
    return Record(SavedSnapshot(size=len(params.data.encode())))


@operation(action="read", allow=SELF)
def get_snapshot(call: Call, _params: GetSnapshotParams) -> Snapshot:
    """Return the text that the caller saved last."""
    data, at = call.ledger.lives.snapshot(call.uuid)
    return Snapshot(data=data, kept_at=at)
