"""What follows for artifacts: from the end of their owners, and from their own."""

from __future__ import annotations

from pydantic import Field

from hive_core.broker.call import Call, Record
from hive_core.broker.hooks import AgentDestroyed, when
from hive_core.broker.operation import Result
from hive_core.broker.timers import due


class ClearedContents(Result):
    contents: int = Field(description="How many files are gone.")


@when(AgentDestroyed)
def record_heirs(call: Call, what: AgentDestroyed) -> frozenset[str]:
    """Who was below it goes on reading what it kept for those below it."""
    children = call.hive.topology.children(what.name)
    call.ledger.artifacts.add_heirs(what.uuid, [call.hive.spec(each).id for each in children])
    call.contents.cancel(what.uuid)
    return frozenset()


@due(
    at=lambda ledger: 0.0 if ledger.artifacts.old_contents() else None,
    topics=frozenset({"artifact"}),
)
def clear_contents(call: Call) -> Record[ClearedContents]:
    """A file goes after the COMMIT with which nothing refers to it any more."""
    found = call.ledger.artifacts.old_contents()
    for digest in found:
        if not call.ledger.artifacts.has_content(digest):
            call.contents.remove(digest)
        call.ledger.artifacts.forget_content(digest)
    return Record(ClearedContents(contents=len(found)))
