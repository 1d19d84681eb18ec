"""The definitions that come with hive, end to end with a model that follows rules.

Rows K33 to K36, K42, K43, Q24, Q30, Q41 and Q45.
"""

from __future__ import annotations

import base64
import json
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from e2e.clone_host import SETTINGS as CLONE_SETTINGS
from e2e.hivehost import HiveHost
from e2e.shared_hosts import SharedHost

pytestmark = pytest.mark.lab("slow")

FIXTURES = Path(__file__).parents[1] / "fixtures"
MODELS = """
default = "actor"
[providers.s]
kind = "scripted"
path = "/etc/hive/rules.toml"
[providers.r]
kind = "scripted"
path = "/etc/hive/rounds.toml"
[models.actor]
provider = "s"
name = "actor-1"
[models.counter]
provider = "r"
name = "counter-1"
[models.talker]
provider = "r"
name = "talker-1"
context = 9000
max_output = 500
"""
# How many answers a model finds in its history.
COUNTS = "".join(
    f'[[rules]]\nmodel = "counter-1"\nmatch = "how many"\nstep = {step}\ntext = "answer {step}"\n'
    for step in range(1, 30)
)
# What each of them keeps, as its definition says.
KEEPSAKES = {"queen": "queen/lessons", "lead": "lead/lessons", "maid": "maid/health"}
WORKERS = ("ada", "bea", "cleo")
SECONDS = 60.0


@pytest.fixture(scope="module")
def host(shared_host: SharedHost) -> HiveHost:
    files = {
        "models.toml": MODELS, "rules.toml": (FIXTURES / "pipelines.toml").read_text(),
        "rounds.toml": COUNTS + (FIXTURES / "rounds.toml").read_text(),
    }  # fmt: skip
    return shared_host.prepare("clones", CLONE_SETTINGS, files=files)


def create(host: HiveHost, name: str, **more: object) -> None:
    """An agent from the definition of its name, or of another."""
    reply = host.call("Spawn", **{"name": name, "definition": name, **more})
    assert not reply.error, reply
    host.wait("running", name)


def assign(host: HiveHost, agent: str, description: str, **more: object) -> str:
    return str(host.call("AssignTask", agent=agent, description=description, **more)["task"])


def task(host: HiveHost, id_: str) -> dict[str, Any]:
    row: dict[str, Any] = host.call("GetTask", task=id_)["task"]
    return row


def wait_for_end(host: HiveHost, id_: str) -> dict[str, Any]:
    host.until(lambda: task(host, id_)["state"] == "done", f"{id_} does not end", SECONDS)
    result: dict[str, Any] = task(host, id_)["result"]
    return result


def turns(host: HiveHost, agent: str, job: str) -> list[str]:
    """How the turns of an agent for a task have ended."""
    rows: list[dict[str, Any]] = host.call("ListTurns", agent=agent)["turns"]
    return [row["status"] for row in rows if row["conversation"] == f"task-{job}"]


def operations(host: HiveHost, name: str) -> list[dict[str, Any]]:
    return [row for row in host.own_events() if row["operation"] == name]


def check_tokens(host: HiveHost, *agents: str) -> None:
    """Tokens of each of them were measured, and nothing was estimated."""
    sums = host.call("GetUsage")["sums"]
    for kind in ("tokens_in", "tokens_out"):
        rows = [row for row in sums if row["kind"] == kind]
        assert {row["source"] for row in rows} == {"measured"}
        amounts = {row["key"]: row["amount"] for row in rows}
        assert all(amounts.get(agent, 0) > 0 for agent in agents), amounts


def test_a_task_goes_from_the_queen_over_a_lead_to_workers_and_back(host: HiveHost) -> None:
    """K33, K34: a part that fails is done by another worker; each task has one end."""
    create(host, "queen")
    job = assign(host, "queen", "Count the words of the book.")
    result = wait_for_end(host, job)
    assert (result["status"], result["summary"]) == ("success", "It is It is 2 words")
    tasks = host.call("ListTasks", limit=100)["tasks"]
    parts = {row["agent"]: row for row in tasks}
    assert {name: row["result"]["status"] for name, row in parts.items()} == {
        "queen": "success", "lead": "success", "ada": "success", "bea": "failed", "cleo": "success",
    }  # fmt: skip
    assert parts["lead"]["part_of"] == job
    assert {parts[name]["part_of"] for name in WORKERS} == {parts["lead"]["id"]}
    assert host.tree() == {
        "root": None, "queen": "root", "lead": "queen", **dict.fromkeys(WORKERS, "lead"),
    }  # fmt: skip
    ends = Counter(row["target"] for row in operations(host, "finish") + operations(host, "fail"))
    assert ends == dict.fromkeys(("queen", "lead", *WORKERS), 1)
    grants = Counter(row["caller"] for row in operations(host, "use_tool") if row["allowed"])
    assert grants == dict.fromkeys(WORKERS, 1)
    assert operations(host, "escalate") == []
    check_tokens(host, "queen", "lead", *WORKERS)
    letters = host.call("Recv", max=100)["messages"]
    assert any(result["summary"] in row["body"] for row in letters if row["kind"] == "tasks")


