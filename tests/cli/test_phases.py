"""`hive phase`: what it asks the daemon for, and what it prints."""

from __future__ import annotations

import json

import pytest
from cli.run import Hive

from hive_core.varlink import Message

VIEW: Message = {
    "agent": "queen", "phase": "staging", "since": 1_700_000_000.0, "tools": ["bash", "read"],
    "moves": [{"to": "running", "by": "run_agent_with_input", "causes": ["queen", "user"]}],
    "colony": {"name": "wu", "title": "", "goal": "Bees\x1b[31m", "criteria": "", "constraints": "",
               "tools": ["bash"], "status": "stopped"},
    "work": [], "persona": "",
}  # fmt: skip


def test_the_phase_is_shown_with_the_colony_and_where_it_leads(hive: Hive) -> None:
    hive.peer.answers["GetPhase"] = lambda _: VIEW
    done = hive("phase", "show")
    assert done.status == 0
    assert "phase        staging" in done.out
    assert "colony       wu" in done.out
    assert "leads to     running: run_agent_with_input (queen, user)" in done.out
    assert "\x1b" not in done.out
    assert json.loads(hive("phase", "show", "-o", "json").out)["phase"] == "staging"
    assert hive("phase", "show", "-o", "name").out == "staging\n"


@pytest.mark.parametrize(("words", "operation", "parameters"), [
    (("open", "wu", "--goal", "Bees"), "OpenColony",
     {"colony": "wu", "goal": "Bees", "criteria": "", "constraints": ""}),
    (("close", "--queen", "ada"), "CloseColony", {"agent": "ada"}),
    (("run", "Count."), "RunAgentWithInput", {"task": "Count."}),
    (("stop", "--reason", "late"), "StopWorker", {"reason": "late"}),
    (("persona", "Ada"), "SetPersona", {"persona": "Ada", "reason": ""}),
])  # fmt: skip
def test_each_command_is_one_operation(
    hive: Hive, words: tuple[str, ...], operation: str, parameters: Message
) -> None:
    hive.peer.answers[operation] = lambda _: {
        "agent": "queen", "phase": "running", "colony": "wu", "worker": "wu", "task": "3f",
        "tasks": [], "warnings": ["it is short"],
    }  # fmt: skip
    done = hive("phase", *words)
    assert done.status == 0
    (asked,) = hive.peer.calls
    assert asked[0].endswith(operation)
    sent = {key: value for key, value in asked[1].items() if key != "idempotency_key"}
    assert {key: value for key, value in sent.items() if value is not None} == parameters
    assert ("warning: it is short" in done.err) == (operation == "RunAgentWithInput")
