"""Row R11: a crowd of slow and idle connections costs the others nothing, and goes."""

from __future__ import annotations

import resource
import select
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from fuzz.served import HiveProcess, serve_in_process
from long import at_most, figure, times
from security.neighbour import Neighbour

CALL = b'{"method":"org.hive.Broker.Whoami","parameters":{}}\0'
LONG = (
    b'{"method":"org.varlink.service.GetInterfaceDescription",'
    b'"parameters":{"interface":"org.hive.Broker"}}\0'
)
# Nothing; a frame begun at once; one begun after a call; calls whose answers nobody reads, of
# which the kernel takes the first 200 KB.
MANNERS = (b"", CALL[:20], CALL + CALL[:20], LONG * 9)
SOCKETS, CROWD = times(50, 200), times(1000, 10_000)
WELL_BEHAVED = 4
PATIENCE = times(20, 2)
# Who does not read has the longest: 60 s, and until the next look. The rest is for a busy machine.
SECONDS = 75 / PATIENCE + times(45, 60)


@contextmanager
def many_files() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (before[1], before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def crowd(here: HiveProcess, size: int) -> list[socket.socket]:
    """Connections in every manner on each of the sockets."""
    result = []
    for number in range(size):
        peer = socket.socket(socket.AF_UNIX)
        peer.connect(str(here.path(number % SOCKETS)))
        peer.settimeout(0)
        if words := MANNERS[number // SOCKETS % len(MANNERS)]:
            peer.send(words)
        result.append(peer)
    return result


class CrowdEnd(NamedTuple):
    """Of a crowd: seconds until the last was gone, and what the service held at most till then."""

    seconds: float
    memory: float
    files: int


def all_end(here: HiveProcess, connections: list[socket.socket]) -> CrowdEnd:
    """Wait until the other side has closed all of them."""
    start, looks = time.monotonic(), select.poll()
    memory, files = 0.0, 0
    # Nothing is read: what was answered stays unread for ever.
    left = {connection.fileno() for connection in connections}
    for descriptor in left:
        looks.register(descriptor, 0)
    while left:
        spent = time.monotonic() - start
        assert spent < SECONDS, f"{len(left)} of {len(connections)} are still open"
        memory, files = max(memory, here.memory), max(files, here.descriptors)
        for descriptor, _ in looks.poll(100):
            left.discard(descriptor)
            looks.unregister(descriptor)
    for connection in connections:
        connection.close()
    return CrowdEnd(time.monotonic() - start, memory, files)


@pytest.mark.sized
def test_row_r11_idle_connections_are_closed_in_time_and_delay_no_neighbour(
    tmp_path: Path,
) -> None:
    with many_files(), serve_in_process(tmp_path, SOCKETS + WELL_BEHAVED, PATIENCE) as here:
        neighbours = [Neighbour(here.path(SOCKETS + number)) for number in range(WELL_BEHAVED)]
        for neighbour in neighbours:
            neighbour.start()
            neighbour.begun.wait()
        files, memory, ends = [here.descriptors], [here.memory], list[CrowdEnd]()
        for _ in range(2):
            ends.append(all_end(here, crowd(here, CROWD)))
            memory.append(here.memory)
            files.append(here.descriptors)
        waits = sorted(wait for neighbour in neighbours for wait in neighbour.end())
        p99 = waits[len(waits) * 99 // 100] * 1000
        figure(
            "crowd", connections=CROWD, sockets=SOCKETS, p50_ms=waits[len(waits) // 2] * 1000,
            p99_ms=p99, most_ms=waits[-1] * 1000, calls=len(waits),
            patience_divided_by=PATIENCE, crowds=[end._asdict() for end in ends],
            memory_mib=memory, files=files,
        )  # fmt: skip
        assert max(end.files for end in ends) > CROWD / 2, "they were not there together"
        assert p99 < 1000 * at_most(0.1)
        assert files == [files[0]] * 3
        peak = max(end.memory for end in ends)
        held = peak - memory[0]
        assert memory[2] - memory[0] < held / 3, "the memory is not back"
        assert memory[2] - memory[1] < held / 10, "each crowd leaves something behind"
        assert peak < 512
