"""The command that the dashboard shows makes exactly the call that needed a confirmation."""

from __future__ import annotations

from shlex import split
from typing import Final

from cli.run import Hive
from each import for_each

from hive_core.broker.operation import camel
from hive_core.varlink import Message
from hive_core.web.commands import command_of

COMMIT: Final = "1a" * 20
CALLS: Final[list[tuple[str, Message, str]]] = [
    ("approve", {"id": "a1b2", "commit": COMMIT}, "approval approve"),
    ("approve_plan", {"task": "t1", "plan": "p1"}, "plan approve"),
    ("destroy", {"agent": "bob"}, "destroy"),
    ("destroy", {"agent": "bob", "recursive": True}, "destroy"),
    ("move", {"agent": "bob", "parent": "carl"}, "move"),
    ("move", {"agent": "bob", "parent": ""}, "call move"),
    ("move", {"agent": "bob", "parent": "carl", "when_idle": 90.0}, "call move"),
    ("answer", {"question": "q1", "answers": ["100000"]}, "question answer"),
    ("answer", {"question": "q1", "answers": ["two words", "it's $(id) `id`"]}, "question answer"),
    ("answer", {"question": "q1", "answers": ["--help"]}, "call answer"),
    ("answer", {"question": "q1", "answers": [""]}, "call answer"),
    ("answer", {"question": "q1", "answers": ["a\n\u202eb\x1b[2J"]}, "call answer"),
    ("spawn", {"name": "x", "network": "web", "title": "a b"}, "call spawn"),
    ("allocate_budget", {"agent": "bob", "kind": "money", "amount": -5}, "call allocate_budget"),
]


@for_each("operation, parameters, words", CALLS)
def test_the_command_makes_the_same_call(
    hive: Hive, operation: str, parameters: Message, words: str
) -> None:
    hive.peer.calls.clear()
    hive.peer.answers |= {
        camel(operation): lambda _: {"job": "", "agents": [], "restarts": [], "gains": []},
        "GetApproval": lambda _: {
            "approval": {"id": "a1b2", "kind": "config", "commit": COMMIT, "state": "pending"},
            "marks": [], "models": [], "lines": [], "follows": [], "followers": 0, "review": {},
        },
        "GetPlan": lambda _: {"plan": "p1", "task": "t1"},
        "Survey": lambda _: {"agents": []},
        "ListAgents": lambda _: {"agents": [{"name": "bob", "parent": "root"}]},
    }  # fmt: skip
    command = command_of(operation, parameters)
    assert command.isascii()
    assert command.isprintable()
    program, *arguments = split(command)
    assert program == "hive"
    assert command.startswith(f"hive {words} ")

    more = ["--yes"] if arguments[0] in ("approval", "destroy") else []
    outcome = hive(*arguments, *more)

    assert hive.peer.params_of(camel(operation)), outcome
    (made,) = hive.peer.params_of(camel(operation))
    assert {key: made.get(key) for key in parameters} == parameters
    others = made.keys() - parameters.keys() - {"idempotency_key", "wait"}
    assert not [key for key in others if made[key]]
