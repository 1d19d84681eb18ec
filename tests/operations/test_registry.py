"""What holds of every operation in a tree of agents, without knowing which there are.

What holds of each declaration and of its parameters is in tests/broker/test_registry.py.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from each import for_each
from fixtures.world import World, world

from hive_core.broker.operation import Operation
from hive_core.errors import HIVE
from hive_core.model.config.settings import HostLimits, Settings
from hive_core.operations import load

OPERATIONS = sorted(load().values(), key=lambda operation: operation.name)
every = for_each("operation", OPERATIONS, lambda operation: operation.name)


@pytest.fixture(scope="module", name="world")
def _world() -> Iterator[World]:
    """One for all: nothing that is refused leaves anything behind but its record."""
    many = Settings(limits=HostLimits(refusals_kept=10_000))
    with world(many, "root/a", "a/a1", "a1/a11", "a/a2", "root/b", "b/b1") as made:
        yield made


@pytest.fixture(scope="module")
def former(world: World) -> str:
    """The UUID of a destroyed agent."""
    world.grow("a/old")
    uuid = world.uuid("old")
    world.call("operator", "destroy", agent="old")
    return uuid


SAMPLE: dict[str, object] = {
    "agent": "b1", "parent": "b1", "to": "b1", "other": "b1", "root": "b1", "caller": "a",
    "operation": "stop", "name": "new", "body": "x", "ids": ["x"], "id": "x", "agents": ["b1"],
    "states": ["running"], "capability": "spawn", "commit": "ab" * 20, "message": "x", "why": "x",
    "source": "import-0123456789abcdef", "data": "x", "key": "x", "value": "x",
    "question": "x", "issue": "x", "severity": "error", "items": ["x"], "reminder": "x",
    "answers": ["x"],
    "queue": "x", "pipe": "x", "topic": "x",
    "grant": "x", "tool": "bash", "argument": ["x"], "kind": "tokens", "amount": 1,
    "task": "x", "plan": "x", "guidance": "x", "wait": "x", "batch": "x", "worker": "b1",
    "reason": "x",
    "description": "x", "agent_role": "x", "task_description": "x", "agent_type": "worker",
    "text": "x", "summary": "x", "status": "success", "tasks": ["x"],
    "steps": [{"title": "x"}], "step": 1,
    "upload": "x", "offset": 0, "owner": "b1",
    "repo": "b1", "ref": "x", "old": "ab" * 20, "new": "ab" * 20, "wants": ["ab" * 20],
    "alias": "x", "wire": "chat", "bytes": 1, "out_most": 1, "reservation": "x",
    "connection": "x", "host": "a.example", "port": 443, "timeout_seconds": 1.0,
    "colony": "b1", "persona": "x", "skill_path": "x",
    "links": [{"operation": "stop", "parameters": {"agent": "b1"}}], "secret": "x",
    "account": "x", "login": "x", "passkey": "x", "nonce": "x", "client_data": "x",
    "attestation": "x", "origin": "http://localhost:4483",
    "trigger": "x", "when": {"every": 60.0}, "action": {"kind": "message", "text": "x"},
}  # fmt: skip

# One word with two meanings.
BY_NAME: dict[str, dict[str, object]] = {
    "run_parallel_workers": {"tasks": [{"task": "x"}]},
    "update_plan_step": {"status": "done"},
    "report_activity": {"blocked": True},
    "keep_turn": {"conversation": "x", "turn": 1, "status": "done"},
    "stream_turn": {"conversation": "x", "turn": 1, "text": "x"},
    "judge_task": {"verdict": "accept"},
    "settle_model": {"status": "done"},
    "note_prices": {"unknown": ["x"]},
    "note_routes": {"faults": {"phone": "x"}},
    "close_egress": {"status": "done"},
    "open_subagent": {"kind": "clone", "tools": ["x"]},
}


def sample(operation: Operation) -> dict[str, object]:
    """Parameters that fit, about an agent that `a2` neither sees nor may touch."""
    judged = (operation.target, operation.second)
    words = {**SAMPLE, **BY_NAME.get(operation.name, {})}
    return {
        name: words[name]
        for name, field in operation.params.model_fields.items()
        if name in words and (field.is_required() or name in judged)
    }


ABOUT_OTHERS = [
    operation
    for operation in OPERATIONS
    if operation.target is not None or "operator" in operation.allow.name
]


@for_each("operation", ABOUT_OTHERS, lambda operation: operation.name)
def test_a_stranger_is_refused_and_the_refusal_is_recorded(
    world: World, operation: Operation
) -> None:
    """Row H27."""
    before = (world.hive, world.ledger.runs.all())
    asked = world.ask_as(world.uuid("a2"), operation.name, sample(operation))
    assert asked.replies[-1]["error"] in (HIVE + "NotFound", HIVE + "NotAllowed")
    event = world.events()[-1]
    assert (event["operation"], event["caller"], event["allowed"]) == (
        operation.name, "a2", False,
    )  # fmt: skip
    assert (world.hive, world.ledger.runs.all()) == before


@every
def test_an_agent_that_is_no_more_is_refused(
    world: World, former: str, operation: Operation
) -> None:
    """Row H30."""
    asked = world.ask_as(former, operation.name, sample(operation))
    assert asked.replies[-1]["error"] == HIVE + "NotFound"
