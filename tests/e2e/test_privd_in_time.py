"""Attack 63: no action of the root helper takes long, whatever it waits for."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from e2e.privdhost import PrivdHost, SharedPrivdHost
from long import at_most

from hive_core.errors import TimedOut
from hive_core.plan.actions import MakeNode, MakeSocketDirectory, RemoveSocketDirectory
from hive_core.plan.results import Done
from hive_core.privd.server import SECONDS

pytestmark = pytest.mark.lab

FILES = 60_000


@pytest.fixture(scope="module")
def host(shared_privd: SharedPrivdHost) -> PrivdHost:
    return shared_privd.prepare()


@contextmanager
def pause_systemd(host: PrivdHost) -> Iterator[None]:
    os.kill(host.lab.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(host.lab.pid, signal.SIGCONT)


@contextmanager
def slow_helper(host: PrivdHost) -> Iterator[None]:
    """A helper with a twentieth of a processor: few files take as long as many."""
    limit = ["systemctl", "set-property", "--runtime", "hive-privd.service"]
    host.lab.run([*limit, "CPUQuota=5%"])
    try:
        yield
    finally:
        host.lab.run([*limit, "CPUQuota="])


def test_attack_63_a_slow_action_is_cut_off_and_delays_no_other(host: PrivdHost) -> None:
    """A systemd that does not answer holds up what needs it for 2 s, and nothing else."""
    agent, other = host.agent(), host.agent()
    host.prepare(agent)
    with pause_systemd(host):
        began = time.monotonic()
        with pytest.raises(TimedOut, match="StartUnit took more than 2"):
            host.do(agent.start)
        assert SECONDS <= time.monotonic() - began < at_most(SECONDS)
        assert host.do(MakeNode(other.lineage)) == Done(changed=True)
    host.launch(other)
    # What was cut off is done by asking again, or was done.
    host.until(lambda: host.show(agent.unit, "LoadState") != "loaded" or host.runs(agent), "stuck")


def test_attack_63_a_filled_socket_directory_is_removed_in_steps(host: PrivdHost) -> None:
    """Whoever took hived over can make its own requests long; each is cut off, and gets further."""
    agent = host.agent()
    host.do(MakeSocketDirectory(agent.uuid))
    fill = f"import os\nfor n in range({FILES}): os.close(os.open(f'run/{{n}}', os.O_CREAT, 0o600))"
    directory = f"/run/hive/agents/{agent.uuid}"
    user = [
        "setpriv",
        "--reuid=hive",
        "--regid=hive",
        "--clear-groups",
        "env",
        f"--chdir={directory}",
    ]
    host.lab.run([*user, "/usr/bin/python3", "-Ic", fill], timeout=300)
    with slow_helper(host):
        cut = remove_in_steps(host, agent.uuid)
    assert cut
    assert not host.lab.path(directory).exists()


def remove_in_steps(host: PrivdHost, uuid: str) -> int:
    """How often the removal was cut off; another action is served each time."""
    for cut in range(100):
        try:
            assert host.do(RemoveSocketDirectory(uuid)) == Done(changed=True)
        except TimedOut:
            assert host.do(MakeSocketDirectory(host.agent().uuid)) == Done(changed=True)
        else:
            return cut
    raise AssertionError("it is never removed")
