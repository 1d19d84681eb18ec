"""How containers start, what stands in them, and what cannot be done from inside."""

import re
import statistics
import sys
import time
from functools import partial

import pytest
from e2e.privdhost import Agent, PrivdHost, SharedPrivdHost, inside
from long import at_most

from hive_core.errors import Conflict, NotFound
from hive_core.plan.actions import (
    MakeNode,
    MakeSocketDirectory,
    ObserveStorage,
    RemoveSocketDirectory,
    StopUnit,
    Unmount,
)  # fmt: skip
from hive_core.plan.results import Done, StorageFacts

pytestmark = pytest.mark.lab


@pytest.fixture(scope="module")
def host(shared_privd: SharedPrivdHost) -> PrivdHost:
    return shared_privd.prepare()


@pytest.fixture(scope="module")
def agent(host: PrivdHost) -> Agent:
    return host.running()


def test_the_helper_is_confined(host: PrivdHost) -> None:
    said = host.lab.run(["systemd-analyze", "security", "--threshold=50", "hive-privd"]).stdout
    match_ = re.search(r"exposure level for hive-privd.service: (\S+)", said)
    assert match_ is not None
    assert float(match_[1]) <= 5.0


def test_the_helper_answers_only_hived(host: PrivdHost) -> None:
    mode = host.lab.run(["stat", "-c", "%U:%G %a", "/run/hive/privd.sock"]).stdout
    assert mode == "root:hive 660\n"
    ask = (
        "import socket as s; wire = s.socket(s.AF_UNIX); wire.connect('/run/hive/privd.sock')\n"
        "try:\n    wire.sendall(b'{}' + bytes(1)); print(wire.recv(99))\n"
        "except ConnectionError: print(b'')"
    )
    host.hang_up()  # the helper has one caller at a time
    assert host.lab.run(["/usr/bin/python3", "-Ic", ask]).stdout == "b''\n"  # not even root
    host.reconnect()
    nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "/usr/bin/python3"]
    assert "PermissionError" in host.lab.run([*nobody, "-Ic", ask], check=False).stderr


def test_an_agent_runs_in_its_own_range(host: PrivdHost, agent: Agent) -> None:
    facts = host.facts(agent)
    assert host.has_mounts(agent)
    for kind in ("uid", "gid"):
        mapped = host.lab.run(["cat", f"/proc/{facts.leader}/{kind}_map"]).stdout.split()
        assert mapped == ["0", str(agent.base), "65536"]
    owner = host.lab.run(["stat", "-c", "%u", f"/proc/{facts.leader}"]).stdout.strip()
    assert inside(agent.base, owner)


def test_environment_and_directories_of_an_agent(host: PrivdHost, agent: Agent) -> None:
    said = host.say(agent, "env; pwd; hostname; id -u; ls -d /tree/* /agents /run/hive")
    lines = said.splitlines()
    assert f"HIVE_NAME={agent.name}" in lines
    assert "HIVE_SOCKET=/run/hive/broker.sock" in lines
    assert not [line for line in lines if line.startswith("HIVE_PARENT")]
    assert lines[-8:] == [
        "/tree/state", agent.name, "0",
        "/agents", "/run/hive", "/tree/config", "/tree/kids", "/tree/state",
    ]  # fmt: skip


def test_the_client_package_is_mounted(host: PrivdHost, agent: Agent) -> None:
    assert host.say(agent, "command -v hive-agent") == "/opt/hive/bin/hive-agent"
    code = "import sys; sys.path.insert(0, '/opt/hive'); import hive_core.varlink; print('ok')"
    assert host.say(agent, f'python3 -Ic "{code}"') == "ok"


def test_the_environment_names_the_parent(host: PrivdHost, agent: Agent) -> None:
    child = host.running(agent)
    assert host.say(child, "echo $HIVE_PARENT") == agent.name


def test_a_start_takes_little_longer_than_nspawn(host: PrivdHost) -> None:
    """The figures go to the test's output; the bound only catches a change of kind."""
    agents = [host.agent() for _ in range(5)]
    times = []
    for agent in agents:
        host.prepare(agent)
        begin = time.monotonic()
        host.do(agent.start)
        host.until(partial(host.runs, agent), "does not run")
        times.append(time.monotonic() - begin)
    sys.stdout.write(f"start to running, ms: {[round(1000 * t) for t in times]}\n")
    assert statistics.median(times) < at_most(1)


def test_an_agent_has_no_network(host: PrivdHost, agent: Agent) -> None:
    assert host.say(agent, "ls /sys/class/net; cat /proc/net/route | wc -l") == "lo\n1"


def test_structure_cannot_be_altered_from_inside(host: PrivdHost, agent: Agent) -> None:
    child = host.agent(agent)
    host.do(MakeNode(child.lineage))
    short = child.lineage[-1]
    for attempt in (
        "touch /tree/new", "mv /tree/state /tree/other", "rmdir /tree/config", "mkdir /tree/kids/x",
        f"mv /tree/kids/{short} /tree/state/", f"rmdir /tree/kids/{short}/kids",
        "ln -s / /tree/kids/link", "chmod 777 /tree /tree/kids", "chown 0 /tree/kids",
        "rm -rf /tree/kids", "touch /agents/x", "touch /run/hive/x",
    ):  # fmt: skip
        assert host.say(agent, f"{attempt} && echo DONE", check=False).find("DONE") < 0, attempt
    assert (
        host.say(
            agent, f"echo hello >/tree/kids/{short}/state/note; cat /tree/kids/{short}/state/note"
        )
        == "hello"
    )


