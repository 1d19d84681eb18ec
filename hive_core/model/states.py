"""State machines: one tuple of transitions gives the function, the SQL triggers and the diagram.

A state machine with a mistake (two transitions for one event, a state that cannot be reached, a way
out of a final state) is refused when its module is imported.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from hive_core.errors import Conflict

_WORD = re.compile(r"[a-z][a-z_]*")


class IllegalTransition(Conflict):
    """The present state has no transition for this event."""


@dataclass(frozen=True, slots=True)
class Transition:
    """From `source`, `event` leads `to`; `by` says who causes it and `why` what it means."""

    source: str
    event: str
    to: str
    by: str
    why: str


@dataclass(frozen=True)
class StateMachine:
    """The life of one kind of thing, from `start` along `transitions` to one of `finals`."""

    noun: str
    start: str
    finals: frozenset[str]
    transitions: tuple[Transition, ...]

    def __post_init__(self) -> None:
        faults = tuple(self._faults())
        if faults:
            raise ValueError(f"states of {self.noun}: {'; '.join(faults)}")

    @property
    def states(self) -> frozenset[str]:
        ends = {state for move in self.transitions for state in (move.source, move.to)}
        return frozenset({self.start, *self.finals, *ends})

    @cached_property
    def _targets(self) -> dict[tuple[str, str], str]:
        return {(move.source, move.event): move.to for move in self.transitions}

    def next(self, state: str, event: str) -> str:
        """The state after `event`, or IllegalTransition."""
        target = self._targets.get((state, event))
        if target is None:
            raise IllegalTransition(f"cannot {event} a {self.noun} that is {state}")
        return target

    def sql_triggers(self, table: str, column: str = "state") -> dict[str, str]:
        """SQL of the triggers, by name, that abort an update without a transition."""
        pairs = " OR ".join(
            f"(OLD.{column} = '{source}' AND NEW.{column} = '{to}')"
            for source, to in sorted({(move.source, move.to) for move in self.transitions})
        )
        return {
            f"{table}_{column}_moves": (
                f"CREATE TRIGGER {table}_{column}_moves BEFORE UPDATE OF {column} ON {table} "
                f"WHEN OLD.{column} <> NEW.{column} AND NOT ({pairs}) "
                f"BEGIN SELECT RAISE(ABORT, 'illegal move of a {self.noun}'); END"
            ),
            f"{table}_{column}_starts": (
                f"CREATE TRIGGER {table}_{column}_starts BEFORE INSERT ON {table} "
                f"WHEN NEW.{column} <> '{self.start}' "
                f"BEGIN SELECT RAISE(ABORT, 'illegal first state of a {self.noun}'); END"
            ),
        }

    def diagram(self) -> str:
        """The transitions as a Mermaid state diagram."""
        lines = ["stateDiagram-v2", f"    [*] --> {self.start}"]
        lines += [f"    {m.source} --> {m.to}: {m.event} ({m.by})" for m in self.transitions]
        lines += [f"    {state} --> [*]" for state in sorted(self.finals)]
        return "\n".join(lines) + "\n"

    def _faults(self) -> Iterator[str]:
        seen: set[tuple[str, str]] = set()
        for move in self.transitions:
            if (move.source, move.event) in seen:
                yield f"two transitions for {move.event} from {move.source}"
            seen.add((move.source, move.event))
            if move.source in self.finals:
                yield f"{move.source} is final and has a way out"
            if not move.by or not move.why:
                yield f"{move.event} from {move.source} does not say by whom and why"
        # They become SQL text, so only plain words may pass.
        words = (*self.states, *(m.event for m in self.transitions), self.noun)
        yield from (f"{word!r} is not a plain word" for word in words if not _WORD.fullmatch(word))
        yield from (
            f"{state} is never reached" for state in sorted(self.states - self._reachable())
        )
        stuck = self.states - self.finals - {move.source for move in self.transitions}
        yield from (f"{state} has no way out and is not final" for state in sorted(stuck))

    def _reachable(self) -> set[str]:
        reached, fresh = {self.start}, {self.start}
        while fresh:
            fresh = {m.to for m in self.transitions if m.source in fresh} - reached
            reached |= fresh
        return reached
