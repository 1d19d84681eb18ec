"""What happens to artifacts when their owner is destroyed, and to files that are not used."""

from __future__ import annotations

from pydantic import Field

from hive_core.broker.call import Call, Record
from hive_core.broker.hooks import AgentDestroyed, on
from hive_core.broker.operation import Result
from hive_core.broker.timers import due


class ClearedContents(Result):
    contents: int = Field(description="The number of deleted files.")


@on(AgentDestroyed)
def record_heirs(call: Call, event: AgentDestroyed) -> None:
    """Let the children of a destroyed agent still read what it stored for its subtree."""
    children = call.hive.topology.children(event.name)
    heirs = [call.hive.spec(child).id for child in children]
    call.ledger.artifacts.add_heirs(event.uuid, heirs)
    call.contents.cancel(event.uuid)


@due(
    at=lambda ledger: 0.0 if ledger.artifacts.old_contents() else None,
    topics=frozenset({"artifact"}),
)
def clear_contents(call: Call) -> Record[ClearedContents]:
    """Delete files, after the COMMIT that removed the last reference of an artifact to them."""
    digests = call.ledger.artifacts.old_contents()
    for digest in digests:
        if not call.ledger.artifacts.has_content(digest):
            call.contents.remove(digest)
        call.ledger.artifacts.forget_content(digest)
    return Record(ClearedContents(contents=len(digests)))
