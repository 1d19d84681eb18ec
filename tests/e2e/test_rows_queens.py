"""A queen and her colony in real containers: her phases, persona, tools, and what her colony gets.

Each test goes on where the one before it ended.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from e2e.clone_host import prepare_clone_host, records, run_turn
from e2e.hivehost import HiveHost
from e2e.shared_hosts import SharedHost
from environments import need_environment

from hive_core.model.agents.phase import PHASES, QueenPhase

pytestmark = pytest.mark.lab

PERSONA = "You are Ada, and you like bees."
# Writes the name of a phase as an earlier program would have left it.
OLD_NAME = """
import sqlite3, sys
with sqlite3.connect("/var/lib/hive/hive.db", timeout=30) as ledger:
    ledger.execute("UPDATE phases SET phase = ?", sys.argv[1:])
"""


@pytest.fixture(scope="module")
def host(shared_host: SharedHost) -> HiveHost:
    need_environment("runtime")
    made = prepare_clone_host(shared_host)
    queen = {"role": "daemon", "profile": "queen", "parent": "root", "runtime": "builtin"}
    made.grow(queen={**queen, "add_capabilities": ["artifact.write"]})
    return made


def render(host: HiveHost, agent: str) -> str:
    """The prompt of a new conversation."""
    return host.hive("prompt", "render", agent, "--new")


def toolset(host: HiveHost, agent: str) -> list[str]:
    return [str(row["name"]) for row in host.ask(agent, "ListToolset")["tools"]]


def tools_in(host: HiveHost, phase: QueenPhase) -> set[str]:
    """Her tools, in the phase that she is in, which her next prompt names."""
    assert host.call("GetPhase")["phase"] == phase
    tools = toolset(host, "queen")
    assert len(tools) == len(set(tools))
    assert f"## Your phase: {phase}\n" in render(host, "queen")
    return set(tools)


def test_a_queen_has_the_persona_that_the_operator_gave_her(host: HiveHost) -> None:
    """Q13, Q53, Q54: before the prompt of the phase independent, whose end is the workspace."""
    host.hive("phase", "persona", PERSONA, "--reason", "people know her")
    (event,) = [row for row in host.own_events() if row["operation"] == "set_persona"]
    assert event["fields"]["reason"] == "people know her"
    text = render(host, "queen")
    assert text.startswith(f"<persona>\n{PERSONA}\n</persona>\n")
    assert "## Your phase: independent\n" in text
    headings = [line for line in text.splitlines() if line.startswith("## ")]
    assert headings[-1] == "## Your workspace"
    assert "retry, skip or abort" in text
    assert run_turn(host, "queen", "the bees are blue") == "well"
    systems = [row["text"] for row in records(host, "queen") if row["t"] == "system"]
    assert [system for system in systems if system] == [text]


def test_a_colony_has_what_its_queen_said_and_wrote_and_no_tool_without_its_credential(
    host: HiveHost,
) -> None:
    """Rows Q16, Q17, Q18, Q19, Q37: its conversation, its files, and a secret that is gone."""
    run_turn(host, "queen", "the bees are blue")
    run_turn(host, "queen", "prepare the heir")
    assert host.call("GetColony", agent="heir")["skill"] == "bees"
    assert not host.call("GrantCapability", agent="heir", capability="secret:token").error
    host.hive("secret", "set", "heir", "token", "--tool", "bash", text="s3cret")
    host.hive("secret", "rm", "heir", "token")
    host.hive("phase", "open", "heir")
    words = "Write down what the bees of your queen look like, and where one has to look."
    run = host.call("RunAgentWithInput", agent="queen", task=words)
    assert (run["credentials"], run["dropped"]) == (["token"], ["bash"])
    task = {"task": run["task"]}
    host.until(
        lambda: host.call("GetTask", **task)["task"]["state"] == "done", "no end", seconds=90
    )
    log = records(host, "heir", "--conversation", f"task-{run['task']}")
    (heritage,) = [json.dumps(row) for row in log if row["t"] == "inherit"]
    assert "the bees are blue" in heritage
    assert PERSONA not in heritage  # Q15: nor any other part of her prompt
    assert "prepare the heir" not in heritage  # Q16: of a turn that has not ended, nothing
    (answer,) = [row["content"] for row in log if row["t"] == "result"][:1]
    assert "credential" in answer, answer
    skill = "cd /agents/heir/state/skills/bees; cat SKILL.md notes/find.txt; touch notes/find.txt"
    as_tool = ("setpriv", "--reuid", "1000", "--clear-groups", "sh", "-c", skill)
    assert host.inside("heir", *as_tool, check=False).endswith("Look first.\nbehind the house")
    assert "Permission denied" in host.enter("heir", *as_tool, check=False).stderr


def test_a_colony_has_tools_of_a_worker_and_nothing_that_is_the_queens_alone(
    host: HiveHost,
) -> None:
    """Q15: both sides say where it comes from; the persona stays with the queen."""
    for view in (host.call("GetColony", agent="heir"), host.ask("heir", "GetColony", agent="heir")):
        assert (view["queen"], view["conversation"], view["skill"]) == ("queen", "main", "bees")
    (event,) = [row for row in host.own_events() if row["operation"] == "create_colony"]
    assert event["fields"]["turn"] == host.call("GetColony", agent="heir")["turn"]
    tools = toolset(host, "heir")
    assert {"bash", "read", "finish_task"} <= set(tools)
    assert not {"create_colony", "ask_user", "run_agent_with_input", "spawn"} & set(tools)
    assert host.ask("heir", "Spawn", name="more").error == "NotAllowed"
    owned, queens = (set(host.call("GetAgent", agent=name)["capabilities"])
                     for name in ("heir", "queen"))  # fmt: skip
    assert owned - {"secret:token"} <= queens
    text = render(host, "heir")
    assert "`bees`: What bees do." in text
    assert "Ada" not in text
    assert "## Your phase" not in text


def test_each_phase_has_its_tools_and_the_daemon_refuses_the_others(host: HiveHost) -> None:
    """Q2, Q3, Q4, Q7, Q12, Q50: whoever moves her, and whatever she calls."""
    assert host.call("GetPhase")["phase"] == "editing"  # the run of the test above has ended
    seen = {QueenPhase.EDITING: tools_in(host, QueenPhase.EDITING)}
    host.hive("phase", "close")
    seen[QueenPhase.INDEPENDENT] = tools_in(host, QueenPhase.INDEPENDENT)
    refused = host.ask("queen", "StopWorker")
    assert (refused.error, refused.parameters["rule"]) == ("NotAllowed", "phase")
    assert "stop_work" in refused.reason
    words = ("--goal", "Know bees.", "--criteria", "One is found.", "--constraints", "No smoke.")
    host.hive("phase", "open", "heir", *words)
    seen[QueenPhase.STAGING] = tools_in(host, QueenPhase.STAGING)
    for call, more, rule, nearest in (
        ("AssignTask", {"agent": "heir", "description": "x"}, "phase", "run_agent_with_input"),
        ("UseTool", {"tool": "edit", "argument": ["x"]}, "tools", "bash"),
    ):
        refused = host.ask("queen", call, **more)
        assert (refused.error, refused.parameters["rule"]) == ("NotAllowed", rule)
        assert "your phase staging does not have" in refused.reason
        assert nearest in refused.reason
    profile = render(host, "queen").partition("## The worker of the colony")[2]
    for text in ("Name: heir", "Know bees.", "One is found.", "No smoke.", "bash", "Status: "):
        assert text in profile
    host.hive(
        "phase", "run", "Stay with the bees of your queen for as long as nobody calls you away."
    )
    seen[QueenPhase.RUNNING] = tools_in(host, QueenPhase.RUNNING)
    known = set().union(*seen.values())
    assert seen == {phase: known & row.tools for phase, row in PHASES.items()}
    host.hive("phase", "stop")
    assert host.call("GetPhase")["phase"] == "staging"
    refusals = [(row["operation"], row["rule"]) for row in host.own_events()
                if row["caller"] == "queen" and row["kind"] == "refusal"]  # fmt: skip
    assert refusals == [
        ("stop_worker", "phase"), ("assign_task", "phase"), ("use_tool", "tools"),
    ]  # fmt: skip


def test_a_phase_of_an_earlier_program_is_read(host: HiveHost) -> None:
    """Q5: as it stands in the ledger when the daemon starts."""
    host.run("systemctl", "stop", "hived.service")
    host.run("/usr/bin/python3", "-c", OLD_NAME, "reviewing")
    host.run("systemctl", "start", "hived.service")
    host.close_connections()
    host.answers()
    assert host.call("GetPhase")["phase"] == "editing"
    assert not host.ask("queen", "Send", to="root", body="x").error


def test_a_model_sees_its_accounts_and_the_change_of_one_during_its_turn(host: HiveHost) -> None:
    """Q35: without a value, in the dated reminder; the system prompt stays as it is."""
    host.call("Start", agent="heir")
    host.wait("running", "heir")
    assert run_turn(host, "heir", "hello") == "well"
    assert not host.call("Send", to="heir", body="wait for the file").error
    host.until(lambda: says(host, "response", "test -e go"), "it does not wait", 60)
    label = ("--provider", "github", "--alias", "work", "--identity", "bee@example.org")
    host.hive("secret", "set", "heir", "token", *label, text="s3cret-value")
    host.until(lambda: kinds(host).count("credentials") == 1, "it is not told", 60)
    host.inside("heir", "touch", "/agents/heir/state/work/go")
    host.until(lambda: [row["t"] for row in records(host, "heir")].count("closed") == 2,
               "its turn does not end", 60)  # fmt: skip
    log = records(host, "heir")
    assert "credentials: token for bash (not set)" in json.dumps(log)
    news = json.dumps([row for row in log if row.get("kind") == "credentials"])
    assert "github" in news
    assert "bee@example.org" in news
    assert len([row for row in log if row["t"] == "system"]) == 1
    assert "s3cret-value" not in json.dumps(log)


def says(host: HiveHost, kind: str, text: str) -> bool:
    """Whether the conversation of the heir has a record of this kind with the text."""
    return any(row["t"] == kind and text in json.dumps(row) for row in records(host, "heir"))


def kinds(host: HiveHost) -> list[str]:
    return [str(row.get("kind")) for row in records(host, "heir")]


def test_an_expired_credential_is_asked_about_once_and_a_new_value_answers(host: HiveHost) -> None:
    """Q36: the agent reports, the operator is asked, and nothing retries by itself."""
    report = {"key": "token", "message": "401: expired", "reauth_url": "https://example.org/new"}
    first, again = (host.ask("heir", "ReportExpiredCredential", **report) for _ in range(2))
    assert {key: first[key] for key in ("error", "credential_id", "provider", "alias")} == {
        "error": "credential_expired", "credential_id": "token", "provider": "github",
        "alias": "work",
    }  # fmt: skip
    assert first["reauth_url"] == report["reauth_url"]
    assert again["question"] == first["question"]
    (asked,) = host.call("ListQuestions")["questions"]
    assert asked["id"] == first["question"]
    assert "hive secret set heir token" in json.dumps(asked)
    text = render(host, "heir")
    assert "do not retry, report which credential it is" in text
    assert "`report_expired_credential`" in text
    host.hive("secret", "set", "heir", "token", text="another")
    assert host.call("ListQuestions")["questions"] == []
    host.until(lambda: "the credential token has a new value" in json.dumps(records(host, "heir")),
               "it is not told", 60)  # fmt: skip


def test_the_model_of_the_assigner_judges_a_result_and_no_failure_accepts(host: HiveHost) -> None:
    """Q44: given back with the feedback, accepted; and what is no verdict waits for a person."""
    host.hive("phase", "close")
    verse = task_with_verdict(host, "Write a verse.", "done")
    assert [(row["attempt"], row["verdict"], row["judge"]) for row in verse["judgements"]] == [
        (1, "retry", "model"), (2, "accept", "model"),
    ]  # fmt: skip
    assert verse["task"]["result"]["summary"] == "a rhyme"
    odd = task_with_verdict(host, "Write an odd verse.", "awaiting_judgement")
    assert [row["verdict"] for row in odd["judgements"]] == ["escalate"]
    assert "the judge gave no verdict" in odd["judgements"][0]["feedback"]
    data = task_with_verdict(
        host, "Write a verse.", "awaiting_judgement", data=["lines"], retries=0
    )
    assert [(row["verdict"], row["judge"]) for row in data["judgements"]] == [("escalate", "check")]


def task_with_verdict(host: HiveHost, text: str, state: str, **more: object) -> dict[str, Any]:
    """A task of the queen with criteria, when it is in this state and has a verdict."""
    words = {"agent": "heir", "description": text, "criteria": {"text": "It rhymes.", **more}}
    id_ = host.ask("queen", "AssignTask", **words)["task"]

    def view_task() -> dict[str, Any]:
        return dict(host.call("GetTask", task=id_).parameters)

    def holds() -> bool:
        view = view_task()
        return bool(view["judgements"]) and view["task"]["state"] == state

    host.until(holds, f"the task is not {state}", seconds=90)
    return view_task()