def test_the_queen_moves_through_her_phases_with_a_colony(host: HiveHost) -> None:
    """Q1, Q2, Q6, Q7, Q10, Q12, Q14, Q19, Q50: she prepares and runs it, the user opens it."""
    if "queen" not in host.tree():
        create(host, "queen")
    wait_for_end(host, assign(host, "queen", "Prepare a colony."))
    view = host.call("GetColony", agent="reader")
    assert (view["queen"], view["skill"]) == ("queen", "reading")
    host.hive("phase", "open", "reader")
    host.until(lambda: phase_of_prompt(host) == "staging", "no new prompt", SECONDS)
    job = assign(host, "queen", "Have the colony begin.")
    result = wait_for_end(host, job)
    assert (result["status"], result["summary"].split()[:2]) == ("success", ["It", "is"])
    moves = [row["fields"] for row in operations(host, "move_phase")]
    assert [(row["from"], row["to"], row["cause"]) for row in moves] == [
        ("independent", "staging", "user"), ("staging", "running", "queen"),
        ("running", "editing", "system"),
    ]  # fmt: skip
    assert phase_of_prompt(host, f"task-{job}") in ("running", "editing")
    text = host.hive("prompt", "render", "reader", "--conversation", conversation_of(host))
    assert "Know the words of the book." in text
    assert "`reading`: How to read." in text
    host.hive("phase", "close")
    assert host.call("GetPhase")["phase"] == "independent"


def conversation_of(host: HiveHost) -> str:
    """The last conversation of the reader."""
    rows: list[dict[str, str]] = host.call("ListTurns", agent="reader")["turns"]
    return rows[0]["conversation"]


def phase_of_prompt(host: HiveHost, conversation: str = "main") -> str:
    """The phase that the prompt of a conversation of the queen is about."""
    text = host.hive("prompt", "render", "queen", "--conversation", conversation)
    return text.partition("## Your phase: ")[2].partition("\n")[0]


def test_an_architect_waits_for_its_plan_sleeps_and_wakes_to_revise_it(host: HiveHost) -> None:
    """K35."""
    create(host, "architect")
    job = assign(host, "architect", "Plan the bridge.", plan_required=True)
    host.until(lambda: turns(host, "architect", job) == ["done"], "no plan", SECONDS)
    assert task(host, job)["state"] == "awaiting_plan_approval"
    plan = host.call("ListPlans", task=job)["plans"][0]["plan"]
    assert not host.call("ApprovePlan", task=job, plan=plan).error
    first = wait_for_end(host, job)
    host.wait("sleeping", "architect")
    again = wait_for_end(host, assign(host, "architect", "It fell down."))
    rows = host.call("ListArtifacts", author="architect", prefix="plan/")["artifacts"]
    assert [(row["name"], row["version"], row["id"]) for row in rows] == [
        ("plan/bridge", 2, again["artifacts"][0])
    ]
    data = host.call("GetArtifact", id=first["artifacts"][0])["data"]
    assert base64.b64decode(data) == b"two piers"
    assert operations(host, "escalate") == []
    check_tokens(host, "architect")


def test_a_trigger_has_the_maid_look_clear_away_and_report(host: HiveHost) -> None:
    """K36."""
    create(host, "maid")
    once = {"parent": "root", "role": "task", "command": ["true"]}
    assert not host.call("Spawn", name="once", **once).error
    host.wait("stopped", "once")
    host.mail("root")
    at = {"at": str(time.time() + 1)}
    action = {"kind": "message", "text": "Look around."}
    assert not host.call("SetTrigger", agent="maid", name="round", when=at, action=action).error
    letters: list[dict[str, Any]] = []

    def has_report() -> bool:
        letters.extend(host.mail("root"))
        return any(row["from"] == "maid" for row in letters)

    host.until(has_report, "no report", SECONDS)
    assert [row["body"] for row in letters if row["from"] == "maid"] == ["removed once"]
    assert "once" not in host.tree()
    check_tokens(host, "maid")


def records(host: HiveHost, agent: str, job: str) -> list[dict[str, Any]]:
    """What the log of a task's conversation holds, with the segments before."""
    conversation = ("--conversation", f"task-{job}")
    text = host.hive("session", "log", agent, *conversation, "-o", "jsonl")
    return [json.loads(line) for line in text.splitlines()]


@pytest.fixture(scope="module")
def talker(host: HiveHost) -> str:
    """A worker whose model has a small context."""
    create(host, "talker", definition="worker", model="talker")
    words = {"agent": "talker", "kind": "tokens", "amount": 1_000_000}
    assert not host.call("AllocateBudget", **words).error
    return "talker"


def tool_uses(host: HiveHost, agent: str) -> int:
    """How often an agent has used a tool, or tried to."""
    return sum(row["caller"] == agent for row in operations(host, "use_tool"))


