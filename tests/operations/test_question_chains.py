"""Whatever happens to a question, its asker gets exactly one answer: the first.

Random chains of any depth: relayed, climbed, moved, with agents that are destroyed on the way and
daemons that end in between.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

import pytest
from fixtures.questions import letters
from fixtures.world import World, world
from hypothesis import given, settings
from hypothesis import strategies as st
from long import times

from hive_core.policy.relationship import ABOVE, relationship

OPERATOR = "operator"
STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ("relay", "answer", "destroy", "restart", "pass", "move", "cancel", "back")
        ),
        st.integers(0, 7),
    ),
    max_size=12,
)


@dataclass
class Story:
    """One question at the lower end of a chain, and what happened to it."""

    world: World
    depth: int
    question: str = ""
    first: tuple[str, object] | None = None
    refused: list[str] = field(default_factory=list)

    def begin(self, *, escalates: bool, deadline: float | None) -> None:
        params: dict[str, object] = {"deadline": deadline} if deadline else {}
        if escalates:
            reply = self.world.call("asker", "escalate", issue="x", severity="critical", **params)
            self.question = str(reply["escalation"])
        else:
            reply = self.world.call("asker", "ask", items=[{"prompt": "x"}], **params)
            self.question = str(reply["question"])

    def take(self, word: str, number: int) -> None:
        getattr(self, f"_{word}")(number)
        self.world.advance(0)
        self.check()

    def check(self) -> None:
        """It waits on a living ancestor, or it has ended once."""
        hive, question = self.world.hive, self.world.ledger.questions.require(self.question)
        if question.open:
            name = OPERATOR if question.holder == OPERATOR else hive.name(question.holder)
            assert name is not None
            assert name == OPERATOR or relationship(hive, name, "asker") in ABOVE
        notices = letters(self.world, "asker", "answer")
        assert len(notices) == (0 if question.open else 1)
        if self.first is not None and notices:
            assert (notices[0]["by"], notices[0]["answers"]) == self.first

    def settle(self) -> None:
        """At last one holder answers, if none has."""
        self._answer_as(OPERATOR, "at last")
        self.check()
        self.world.restart(60.0)
        self.check()

    def _who(self, number: int) -> str:
        """A living ancestor of the asker, or the operator."""
        names = (OPERATOR, *reversed(self.world.hive.topology.lineage("asker")))
        return names[number % len(names)]

    def _relay(self, number: int) -> None:
        who = self._who(number)
        if who != OPERATOR:
            self.world.fault(who, "relay_question", question=self.question)

    def _back(self, number: int) -> None:
        self.world.fault(
            OPERATOR, "relay_question", question=self.question, to=self._who(number)
        )  # fmt: skip

    def _answer(self, number: int) -> None:
        self._answer_as(self._who(number), f"answer {number}")

    def _answer_as(self, who: str, text: str) -> None:
        before = self.world.ledger.questions.require(self.question)
        fault = self.world.fault(who, "answer", question=self.question, answers=[text])
        if not fault:
            assert before.open
            self.first = (who, [text])
        else:
            assert fault == ("NotAllowed" if before.open else "Conflict") or who != OPERATOR
            self.refused.append(who)

    def _cancel(self, number: int) -> None:
        who = self._who(number)
        if not self.world.fault(who, "cancel_question", question=self.question):
            self.first = (who, [])

    def _destroy(self, number: int) -> None:
        who = self._who(number)
        if who not in (OPERATOR, "root"):
            self.world.call(OPERATOR, "destroy", agent=who)

    def _move(self, number: int) -> None:
        who = self._who(number)
        parent = "side" if who == OPERATOR else who
        self.world.fault(OPERATOR, "move", agent="asker", parent=parent)  # it may be gone

    def _restart(self, number: int) -> None:
        """In good order, or killed."""
        (self.world.kill if number % 2 else self.world.restart)(float(number))

    def _pass(self, number: int) -> None:
        """Time: enough for a level, or for several."""
        self.world.advance(35.0 * number)


def chain(depth: int) -> list[str]:
    names = ["root", *(f"a{number}" for number in range(depth)), "asker"]
    return [
        "root/side",
        *(f"{above}/{name}" for above, name in pairwise(names)),
    ]


@pytest.mark.sized
@settings(max_examples=times(20, 300), deadline=None)
@given(st.integers(0, 6), STEPS, st.booleans(), st.sampled_from((None, 50.0)))
def test_the_asker_gets_one_answer_whatever_happens_on_the_way(
    depth: int,
    steps: list[tuple[str, int]],
    escalates: bool,  # noqa: FBT001 - hypothesis gives by place
    deadline: float | None,
) -> None:
    """Q29, K28."""
    with world(None, *chain(depth)) as made:
        story = Story(made, depth)
        story.begin(escalates=escalates, deadline=deadline)
        for word, number in steps:
            story.take(word, number)
        story.settle()
