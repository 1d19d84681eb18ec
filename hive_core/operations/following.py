"""How the log is followed: which events somebody asked for, from which number on, and what is gone.

Numbers have no gaps, so who knows the last number that it saw misses nothing: either the rest is
there, or it is told which part was pruned meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Final, NamedTuple, Self

from pydantic import Field

from hive_core.broker.call import Call
from hive_core.broker.operation import Result
from hive_core.ledger.events import Events, Head
from hive_core.model.record import Event

# Events that are looked at for one answer; with none among them that was asked for, an empty page
# moves the reader on.
SCAN: Final = 1000

Kinds = Annotated[
    list[Annotated[str, Field(pattern=r"^[a-z][a-z0-9_.-]{0,63}\*?$")]],
    Field(max_length=32, description="Only these kinds; a `*` at the end stands for the rest."),
]


class Gap(Result):
    """Events that were asked for and are not kept any more."""

    first: int = Field(serialization_alias="from", description="The first that is missing.")
    last: int = Field(serialization_alias="to", description="The last that is missing.")


@dataclass(frozen=True, slots=True)
class Filter:
    """Which events. Empty: all. `parties` are UUIDs, or `operator` or `daemon`."""

    kinds: tuple[str, ...] = ()
    parties: frozenset[str] = frozenset()
    since: float | None = None

    @classmethod
    def of(
        cls, call: Call, kinds: Sequence[str], agents: Sequence[str], since: float | None = None
    ) -> Self:
        """As somebody asked for it; agents by name, or by UUID."""
        specs = call.hive.specs
        found = frozenset(specs[each].id if each in specs else each for each in agents)
        return cls(tuple(kinds), found, since)

    def takes(self, head: Head) -> bool:
        if self.since is not None and head.time < self.since:
            return False
        if self.parties and not self.parties & {head.caller, head.target}:
            return False
        return not self.kinds or any(_is(head.kind, each) for each in self.kinds)


class Part(NamedTuple):
    """What was found, and the last number that was looked at."""

    events: list[Event]
    end: int


def read(log: Events, wanted: Filter, after: int, limit: int) -> Part:
    """The next events that were asked for, at most `limit`, behind a number."""
    heads = log.heads(after, max(limit, SCAN))
    hits = [each for each in heads if wanted.takes(each)]
    end = heads[-1].seq if heads else max(after, log.base)
    if len(hits) > limit:
        hits, end = hits[:limit], hits[limit - 1].seq
    return Part(log.some([each.seq for each in hits]) if hits else [], end)


def gap(log: Events, after: int) -> Gap | None:
    """What lies between the number that somebody knows and the first that is kept."""
    return Gap(first=after + 1, last=log.base) if after < log.base else None


def _is(kind: str, pattern: str) -> bool:
    return kind.startswith(pattern[:-1]) if pattern.endswith("*") else kind == pattern