def test_what_counts_outlasts_a_conversation_that_is_shortened(host: HiveHost, talker: str) -> None:
    """Q45: word for word, behind the summary of the model. Q10: behind the same system prompt."""
    said = "Read the pages; keep 'ISBN 0-306-40615-2' in mind."
    job = assign(host, talker, said, plan_required=True)
    host.until(lambda: turns(host, talker, job) == ["done"], "no plan", SECONDS)
    plan = host.call("ListPlans", task=job)["plans"][0]["plan"]
    assert not host.call("ApprovePlan", task=job, plan=plan).error
    assert wait_for_end(host, job)["summary"] == "read"
    rows = records(host, talker, job)
    (compact,) = (row["text"] for row in rows if row["t"] == "compact")
    assert "SUMMARY: three pages were read" in compact
    facts = json.loads(compact.partition("word for word:\n")[2].removesuffix("\n</summary>"))
    assert facts["task"]["task"]["id"] == job
    assert [step["title"] for step in facts["plans"][0]["steps"]] == [
        "read page 'one'", "read page two",
    ]  # fmt: skip
    assert facts["asked"][0]["items"][0]["prompt"] == "Which edition, 'first' or 2nd?"
    (budget,) = facts["budgets"]
    assert (budget["kind"], budget["agent"]) == ("tokens", talker)
    assert 900_000 < budget["left"] < 1_000_000
    inputs = "".join(row["text"] for row in rows if row["t"] == "input")
    assert said in inputs + facts["task"]["description"]
    before, after = (row["text"] for row in rows if row["t"] == "system")
    assert before == after


def test_a_task_whose_budget_is_used_up_ends_with_the_report_of_its_last_answer(
    host: HiveHost, talker: str
) -> None:
    """Q24, Q43: the last answer has a text and a call; the text is the report, no call is run."""
    before = tool_uses(host, talker)
    job = assign(host, talker, "Spend it all.", caps={"tool_calls": 2})
    result = wait_for_end(host, job)
    assert (result["status"], result["summary"]) == ("partial", "half of it is read")
    assert tool_uses(host, talker) == before + 2
    assert host.inside(talker, "find", "/agents", "/tree", "-name", "late", check=False) == ""
    (end,) = (row for row in records(host, talker, job) if row["t"] == "end")
    assert end["status"] == "limit"


def test_a_model_that_goes_round_in_circles_is_escalated_to_its_parent(
    host: HiveHost, talker: str
) -> None:
    """Q30."""
    before = tool_uses(host, talker)
    job = assign(host, talker, "Go round.")
    host.until(lambda: operations(host, "escalate"), "it was not escalated", SECONDS)
    (row,) = operations(host, "escalate")
    assert row["caller"] == talker
    assert tool_uses(host, talker) == before + 3
    host.until(
        lambda: host.call("GetAgent", agent=talker)["activity"] == "blocked",
        "it is not blocked",
        SECONDS,
    )
    assert not host.call("CancelTask", task=job).error


def test_queen_lead_and_maid_read_after_a_restart_what_they_have_kept(host: HiveHost) -> None:
    """K43."""
    for name in KEEPSAKES.keys() - host.tree().keys():
        create(host, name)
    for expected in ("stored", base64.b64encode(b"by chapters").decode()):
        jobs = [assign(host, name, f"Keep {path}.") for name, path in KEEPSAKES.items()]
        assert [wait_for_end(host, job)["summary"] for job in jobs] == [expected] * len(jobs)
        if expected == "stored":
            for name in KEEPSAKES:
                host.hive("restart", name)


@pytest.fixture(scope="module")
def counter(host: HiveHost) -> str:
    """An agent of role `agent`, whose model says how many answers its history has."""
    words = {"role": "agent", "runtime": "builtin", "model": "counter"}
    assert not host.call("Spawn", name="counter", **words).error
    host.wait("running", "counter")
    return "counter"


def talk(host: HiveHost, agent: str) -> int:
    """The number in the answer to a letter."""
    return int(host.hive("chat", agent, text="how many?\n").removeprefix("answer "))


def test_an_agent_keeps_its_conversation_over_a_task_and_a_stop(
    host: HiveHost, counter: str
) -> None:
    """K42."""
    before = talk(host, counter)
    wait_for_end(host, assign(host, counter, "Count the spoons.", context="keep"))
    host.hive("stop", counter)
    host.hive("start", counter)
    assert talk(host, counter) == before + 2  # one answer was the call that ended the task


def test_a_conversation_is_shown_and_goes_on_from_an_earlier_turn(
    host: HiveHost, counter: str
) -> None:
    """Q41: after a turn that a text ended, and after one that a call ended."""
    wait_for_end(host, assign(host, counter, "Count the forks.", context="keep"))
    before, last = talk(host, counter), talk(host, counter)
    latest, earlier, of_task = [
        row["turn"] for row in host.call("ListTurns", agent=counter)["turns"][:3]
    ]
    shown = host.hive("session", "show", counter)
    assert shown.index("-> finish_task") < shown.index(f"answer {before}")
    assert f"answer {last}" in host.hive("session", "show", counter, "--turn", str(latest))
    for turn, answer in ((earlier, last), (of_task, before)):
        host.hive("session", "rewind", counter, "--turn", str(turn))
        assert talk(host, counter) == answer
    assert f"answer {last}" in host.hive("session", "show", counter)