def test_setuid_and_device_files_are_useless(host: PrivdHost, agent: Agent) -> None:
    host.say(agent, "cp /usr/bin/id tool && chmod 4755 tool")
    path = agent.node / "state/tool"
    owner, mode = host.lab.run(["stat", "-c", "%u %a", str(path)]).stdout.split()
    assert (inside(2147352576, owner), mode) == (True, "4755")
    options = host.lab.run(["findmnt", "-no", "OPTIONS", "--target", str(path)]).stdout
    assert "nosuid" in options
    assert "nodev" in options
    run = ["setpriv", "--reuid=65534", "--clear-groups"]
    assert "2147352576" not in host.lab.run([*run, str(path)]).stdout
    others = host.lab.run([*run, "sh", "-c", str(path)], check=False).stderr
    assert "Permission denied" in others  # the directories above are closed to them
    for place in ("/tree/state", "/", "/tmp"):
        done = host.say(agent, f"mknod {place}/disk b 8 0 && echo DONE", check=False)
        assert "DONE" not in done
    inside_options = host.say(agent, "grep ' / \\| /tree ' /proc/self/mounts | cut -d' ' -f4")
    assert all({"nosuid", "nodev"} <= set(line.split(",")) for line in inside_options.splitlines())


def test_read_only_binds_stay_read_only(host: PrivdHost, agent: Agent) -> None:
    for place in ("/usr", "/agents", "/run/hive", "/opt/hive/hive_core"):
        said = host.say(agent, f"mount -o remount,bind,rw {place} && echo DONE", check=False)
        assert "DONE" not in said
        assert "DONE" not in host.say(agent, f"touch {place}/x && echo DONE", check=False)
        # Not even with every capability of the container's own root and no system call filter.
        host.enter(agent, "mount", "-o", "remount,bind,rw", place)
        assert "DONE" not in host.enter(agent, "sh", "-c", f"touch {place}/x && echo DONE")


def test_an_agent_without_mount_rights_makes_no_namespace_with_them(
    host: PrivdHost, agent: Agent
) -> None:
    said = host.say(agent, "unshare -Urm mount -t tmpfs none /tmp && echo DONE", check=False)
    assert "DONE" not in said


def test_an_action_touches_no_unit_of_another_agent(host: PrivdHost, agent: Agent) -> None:
    other = host.agent(name=agent.name)
    host.prepare(other)
    with pytest.raises(NotFound):
        host.do(StopUnit(other.uuid, agent.name))
    with pytest.raises(Conflict):
        host.do(other.start)
    assert host.runs(agent)


def test_a_range_belongs_to_one_agent(host: PrivdHost, agent: Agent) -> None:
    other = host.agent()
    host.do(MakeNode(other.lineage))
    with pytest.raises(Conflict):
        host.do(type(other.mount)(other.uuid, other.lineage, agent.base, "host"))


def test_a_start_needs_its_mounts(host: PrivdHost) -> None:
    agent = host.agent()
    host.do(MakeNode(agent.lineage))
    with pytest.raises(Conflict):
        host.do(agent.start)


def test_socket_directories_survive_a_stop_and_go_with_the_agent(host: PrivdHost) -> None:
    agent = host.running()
    directory = f"/run/hive/agents/{agent.uuid}"
    write = ["setpriv", "--reuid=hive", "--regid=hive", "--clear-groups", "sh", "-c"]
    host.lab.run(
        [*write, f"echo here >{directory}/run/identity.json; ln -s /tree {directory}/view/me"]
    )
    assert host.do(MakeSocketDirectory(agent.uuid)) == Done(changed=False)
    assert (
        host.say(agent, "cat /run/hive/identity.json; ls -d /agents/me/state")
        == "here\n/agents/me/state"
    )
    host.stop(agent)
    host.do(Unmount(agent.uuid))
    assert host.do(RemoveSocketDirectory(agent.uuid)) == Done(changed=True)
    assert host.do(RemoveSocketDirectory(agent.uuid)) == Done(changed=False)
    facts = host.do(ObserveStorage())
    assert isinstance(facts, StorageFacts)
    assert agent.uuid not in (*facts.socket_directories, *facts.mounts)
    assert agent.lineage in facts.nodes


def test_a_removed_node_mount_is_restored(host: PrivdHost) -> None:
    agent = host.running()
    host.lab.run(["umount", "-l", f"/var/lib/hive/mounts/{agent.uuid}/tree"])
    assert host.runs(agent)
    assert not host.has_mounts(agent)
    assert host.has_mounts(agent)


def test_the_helper_may_be_restarted_under_running_agents(host: PrivdHost, agent: Agent) -> None:
    host.lab.run(["systemctl", "restart", "hive-privd"])
    host.reconnect()
    assert host.has_mounts(agent)
    assert host.runs(agent)
