"""The last state of each check, and its escalation while the check is bad.

A maid may be killed before it saves the id of its escalation. So an open escalation with that text
counts, also one of an earlier maid.
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
_LOST: Final = "its last state is unknown"


@dataclass
class CheckState:
    """The last state of a check.

    `bad` stays until a run shows another state. `question` is the open escalation; empty: none.
    """

    state: Health
    how: str
    said: str
    at: float
    bad: bool = False
    question: str = ""


@dataclass(frozen=True)
class CheckAlerts:
    """Raises and withdraws escalations. `keep` is called after each."""

    link: Link
    keep: Callable[[], None]

    def raise_alert(self, name: str, known: CheckState) -> None:
        """Escalate once, also when the answer to an earlier call was lost."""
        known.question = dict(self._open_alerts()).get(name, "") or self._escalate(name, known)
        self.keep()

    def withdraw(self, known: CheckState, why: str) -> None:
        """Cancel the escalation of a check, if there is one."""
        if known.question:
            self._cancel(known.question, why)
            known.question = ""
            self.keep()

    def resume(self, known: dict[str, CheckState], wanted: Collection[str]) -> None:
        """Adopt escalations that an earlier maid did not save: such a check is bad and due soon."""
        for name, question in self._open_alerts():
            last = known.get(name)
            if name in wanted and (last is None or not last.question):
                last = last or CheckState("unknown", _LOST, "", 0.0)
                known[name] = replace(last, at=0.0, bad=True, question=question)
            elif last is None or last.question != question:
                self._cancel(question, f"the check {name} was removed, or its alert was sent twice")

    def _open_alerts(self) -> Iterator[tuple[str, str]]:
        """The ids of open escalations, by check."""
        rows = self.link.ask("list_questions", which="mine")["questions"]
        for row in rows if isinstance(rows, list) else ():
            about = _ISSUE.match(row["prompt"])
            if about is not None and row["kind"] == "escalation":
                yield about[1], str(row["id"])

    def _escalate(self, name: str, known: CheckState) -> str:
        reply = self.link.change(
            "escalate", issue=f"the check {name} is bad: {known.how}", severity="warning",
            context=known.said,
        )  # fmt: skip
        return str(reply["escalation"])

    def _cancel(self, question: str, why: str) -> None:
        """Cancel an escalation, unless it was answered meanwhile."""
        with suppress(NotFound, Conflict):
            self.link.change("cancel_question", question=question, why=why)
