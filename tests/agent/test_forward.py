"""`hive-agent forward` with real sockets: bytes, ends, bounds, and users that it refuses."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from hive_core.agent.forward import AGENT_USERS, ForwardPair, ForwardServer, client_uid
from hive_core.errors import InvalidArgument, Unreachable

LAUNCHER = str(Path(__file__).parent / "run_hive_agent.py")
Serve = Callable[[socket.socket], None]


@contextmanager
def unix_server(path: Path, serve: Serve) -> Iterator[None]:
    """A server whose connections each have a thread."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen()

    def accept() -> None:
        with suppress(OSError):
            while True:
                connection = listener.accept()[0]
                threading.Thread(target=serve, args=(connection,), daemon=True).start()

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    try:
        yield
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(10)
        listener.close()


@contextmanager
def forwarding(path: Path, most: int = 4, users: range = AGENT_USERS) -> Iterator[tuple[str, int]]:
    """The address of a port that leads to this socket."""
    server = ForwardServer([ForwardPair(0, str(path)), ForwardPair(0, "/nowhere")], most, users)
    stop = threading.Event()

    def run() -> None:
        while not stop.is_set():
            server.step()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    address: tuple[str, int] = server.ports[0].socket.getsockname()
    try:
        yield address
    finally:
        stop.set()
        socket.create_connection(server.ports[1].socket.getsockname()).close()
        thread.join(10)
        for port in server.ports:
            port.socket.close()
        for connection in list(server._open):
            connection.close()
        server._selector.close()


def read_all(connection: socket.socket) -> bytes:
    parts = []
    while data := connection.recv(1 << 16):
        parts.append(data)
    return b"".join(parts)


def answer_after_the_end(connection: socket.socket) -> None:
    """Read a request to its end, and only then answer."""
    with connection:
        request = read_all(connection)
        connection.sendall(b"%d:" % len(request) + request[-3:])


