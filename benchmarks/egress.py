"""Bytes through hive-egress beside the same bytes over a direct TCP connection, in the same run.

hive-egress and hived share a process here; the server has one, and the client is this one.
"""

import asyncio
import multiprocessing
import socket
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final

from fixtures.egress import AGENT, PUBLIC, EgressHost, run_egress
from typing_extensions import override

from benchmarks.report.rows import Row
from hive_core.egress.addresses import Address, parse_address
from hive_core.egress.network import HostNetwork
from hive_core.testing.network import MemoryNetwork

SIZE: Final = 256 << 20
TRIPS: Final = 1000
CONNECTS: Final = 60
_CHUNK: Final = 1 << 18
_TARGET: Final = "www.example.org"


class LoopbackNetwork(MemoryNetwork):
    """An address of the internet leads to the server of this benchmark."""

    @override
    async def connect(self, address: Address, port: int) -> socket.socket:
        return await HostNetwork().connect(parse_address("127.0.0.1"), port)


def serve(ready: Connection) -> None:
    """Answer each byte with one, and each 8 bytes with as many bytes as they say."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        ready.send(listening.getsockname()[1])
        block = bytes(_CHUNK)
        while True:
            connection, _ = listening.accept()
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with connection:
                while data := connection.recv(64):
                    for _ in range(int.from_bytes(data, "big") // _CHUNK if len(data) > 1 else 0):
                        connection.sendall(block)
                    if len(data) == 1:
                        connection.sendall(data)


def run_service(ready: Connection, port: int) -> None:
    """hive-egress, until the other end of the pipe closes."""

    async def main(host: EgressHost) -> None:
        host.network.names[_TARGET] = [[PUBLIC]]
        ended = asyncio.Event()
        asyncio.get_running_loop().add_reader(ready.fileno(), ended.set)
        ready.send(str(host.path(AGENT)))
        await ended.wait()

    with tempfile.TemporaryDirectory() as name:
        run_egress(
            Path(name), main, network=LoopbackNetwork(), seconds=600, allow=(f"{_TARGET}:{port}",)
        )


def run() -> list[Row]:
    with process(serve) as server:
        port = server.recv()
        with process(run_service, port) as service:
            path = service.recv()
            return _rows(lambda: connect_directly(port), lambda: connect_through(path, port))


@contextmanager
def process(work: Callable[..., None], *arguments: object) -> Iterator[Connection]:
    """A process that runs this, and what it says."""
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe()
    child = context.Process(target=work, args=(there, *arguments))
    child.start()
    try:
        yield here
    finally:
        here.send(None)
        child.join(5)
        child.kill()


def connect_directly(port: int) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def connect_through(path: str, port: int) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(path)
    connection.sendall(f"CONNECT {_TARGET}:{port} HTTP/1.1\r\n\r\n".encode())
    answer = connection.recv(1000)
    assert answer.startswith(b"HTTP/1.1 200 "), answer
    return connection


def _rows(direct: Callable[[], socket.socket], through: Callable[[], socket.socket]) -> list[Row]:
    measures = (
        ("bytes received", throughput, "MiB/s"), ("round trip of one byte, p50", round_trip, "ms"),
        ("connect and round trip, p50", connecting, "ms"),
    )  # fmt: skip
    return [
        {
            "name": name, "value": measure(through), "unit": unit, "peer": "direct TCP",
            "peer_value": measure(direct),
        }
        for name, measure, unit in measures
    ]  # fmt: skip


def throughput(connect: Callable[[], socket.socket]) -> float:
    """MiB a second, the best of three."""
    return max(_receive(connect) for _ in range(3))


def _receive(connect: Callable[[], socket.socket]) -> float:
    with connect() as connection:
        began, left, room = time.perf_counter(), SIZE, bytearray(_CHUNK)
        connection.sendall(SIZE.to_bytes(8, "big"))
        while left:
            left -= connection.recv_into(room, min(left, _CHUNK))
        return SIZE / (1 << 20) / (time.perf_counter() - began)


def round_trip(connect: Callable[[], socket.socket]) -> float:
    with connect() as connection:
        return statistics.median(_trip(connection) for _ in range(TRIPS))


def connecting(connect: Callable[[], socket.socket]) -> float:
    times = []
    for _ in range(CONNECTS):
        began = time.perf_counter()
        with connect() as connection:
            _trip(connection)
        times.append(1000 * (time.perf_counter() - began))
    return statistics.median(times)


def _trip(connection: socket.socket) -> float:
    began = time.perf_counter()
    connection.sendall(b"x")
    assert connection.recv(1) == b"x"
    return 1000 * (time.perf_counter() - began)
