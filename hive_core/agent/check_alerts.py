"""How each check was last, and who was told that it is bad: one escalation as long as it is so.

A maid may be killed before it keeps whom it told. So those that are open count, whoever made them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final, Literal

from hive_core.agent.reconnect import Link
from hive_core.errors import Conflict, NotFound

Health = Literal["good", "bad", "unknown"]
_ISSUE: Final = re.compile(r"the check (\S+) is bad: ")
_LOST: Final = "how it was last is not known any more"


@dataclass
class CheckState:
    """How it was last. `bad`: what is true until a run says otherwise; `question`: who was told."""

    state: Health
    how: str
    said: str
    at: float
    bad: bool = False
    question: str = ""


@dataclass(frozen=True)
class CheckAlerts:
    """`keep` is called when somebody was told."""

    link: Link
    keep: Callable[[], None]

    def raise_alert(self, name: str, known: CheckState) -> None:
        """That it is bad, once: also when nobody heard whether the call before came through."""
        known.question = dict(self._open_alerts()).get(name, "") or self._escalate(name, known)
        self.keep()

    def withdraw(self, known: CheckState, why: str) -> None:
        """Nobody has to answer any more."""
        if known.question:
            self._cancel(known.question, why)
            known.question = ""
            self.keep()

    def resume(self, known: dict[str, CheckState], wanted: Collection[str]) -> None:
        """Learn what a maid told that could not keep it: such a check is bad, and done soon."""
        for name, question in self._open_alerts():
            last = known.get(name)
            if name in wanted and (last is None or not last.question):
                last = last or CheckState("unknown", _LOST, "", 0.0)
                known[name] = replace(last, at=0.0, bad=True, question=question)
            elif last is None or last.question != question:
                self._cancel(question, f"{name} is not checked any more, or was told twice")

    def _open_alerts(self) -> Iterator[tuple[str, str]]:
        """Checks that somebody was told of, each with its escalation."""
        rows = self.link.ask("list_questions", which="mine")["questions"]
        for row in rows if isinstance(rows, list) else ():
            about = _ISSUE.match(row["prompt"])
            if about is not None and row["kind"] == "escalation":
                yield about[1], str(row["id"])

    def _escalate(self, name: str, known: CheckState) -> str:
        told = self.link.change(
            "escalate", issue=f"the check {name} is bad: {known.how}", severity="warning",
            context=known.said,
        )  # fmt: skip
        return str(told["escalation"])

    def _cancel(self, question: str, why: str) -> None:
        """Whoever answered it already knows."""
        with suppress(NotFound, Conflict):
            self.link.change("cancel_question", question=question, why=why)
