"""The sentence of a confirmation: what is decided, on whom, and what follows."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from hive_core.web.decision_sentence import decision_sentence

Values = Mapping[str, object]
CHANGE: Values = {"agent": "ann", "requester": "bob", "commit": "the newest"}


@pytest.mark.parametrize(
    ("operation", "parameters", "facts", "begin"),
    [
        ("approve", {"id": "x", "commit": "1a2b3c4d"}, CHANGE,
         "You approve commit [1a2b3c4d] for [ann], as [bob] asked: hived deploys it"),
        ("approve", {"id": "x", "commit": "1a2b3c4d"}, {**CHANGE, "agent": ""},
         "You approve commit [1a2b3c4d] as the inputs of all agents, as [bob] asked: hived builds"),
        ("approve_plan", {"task": "t", "plan": "p"}, {"agent": "ann", "title": "Dig"},
         "You approve the plan of [ann] for the task [Dig]: the agent begins"),
        ("answer", {"question": "q", "answers": ["5000", "no"]}, {"asker": "ann"},
         "You answer [5000, no] to [ann], whose budget is used up: what that gives"),
        ("destroy", {"agent": "ann"}, {}, "You destroy [ann]: its container is stopped"),
        ("destroy", {"agent": "ann", "recursive": True}, {},
         "You destroy [ann] with all agents below it: their containers are stopped"),
        ("move", {"agent": "ann", "parent": "bob"}, {}, "You move [ann] under [bob]: the agents"),
        ("move", {"agent": "ann", "parent": ""}, {}, "You make [ann] a root: no agent is above"),
        ("spawn", {"name": "ann"}, {}, "You create the agent [ann] with more than its role has"),
    ],
)  # fmt: skip
def test_it_names_what_is_decided_and_what_follows(
    operation: str, parameters: Values, facts: Values, begin: str
) -> None:
    assert sentence_text(operation, parameters, facts).startswith(begin)


@pytest.mark.parametrize(
    ("operation", "parameters", "facts"),
    [
        ("set_agent", {"agent": "ann"}, {}),
        ("approve", {"id": "x", "commit": "1a2b3c4d"}, {}),  # hived did not say whose it is
        ("approve_plan", {"task": "t", "plan": "p"}, {"agent": "ann"}),
        ("destroy", {}, {}),
    ],
)
def test_what_is_not_known_is_not_guessed(
    operation: str, parameters: Values, facts: Values
) -> None:
    assert sentence_text(operation, parameters, facts) == (
        f"You call [{operation}]: hived does it at once, with the values below."
    )


def test_text_of_agents_is_a_value_and_cannot_be_part_of_the_sentence() -> None:
    title = "{commit} [x]. You only read this"
    parts = decision_sentence("approve_plan", {}, {"agent": "ann", "title": title})
    assert title in [part.value for part in parts]
    assert all(title not in part.text for part in parts)


def sentence_text(operation: str, parameters: Values, facts: Values) -> str:
    """The sentence with its values in brackets."""
    parts = decision_sentence(operation, parameters, facts)
    return "".join(part.text + ("" if part.value is None else f"[{part.value}]") for part in parts)
