"""How containers end, and what is written down and left of it."""

import time

import pytest
from e2e.privdhost import PrivdHost, SharedPrivdHost
from long import at_most

from hive_core.plan.actions import KillUnit, StopUnit
from hive_core.plan.results import Done

pytestmark = pytest.mark.lab


@pytest.fixture(scope="module")
def host(shared_privd: SharedPrivdHost) -> PrivdHost:
    return shared_privd.prepare()


def test_a_stop_is_graceful(host: PrivdHost) -> None:
    """With TERM comes HUP, which would end what takes its time to end."""
    end = "echo begun; sleep 0.5; echo caught; exit 7"
    trap = f"trap '{end}' TERM; echo up; while :; do sleep 0.1; done"
    agent = host.running(command=("sh", "-c", trap))
    host.until(lambda: "up" in host.log("-u", agent.unit), "does not come up")
    begin = time.monotonic()
    record = host.stop(agent)
    assert time.monotonic() - begin < at_most(3)
    assert "caught" in " ".join(host.log("-u", agent.unit))
    assert (record["result"], record["status"]) == ("success", "0")  # it was asked to
    assert record["nonce"] == agent.nonce


def test_a_command_without_a_signal_handler_ends_at_once(host: PrivdHost) -> None:
    agent = host.running(command=("sleep", "1000"))
    begin = time.monotonic()
    host.stop(agent)
    assert time.monotonic() - begin < at_most(3)


def test_an_agent_without_a_command_idles(host: PrivdHost) -> None:
    agent = host.running(command=())
    assert host.enter(agent, "pgrep", "-a", "sleep").endswith("sleep infinity")
    host.stop(agent)


@pytest.mark.parametrize(
    ("script", "result", "status"),
    [("exit 0", "success", "0"), ("exit 3", "exit-code", "3"), ("kill -9 $$", "exit-code", "255")],
)
def test_the_exit_is_recorded(host: PrivdHost, script: str, result: str, status: str) -> None:
    agent = host.agent(command=("sh", "-c", script))
    host.prepare(agent)
    host.do(agent.start)
    record = host.exit_of(agent)
    assert (record["result"], record["code"], record["status"]) == (result, "exited", status)
    readers = host.lab.run(["stat", "-c", "%U:%G %a", f"/run/hive/exits/{agent.uuid}"]).stdout
    assert readers == "root:hive 640\n"
    host.do(agent.start)  # nothing of the last run is in the way
    host.exit_of(agent)


def test_a_missing_program_is_a_failed_start(host: PrivdHost) -> None:
    agent = host.agent(command=("/no/such/program",))
    host.prepare(agent)
    host.do(agent.start)
    assert host.exit_of(agent)["result"] == "exit-code"


def test_words_of_a_command_arrive_as_they_are(host: PrivdHost) -> None:
    words = ("$$", "${HOME}", "%i", "a b", "", "\n", '"', "'", "\\", "-p", "ü", ";", "")
    agent = host.agent(command=("python3", "-c", "import sys; print(ascii(sys.argv[1:]))", *words))
    host.prepare(agent)
    host.do(agent.start)
    host.exit_of(agent)
    assert host.log("-u", agent.unit, "-t", agent.name) == [ascii(list(words))]


def test_nspawn_killed_is_recovered_from(host: PrivdHost) -> None:
    agent = host.running()
    host.lab.run(["kill", "-KILL", host.show(agent.unit, "MainPID")])
    record = host.exit_of(agent)
    assert (record["result"], record["code"], record["status"]) == ("signal", "killed", "KILL")
    for _ in range(2):
        host.launch(agent)
        host.do(KillUnit(agent.uuid, agent.name))
        assert host.exit_of(agent)["result"] == "signal"


@pytest.mark.parametrize("verb", ["daemon-reload", "daemon-reexec"])
def test_a_reload_of_systemd_changes_nothing(host: PrivdHost, verb: str) -> None:
    agent = host.running()
    host.lab.run(["systemctl", verb])
    assert host.runs(agent)
    assert host.stop(agent)["result"] == "success"
    host.launch(agent)
    host.stop(agent)


def test_stop_and_kill_accept_an_agent_that_just_ended(host: PrivdHost) -> None:
    """Else the destruction of many agents raises alarms about those that end meanwhile."""
    agent = host.running(command=("sleep", "1000"))
    host.stop(agent)
    host.until(lambda: host.show(agent.unit, "LoadState") == "not-found", "stays loaded")
    assert host.do(StopUnit(agent.uuid, agent.name)) == Done(changed=False)
    assert host.do(KillUnit(agent.uuid, agent.name)) == Done(changed=False)