def test_each_end_is_passed_on_and_the_other_way_stays_open(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    with (
        unix_server(path, answer_after_the_end),
        forwarding(path) as address,
        socket.create_connection(address, 30) as client,
    ):
        client.sendall(b"abc")
        client.shutdown(socket.SHUT_WR)
        assert read_all(client) == b"3:abc"


def test_much_more_than_the_buffers_hold_passes_both_ways(tmp_path: Path) -> None:
    path, size = tmp_path / "socket", 8 << 20

    def serve(connection: socket.socket) -> None:
        with connection:
            connection.sendall(read_all(connection))

    sent = os.urandom(size)
    with (
        unix_server(path, serve),
        forwarding(path) as address,
        socket.create_connection(address, 30) as client,
    ):
        client.sendall(sent)
        client.shutdown(socket.SHUT_WR)
        assert read_all(client) == sent


def test_a_server_that_ends_first_still_reads_the_rest_of_the_request(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    received: list[bytes] = []
    over = threading.Event()

    def serve(connection: socket.socket) -> None:
        with connection:
            connection.sendall(b"early")
            connection.shutdown(socket.SHUT_WR)
            received.append(read_all(connection))
            over.set()

    with (
        unix_server(path, serve),
        forwarding(path) as address,
        socket.create_connection(address, 30) as client,
    ):
        assert read_all(client) == b"early"
        client.sendall(b"late")
        client.shutdown(socket.SHUT_WR)
        assert over.wait(30)
    assert received == [b"late"]


def test_an_answer_before_the_end_of_a_long_request_arrives_whole(tmp_path: Path) -> None:
    path = tmp_path / "socket"

    def refuse(connection: socket.socket) -> None:
        with connection:
            connection.recv(10)
            connection.sendall(b"413")

    with (
        unix_server(path, refuse),
        forwarding(path) as address,
        socket.create_connection(address, 30) as client,
    ):
        client.sendall(b"x" * (4 << 20))  # the server reads 10 bytes of it and closes
        assert read_all(client) == b"413"


def test_a_server_learns_that_its_client_has_gone(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    gone = threading.Event()

    def serve(connection: socket.socket) -> None:
        with connection:
            connection.sendall(connection.recv(10))
            assert connection.recv(10) == b""
            gone.set()

    with unix_server(path, serve), forwarding(path) as address:
        client = socket.create_connection(address, 30)
        client.sendall(b"x")
        assert client.recv(1) == b"x"
        client.close()
        assert gone.wait(30)


def test_a_client_that_leaves_does_not_hold_a_server_that_writes_on(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    stopped = threading.Event()

    def serve(connection: socket.socket) -> None:
        with connection, suppress(OSError):
            while True:
                connection.sendall(b"x" * 4096)
        stopped.set()

    with unix_server(path, serve), forwarding(path) as address:
        client = socket.create_connection(address, 30)
        client.recv(1)
        client.close()
        assert stopped.wait(30)


def test_connections_beyond_the_bound_wait_for_a_place(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    present: list[int] = []
    at_once = [0]
    lock = threading.Lock()

    def serve(connection: socket.socket) -> None:
        with connection:
            with lock:
                at_once[0] += 1
                present.append(at_once[0])
            request = connection.recv(10)
            with lock:
                at_once[0] -= 1
            connection.sendall(request)

    with unix_server(path, serve), forwarding(path, most=2) as address:
        clients = [socket.create_connection(address, 30) for _ in range(6)]
        for number, client in enumerate(clients):
            client.sendall(b"%d" % number)
            client.shutdown(socket.SHUT_WR)
        assert [read_all(client) for client in clients] == [b"%d" % at for at in range(6)]
        for client in clients:
            client.close()
    assert max(present) <= 2


def test_a_socket_that_is_away_ends_the_connection_and_serves_the_next(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    with forwarding(path) as address:
        with socket.create_connection(address, 30) as client:
            assert client.recv(1) == b""
        with unix_server(path, answer_after_the_end), socket.create_connection(address) as client:
            client.shutdown(socket.SHUT_WR)
            assert read_all(client) == b"0:"


def test_users_of_sub_agents_are_refused(tmp_path: Path) -> None:
    path, own = tmp_path / "socket", os.geteuid()
    with (
        unix_server(path, answer_after_the_end),
        forwarding(path, users=range(own, own)) as address,  # as if this user were one
        socket.create_connection(address, 30) as client,
        suppress(ConnectionResetError),
    ):
        client.shutdown(socket.SHUT_WR)
        assert client.recv(1) == b""


def test_the_user_of_a_connection_is_that_of_its_process() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        with socket.create_connection(server.getsockname()) as client:
            own = client.getsockname()
            accepted, address = server.accept()
            assert client_uid(address, server.getsockname()) == os.geteuid()
            client.shutdown(socket.SHUT_WR)
            assert client_uid(address, server.getsockname()) == os.geteuid()
        accepted.close()
        # Left by its process: whose it was is not known any more.
        assert client_uid(own, server.getsockname()) is None


@pytest.mark.parametrize(
    "text", ["", "x=/a", "0=/a", "70000=/a", "7001", "7001=", "7001=a", "-1=/a"]
)
def test_what_is_no_pair_of_port_and_socket_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument):
        ForwardPair.parse(text)


def test_a_port_that_is_taken_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(Unreachable, match=f"127.0.0.1:{port}"):
            ForwardServer([ForwardPair(port, "/nowhere")])


def test_the_command_says_when_it_listens(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    words = [sys.executable, "-I", LAUNCHER, "forward", f"{port}={path}"]
    with (
        unix_server(path, answer_after_the_end),
        subprocess.Popen(words, stdout=subprocess.PIPE) as process,
    ):
        assert process.stdout
        assert process.stdout.readline() == b"forwarding 127.0.0.1:%d to %s\n" % (
            port, str(path).encode(),
        )  # fmt: skip
        with socket.create_connection(("127.0.0.1", port), 30) as client:
            client.sendall(b"abc")
            client.shutdown(socket.SHUT_WR)
            assert read_all(client) == b"3:abc"
        process.terminate()
