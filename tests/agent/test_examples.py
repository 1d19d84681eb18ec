"""The programs of examples/, each started as an agent of the real broker."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from agent.broker_server import ROOT, BrokerServer, broker_server
from fixtures.machines import start_machines
from fixtures.world import Reply, World, rows, world

from hive_core.operations.triggers.webhooks import Delivery, deliver_webhook

EXAMPLES = ROOT / "examples"
# A command-line model: it answers with its prompt in capitals, and tells its usage and its key.
MODEL = """
import json, os, sys
prompt = sys.stdin.read()
if "crash" in prompt:
    sys.exit(3)
usage = {"input_tokens": len(prompt.split()), "output_tokens": 2}
print(json.dumps({"result": prompt.upper() + os.environ["MODEL_KEY"], "usage": usage}))
"""


@pytest.fixture(name="hive")
def _hive() -> Iterator[World]:
    with world(None, "root/lead:lead", "lead/agent:agent") as made:
        start_machines(made, "lead", "agent")
        yield made


@pytest.fixture(name="server")
def _server(hive: World, tmp_path: Path) -> Iterator[BrokerServer]:
    with broker_server(hive, tmp_path) as made:
        yield made


def start(server: BrokerServer, name: str, agent: str, *words: str, **environment: str) -> None:
    server.start(agent, ["python3", str(EXAMPLES / name), *words], **environment)


def assign(hive: World, agent: str, text: str, **more: object) -> str:
    reply = hive.call("operator", "assign_task", agent=agent, description=text, **more)
    return str(reply["task"])


def result(hive: World, server: BrokerServer, task: str) -> Reply:
    """The report of a task, once it is there."""

    def look() -> Reply | None:
        row = hive.call("operator", "get_task", task=task)["task"]
        assert isinstance(row, dict)
        return row["result"] or None

    report = server.serve_until(look)
    assert report is not None
    return report


def test_every_example_is_listed_and_tested() -> None:
    files = {path.name for path in EXAMPLES.glob("*.py")}
    page, test = (EXAMPLES / "README.md").read_text(), Path(__file__).read_text()
    assert len(files) == 5
    assert all(f"| `{name}` |" in page and f'"{name}"' in test for name in files)


def test_an_echo_answers_messages_and_tasks(hive: World, server: BrokerServer) -> None:
    hive.call("lead", "send", to="agent", body="is there an echo?")
    task = assign(hive, "agent", "and a task?")
    start(server, "echo.py", "agent")
    assert result(hive, server, task)["summary"] == "and a task?"
    server.serve_until(lambda: hive.mail("lead"))
    assert [row["body"] for row in hive.mail("lead")] == ["is there an echo?"]
    assert hive.mail("agent") == []


def test_a_lead_splits_work_and_puts_it_together(hive: World, server: BrokerServer) -> None:
    task = assign(hive, "lead", "one two\nthree\nfour five six")
    start(server, "lead.py", "lead")
    for worker in ("lead-worker-1", "lead-worker-2"):
        server.serve_until(lambda name=worker: name in hive.hive.specs)  # type: ignore[misc]
        start_machines(hive, worker)
        server.start(worker, hive.hive.spec(worker).command)
    report = result(hive, server, task)
    assert (report["status"], report["summary"]) == ("success", "2\n1\n3")


def test_a_lead_whose_task_is_cancelled_reports_that_it_stopped(
    hive: World, server: BrokerServer
) -> None:
    task = assign(hive, "lead", "one two")
    start(server, "lead.py", "lead", WORKERS="1")
    server.serve_until(lambda: "lead-worker-1" in hive.hive.specs)
    server.serve_until(lambda: hive.call("operator", "list_tasks", agent="lead-worker-1")["tasks"])
    hive.call("operator", "cancel_task", task=task)
    assert result(hive, server, task)["status"] == "stopped"


def test_a_reporter_is_woken_by_the_clock(hive: World, server: BrokerServer) -> None:
    for _ in range(2):  # a restart leaves one trigger
        start(server, "cron_reporter.py", "agent", CRON="* * * * *")
    server.serve_until(lambda: server.waiting == 2)
    (trigger,) = rows(hive.call("agent", "list_triggers")["triggers"])
    assert trigger["name"] == "report"
    hive.advance(61)
    (report, *_) = server.serve_until(lambda: hive.mail("lead"))
    assert report["kind"] == "report"
    assert str(report["body"]).startswith("disk: ")


def test_a_webhook_becomes_a_task_whose_report_names_the_commits(
    hive: World, server: BrokerServer
) -> None:
    trigger = hive.call(
        "operator", "set_trigger", agent="agent", name="push",
        when={"webhook": {"path": "ci/push"}}, action={"kind": "task", "text": "somebody pushed"},
    )["id"]  # fmt: skip
    start(server, "webhook_handler.py", "agent")
    push = {"ref": "refs/heads/main", "commits": [{"id": "ab" * 20, "message": "One\n\nmore"}]}
    many = {**push, "commits": [{"id": "ab" * 20, "message": "a long line " * 4}] * 600}
    summaries = []
    for number, body in enumerate((json.dumps(push), json.dumps(many), "[]")):
        delivery = Delivery(str(trigger), f"m{number}", "", "application/json", "text", body)
        hive.broker.perform("webhook", partial(deliver_webhook, delivery=delivery))
        task = rows(hive.call("operator", "list_tasks", agent="agent")["tasks"])[0]
        summaries.append(result(hive, server, str(task["id"]))["summary"])
    assert summaries[0] == "refs/heads/main: 1 commits\nabababababab One"
    assert str(summaries[1]).endswith("\n[cut]")
    assert str(summaries[2]).startswith("cannot read the delivery: ")


def test_a_command_line_model_answers_and_its_usage_is_reported(
    hive: World, server: BrokerServer, tmp_path: Path
) -> None:
    (tmp_path / "model-key").write_text("k3y\n")
    hive.call("lead", "send", to="agent", body="hello")
    task, broken = assign(hive, "agent", "sum up"), assign(hive, "agent", "crash")
    start(
        server, "model_cli.py", "agent", sys.executable, "-c", MODEL,
        CREDENTIALS_DIRECTORY=str(tmp_path),
    )  # fmt: skip
    assert result(hive, server, task)["summary"] == "SUM UPk3y"
    assert result(hive, server, broken)["status"] == "failed"
    (reply,) = server.serve_until(lambda: hive.mail("lead"))
    assert reply["body"] == "MESSAGE OF LEAD (YOUR PARENT):\n\nHELLOk3y"
    sums = rows(hive.call("operator", "get_usage", agent="agent", by="task")["sums"])
    amounts = {row["kind"]: row["amount"] for row in sums if row["key"] == task}
    assert (amounts["tokens_in"], amounts["tokens_out"]) == (2, 2)
