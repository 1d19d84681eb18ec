"""Programs in Python on real containers: the client, secrets as variables, a missing program."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from e2e.hivehost import HiveHost
from e2e.labhost import Lab

pytestmark = pytest.mark.lab
EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(scope="module")
def host(lab: Lab) -> Iterator[HiveHost]:
    made = HiveHost(lab)
    made.setup()
    yield made
    made.hive("teardown", "--purge", "--yes")


def test_the_example_answers_messages_and_does_tasks(host: HiveHost) -> None:
    program = (EXAMPLES / "echo.py").read_text()
    host.hive("agent", "create", "echo", "--role", "worker", "--", "python3", "-c", program)
    assert "is there an echo?" in host.hive("send", "echo", "is there an echo?", "--wait", "20")
    assert "and a task?" in host.hive("task", "assign", "echo", "and a task?", "--wait")


def test_a_secret_is_an_environment_variable_of_the_command(host: HiveHost) -> None:
    command = ["hive-agent", "serve", "--secret-env", "api-key", "--", "sh", "-c", "echo $API_KEY"]
    host.hive("agent", "create", "keyed", "--role", "worker", "--capability", "secret:api-key",
              "--", *command)  # fmt: skip
    host.hive("secret", "set", "keyed", "api-key", text="a-long-random-value\n")
    assert "a-long-random-value" in host.hive("send", "keyed", "x", "--wait", "20")


def test_a_missing_program_is_named_in_the_log(host: HiveHost) -> None:
    host.fails(3, "agent", "create", "lost", "--", "/home/me/agent.py")
    assert "cannot run /home/me/agent.py: no such program in this container" in host.hive(
        "logs", "lost"
    )
