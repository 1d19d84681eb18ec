"""Tasks of agents with a runtime in real containers: K10, T13; and a quarantine (attack 44).

The program is `hive-agent serve`: after a restart it runs its begun tasks again, as a session goes
on from its log.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from e2e.hivehost import HiveHost
from e2e.kills import tell_with_kills
from e2e.shared_hosts import SharedHost

pytestmark = pytest.mark.lab

DOES = ["hive-agent", "serve", "--", "sh"]
# The first run waits to be killed; the second one ends.
ONCE = "test -e /agents/{0}/state/once || {{ touch /agents/{0}/state/once; sleep 100; }}; echo ok"


@pytest.fixture(scope="module")
def host(shared_host: SharedHost) -> HiveHost:
    made = shared_host.prepare("work")
    made.grow(lead={"role": "lead"})
    session: dict[str, object] = {"parent": "lead", "command": DOES, "runtime": "builtin"}
    made.grow(again={**session, "role": "daemon"}, stays={**session, "role": "worker"})
    return made


def give(host: HiveHost, agent: str) -> str:
    """A task that its agent has begun, and whose first run goes on."""
    text = ONCE.format(agent)
    task = str(host.ask("lead", "AssignTask", agent=agent, description=text, deadline=0)["task"])
    host.until(lambda: "sleep 100" in host.inside(agent, "ps", "-eo", "args"), "not begun")
    return task


def row(host: HiveHost, task: str) -> dict[str, Any]:
    result = host.call("GetTask", task=task)["task"]
    assert isinstance(result, dict)
    return result


def kill_machine(host: HiveHost, agent: str) -> None:
    host.run("sh", "-c", f"kill -KILL {host.main_pid(agent)}")


def test_tasks_quarantines_and_switched_off_sockets_after_a_kill_of_the_daemon(
    host: HiveHost,
) -> None:
    """K10, T13, attack 44."""
    tell_with_kills(
        host, _a_task_outlives_its_machine(host), _nothing_leaves_a_quarantine(host),
        _the_socket_of_webhooks_goes(host),
    )  # fmt: skip


def _a_task_outlives_its_machine(host: HiveHost) -> Iterator[None]:
    """The daemon starts its agent again: same attempt, one end."""
    task = give(host, "again")
    kill_machine(host, "again")
    yield
    host.until(lambda: row(host, task)["state"] == "done", f"not done: {row(host, task)}")
    result = row(host, task)["result"]
    assert (result["status"], result["summary"], result["attempts"]) == ("success", "ok", 1)
    history = [event["event"] for event in host.call("GetTask", task=task)["history"]]
    assert history.count("interrupt") == 1
    assert [history.count(end) for end in ("finish", "fail", "drop")] == [1, 0, 0]


def _nothing_leaves_a_quarantine(host: HiveHost) -> Iterator[None]:
    """From inside the container, until it is lifted."""
    host.hive("quarantine", "stays", "--reason", "it writes to everybody")
    yield
    words = ("hive-agent", "send", "lead", "copy this to everybody")
    refused = host.inside("stays", "sh", "-c", f"{words[0]} send lead copy 2>&1; echo $?")
    assert "stays is held by a quarantine of it" in refused
    assert refused.split()[-1] == "5"
    assert "stays is in quarantine" in host.hive("status")
    host.hive("quarantine", "stays", "--lift")
    host.inside("stays", *words)
    assert any(letter["body"] == words[-1] for letter in host.mail("lead"))


def _the_socket_of_webhooks_goes(host: HiveHost) -> Iterator[None]:
    """Where they are switched off."""
    host.run("install", "-o", "hive", "-g", "hive", "/dev/null", "/run/hive/hooks.sock")
    yield
    test = ("test", "-e", "/run/hive/hooks.sock")
    host.until(lambda: host.run(*test, check=False).returncode == 1, "the socket is still there")


def test_a_task_fails_with_an_agent_that_stays_down(host: HiveHost) -> None:
    """T13: a worker is not started again by itself."""
    task = give(host, "stays")
    host.run("sh", "-c", f"kill -KILL $(pgrep -P $(pgrep -P {host.main_pid('stays')}))")
    host.until(lambda: row(host, task)["state"] == "done", "not done")
    assert row(host, task)["result"]["status"] == "failed"
