"""Tasks of agents with a runtime in real containers: K10, T13; and a quarantine (attack 44).

The program is `hive-agent serve`: after a restart it runs its begun tasks again, as a session goes
on from its log.
"""

from __future__ import annotations

from typing import Any

import pytest
from e2e.hivehost import HiveHost
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


def test_a_task_outlives_a_kill_after_which_the_daemon_starts_its_agent_again(
    host: HiveHost,
) -> None:
    """K10, T13: same attempt, one end; hived is killed in between, too."""
    task = give(host, "again")
    kill_machine(host, "again")
    host.kill()
    host.until(lambda: row(host, task)["state"] == "done", f"not done: {row(host, task)}")
    result = row(host, task)["result"]
    assert (result["status"], result["summary"], result["attempts"]) == ("success", "ok", 1)
    history = [event["event"] for event in host.call("GetTask", task=task)["history"]]
    assert history.count("interrupt") == 1
    assert [history.count(end) for end in ("finish", "fail", "drop")] == [1, 0, 0]


def test_a_task_fails_with_an_agent_that_stays_down(host: HiveHost) -> None:
    """T13: a worker is not started again by itself."""
    task = give(host, "stays")
    host.run("sh", "-c", f"kill -KILL $(pgrep -P $(pgrep -P {host.main_pid('stays')}))")
    host.until(lambda: row(host, task)["state"] == "done", "not done")
    assert row(host, task)["result"]["status"] == "failed"


def test_nothing_leaves_a_container_in_quarantine_until_it_is_lifted(host: HiveHost) -> None:
    """Attack 44: also after a restart of hived, from inside the container."""
    host.hive("quarantine", "again", "--reason", "it writes to everybody")
    host.kill()
    words = ("hive-agent", "send", "lead", "copy this to everybody")
    refused = host.inside("again", "sh", "-c", f"{words[0]} send lead copy 2>&1; echo $?")
    assert "again is held by a quarantine of it" in refused
    assert refused.split()[-1] == "5"
    assert "again is in quarantine" in host.hive("status")
    host.hive("quarantine", "again", "--lift")
    host.inside("again", *words)
    assert any(letter["body"] == words[-1] for letter in host.mail("lead"))


def test_the_socket_of_webhooks_goes_where_they_are_switched_off(host: HiveHost) -> None:
    host.run("install", "-o", "hive", "-g", "hive", "/dev/null", "/run/hive/hooks.sock")
    host.restart()
    test = ("test", "-e", "/run/hive/hooks.sock")
    host.until(lambda: host.run(*test, check=False).returncode == 1, "the socket is still there")
