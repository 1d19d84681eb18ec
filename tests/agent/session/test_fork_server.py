"""The fork server: what a runtime is that it forks, and what happens when either of them dies."""

from __future__ import annotations

import os
import queue
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from fixtures.fork_server import forked_runtimes

from hive_core.agent.session.runtimes.builtin import BuiltinRuntime, RuntimeCommand
from hive_core.agent.session.runtimes.fork_server import ForkServerClient, start_fork_server

# Only root starts processes of other users.
UID = 61_998 if os.geteuid() == 0 else None
CAPABILITIES = "00000000000000e0"  # kill, setgid, setuid: capabilities(7)
Events = queue.SimpleQueue[tuple[str, object]]
# A fork server that has room for the descriptors of a request, and for none more.
_WITHOUT_DESCRIPTORS = """
import gc, json, os, resource, socket
from hive_core.runtime.fork_server import ForkServer
ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
control, controlled = socket.socketpair()
server = ForkServer(theirs)
request = {"wire": "chat", "uid": None, "environment": {}, "folder": "/"}
socket.send_fds(ours, [json.dumps(request).encode()], [controlled.fileno()] * 2)
ours.close()
controlled.close()
first, second = os.dup(0), os.dup(0)
os.close(first)
os.close(second)
resource.setrlimit(resource.RLIMIT_NOFILE, (second + 1, second + 1))
server.serve()
print(control.recv(1000).decode(), gc.isenabled(), sep="\\n")
"""


def command(folder: Path) -> RuntimeCommand:
    return RuntimeCommand(str(folder / "model.sock"), None, UID)


@pytest.fixture(name="client", scope="module")
def _client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ForkServerClient]:
    """Each test leaves it without a runtime, with a server or without one."""
    client = ForkServerClient(command(tmp_path_factory.mktemp("session")), idle=600)
    yield client
    client.close()


def ready(client: ForkServerClient) -> tuple[BuiltinRuntime, Events]:
    """A runtime that serves."""
    events: Events = queue.SimpleQueue()
    runtime = client.open(events)
    kind, line = events.get(timeout=120)
    assert kind == "line", line
    return runtime, events


def status_of(pid: int) -> dict[str, list[str]]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {key: value.split() for key, _, value in (line.partition(":") for line in lines)}


def sockets_of(pid: int) -> set[str]:
    """Its sockets; it may close descriptors meanwhile."""
    links = set[str]()
    for place in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):
            links.add(str(place.readlink()))
    return {link for link in links if link.startswith("socket:")}


def ends(pid: int) -> bool:
    """Wait until a process has ended."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    ended = bool(select.select([handle], [], [], 120)[0])
    os.close(handle)
    return ended


def test_a_forked_runtime_has_its_user_its_bounds_and_nothing_of_another_one(
    client: ForkServerClient,
) -> None:
    first, _ = ready(client)
    second, _ = ready(client)
    assert set(forked_runtimes(client.pid)) == {first.pid, second.pid}
    status = status_of(second.pid)
    if UID is not None:
        assert (set(status["Uid"]), set(status["Gid"])) == ({str(UID)}, {str(UID)})
        assert status["Groups"] == []
        assert set(status["CapEff"] + status["CapPrm"]) == {"0" * 16}
        assert status_of(client.pid)["CapEff"] == [CAPABILITIES]
    assert (status["NoNewPrivs"], status["Umask"]) == (["1"], ["0077"])
    assert os.getsid(second.pid) == os.getpgid(second.pid) == second.pid
    assert sockets_of(first.pid) & sockets_of(second.pid) == set()
    # The server closes its copies after it has answered, and before it takes the next request.
    assert sockets_of(client.pid) & sockets_of(first.pid) == set()
    first.close()
    second.close()


def test_a_runtime_outlives_its_server_and_the_next_one_is_forked_by_another(
    client: ForkServerClient,
) -> None:
    first, _ = ready(client)
    second, _ = ready(client)
    first.close()
    first.close()
    assert not first.is_alive
    assert second.is_alive
    os.kill(client.pid, signal.SIGKILL)
    third, _ = ready(client)  # the one that is told so is started by itself
    fourth, _ = ready(client)
    assert list(forked_runtimes(client.pid)) == [fourth.pid]
    assert second.is_alive
    for runtime in (second, third, fourth):
        runtime.close()
    assert ends(second.pid)


def test_the_server_ends_when_no_runtime_was_there_for_the_idle_time(tmp_path: Path) -> None:
    client = ForkServerClient(command(tmp_path), idle=0)
    runtime, _ = ready(client)
    server = client.pid
    runtime.close()
    assert ends(server)
    again, _ = ready(client)
    assert client.pid != server
    again.close()


def test_what_is_no_request_is_refused_and_a_session_that_ends_takes_its_runtimes_along(
    tmp_path: Path,
) -> None:
    """The server reads nothing of the environment and of the folder in which it is started."""
    running = start_fork_server(command(tmp_path))
    assert running.process is not None
    for data, reason in ((b"x", "not JSON"), (b'{"uid": "0"}', "it needs wire, uid")):
        ours, theirs = socket.socketpair()
        control, controlled = socket.socketpair()
        with ours, theirs, control, controlled:
            socket.send_fds(running.channel, [data], [theirs.fileno(), controlled.fileno()])
            assert reason in control.recv(1000).decode()
    client = ForkServerClient(command(tmp_path), 600, running.channel)
    runtime, _ = ready(client)
    words = Path(f"/proc/{running.process.pid}/cmdline").read_bytes().split(b"\0")
    assert b"-I" in words
    names = Path(f"/proc/{running.process.pid}/environ").read_bytes().split(b"\0")
    assert {name.partition(b"=")[0] for name in names if name} == {b"PATH", b"LANG"}
    running.close()
    assert ends(runtime.pid)
    runtime.close()


def test_a_server_that_cannot_warm_up_says_why_and_goes_on_to_collect_garbage() -> None:
    words = [sys.executable, "-W", "ignore", "-c", _WITHOUT_DESCRIPTORS]
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, check=True)
    assert done.stdout.decode().split("\n") == ["[Errno 24] Too many open files", "True", ""]


def test_a_runtime_is_started_by_itself_where_there_is_no_fork_server(tmp_path: Path) -> None:
    door, closed = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    closed.close()
    client = ForkServerClient(command(tmp_path), 600, door)
    runtime, _ = ready(client)
    assert runtime.is_alive
    assert client.pid == 0
    runtime.close()
    door.close()
