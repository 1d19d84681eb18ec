"""State in memory beside the tables, and its rollback.

Counters and similar state are kept in memory, because reading them from a table for each call costs
more than the call. Code that changes such state inside a transaction records the undo step here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Step = tuple[Callable[..., object], tuple[Any, ...]]


class Undo:
    """Undo steps, newest last. Hot code appends to `steps` directly instead of calling `note`.

    A savepoint is rolled back to its mark, a transaction to its start.
    """

    __slots__ = ("_always", "active", "marks", "steps")

    def __init__(self) -> None:
        self.steps: list[Step] = []
        # Whether a transaction is open: else there is nothing to take back.
        self.active = False
        self._always: list[Callable[[], object]] = []
        # The number of steps at the begin of each open savepoint.
        self.marks: list[int] = []

    def note(self, back: Callable[..., object], *values: object) -> None:
        """Record that `back(*values)` reverts the change being made."""
        self.steps.append((back, values))

    def note_outside(self, back: Callable[..., object], *values: object) -> None:
        """Record an undo step that precedes savepoints without changes so far.

        It is for cached knowledge, which stays valid when such a savepoint is rolled back.
        """
        at = len(self.steps)
        self.note(back, *values)
        self.marks = [mark + (mark == at) for mark in self.marks]

    def always(self, forget: Callable[[], object]) -> None:
        """Call `forget` at every rollback, to clear a cache."""
        self._always.append(forget)

    def mark(self) -> None:
        """Mark the begin of a savepoint."""
        self.marks.append(len(self.steps))

    def release(self) -> None:
        """Drop the innermost mark. Its steps remain for the outer savepoint or transaction."""
        self.marks.pop()

    def back(self) -> None:
        """Revert the changes since the innermost mark, and drop it."""
        self._back_to(self.marks.pop())

    def back_all(self) -> None:
        """Revert the whole transaction."""
        self.active = False
        self.marks.clear()
        self._back_to(0)

    def clear(self) -> None:
        """Drop all steps after a COMMIT."""
        self.active = False
        self.marks.clear()
        self.steps.clear()

    def _back_to(self, mark: int) -> None:
        steps = self.steps
        while len(steps) > mark:
            back, values = steps.pop()
            back(*values)
        for forget in self._always:
            forget()
