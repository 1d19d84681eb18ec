"""The real CLIs as runtimes of a session, on a fake model: `scripts/test --clis`.

HIVE_TEST_CLIS names the folder with the installed ones; those that are missing are skipped.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from fixtures.cli_host import CliHost, cli_host
from fixtures.fake_model import ModelAnswer

pytestmark = pytest.mark.clis
SECONDS = 40.0


@dataclass(frozen=True)
class CliCalls:
    """How the model of a CLI calls a command and an operation of hive."""

    command: Callable[[str, str], tuple[str, str, object]]
    operation: Callable[[str, str, dict[str, object]], tuple[str, str, object]]


CALLS = {
    "opencode": CliCalls(
        lambda id_, line: (id_, "bash", {"command": line, "description": "a command"}),
        lambda id_, name, values: (id_, f"hive_{name}", values),
    ),
    "codex": CliCalls(
        lambda id_, line: (id_, "exec_command", {"cmd": line}),
        lambda id_, name, values: (id_, f"mcp__hive.{name}", values),
    ),
    "claude": CliCalls(
        lambda id_, line: (id_, "Bash", {"command": line, "description": "a command"}),
        lambda id_, name, values: (id_, f"mcp__hive__{name}", values),
    ),
}


@pytest.fixture(name="runtime", params=list(CALLS))
def _runtime(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(name="host")
def _host(runtime: str, tmp_path: Path) -> Iterator[CliHost]:
    clis = Path(os.environ.get("HIVE_TEST_CLIS", "/nowhere")) / runtime
    if not (clis / "bin" / runtime).exists():
        pytest.skip(f"{runtime} is not installed in {clis.parent}")
    with cli_host(tmp_path, runtime, clis) as host:
        yield host


def body(host: CliHost, at: int) -> str:
    """What the model was sent, as text."""
    return json.dumps(host.model.requests()[at])


def test_a_task_is_done_with_its_own_tools_and_reported_over_mcp(
    host: CliHost, runtime: str
) -> None:
    calls, task = CALLS[runtime], host.assign("Count the lines.")
    host.model.script = [
        ModelAnswer("I count.", [calls.command("a", "echo one > notes.txt; wc -l notes.txt")]),
        ModelAnswer("", [calls.operation("b", "finish_task", {
            "task": task, "status": "success", "summary": "one line",
        })]),
        ModelAnswer("all is done"),
    ]  # fmt: skip
    host.begin()
    host.until(lambda: host.task(task)["state"] == "done", SECONDS)
    host.until(lambda: "closed" in host.kinds(f"task-{task}"), SECONDS)
    assert (host.workspace / "notes.txt").read_text() == "one\n"
    assert "1 notes.txt" in body(host, 1)
    result: Any = host.task(task)["result"]
    assert (result["status"], result["summary"]) == ("success", "one line")
    assert {headers.get("x-hive-task") for headers in host.model.headers} == {task}
    (end,) = host.of_kind("end", f"task-{task}")
    assert (end["status"], end["text"]) == ("done", "all is done")


def test_until_a_plan_is_approved_nothing_is_written_whatever_the_settings_say(
    host: CliHost, runtime: str
) -> None:
    """The agent has left settings that would allow all, in its home and in its workspace."""
    calls, task = CALLS[runtime], host.assign("Plan first.")
    _write_settings(host.state / "home")
    _write_settings(host.workspace)
    plan: dict[str, object] = {"task": task, "steps": ["write it"]}
    host.model.script = [
        ModelAnswer("", [calls.operation("a", "create_plan", plan)]),
        ModelAnswer("", [calls.command("b", "echo no > secret.txt")]),
        ModelAnswer("I wait."),
    ]
    host.begin()
    host.until(lambda: "closed" in host.kinds(f"task-{task}"), SECONDS)
    assert not (host.workspace / "secret.txt").exists()
    assert host.task(task)["state"] == "awaiting_plan_approval"
    assert "cannot use bash" in body(host, 2)


def _write_settings(folder: Path) -> None:
    settings = {
        "disableAllHooks": True,
        "permissions": {"allow": ["Bash", "Write", "Edit"], "defaultMode": "bypassPermissions"},
    }
    for name in ("settings.json", "settings.local.json"):
        file = folder / ".claude" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(settings))


def test_a_killed_turn_goes_on_in_its_own_conversation(host: CliHost, runtime: str) -> None:
    calls = CALLS[runtime]
    host.model.script = [
        ModelAnswer("", [calls.command("a", "echo once >> log.txt")]),
        ModelAnswer("", [calls.command("b", "echo hangs; sleep 300")]),
        ModelAnswer("back again"),
    ]
    host.begin()
    host.send("begin")
    host.until(lambda: len(host.model.bodies) == 2, SECONDS)
    host.until(lambda: len(host.events("use_tool")) == 2, SECONDS)
    host.kill()
    host.begin()
    assert host.until(host.replies, SECONDS) == ["back again"]
    assert (host.workspace / "log.txt").read_text() == "once\n"
    assert "You were interrupted" in body(host, -1)
    assert "echo once >> log.txt" in body(host, -1)
    assert len({row["session"] for row in host.of_kind("cli")} - {""}) == 1
    host.model.script = [*host.model.script, ModelAnswer("still here")]
    host.send("and now?")
    host.until_count(host.replies, 2)
    assert "back again" in body(host, -1)
