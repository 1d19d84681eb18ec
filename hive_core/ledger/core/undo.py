"""What is remembered beside the tables, and how a rollback takes it back.

Counters and the like are kept in memory, because reading them from a table for each call costs
more than the call. Whoever changes one inside a transaction notes the way back here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Step = tuple[Callable[..., object], tuple[Any, ...]]


class Undo:
    """Ways back, the newest last; the hottest callers append to `steps` without a call of `note`.

    A savepoint goes back to its mark, a transaction to the start.
    """

    __slots__ = ("_always", "marks", "steps")

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self._always: list[Callable[[], object]] = []
        # Where each open savepoint began.
        self.marks: list[int] = []

    def note(self, back: Callable[..., object], *values: object) -> None:
        """`back(*values)` takes back what is being changed."""
        self.steps.append((back, values))

    def note_outside(self, back: Callable[..., object], *values: object) -> None:
        """The same for what was found out, and stays right when a savepoint is taken back in which
        nothing was changed before: it is only taken back with what was."""
        at = len(self.steps)
        self.note(back, *values)
        self.marks = [mark + (mark == at) for mark in self.marks]

    def always(self, forget: Callable[[], object]) -> None:
        """Called at every rollback: for what can be read again."""
        self._always.append(forget)

    def mark(self) -> None:
        """A savepoint begins."""
        self.marks.append(len(self.steps))

    def release(self) -> None:
        """The innermost savepoint ends well; what is around it may still be taken back."""
        self.marks.pop()

    def back(self) -> None:
        """Take back what was changed since the innermost mark, which is gone then."""
        self._back_to(self.marks.pop())

    def back_all(self) -> None:
        """Take back the whole transaction."""
        self.marks.clear()
        self._back_to(0)

    def clear(self) -> None:
        """Committed: there is no way back."""
        self.marks.clear()
        self.steps.clear()

    def _back_to(self, mark: int) -> None:
        steps = self.steps
        while len(steps) > mark:
            back, values = steps.pop()
            back(*values)
        for forget in self._always:
            forget()
