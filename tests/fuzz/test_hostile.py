"""Attack 36 and row R12: hostile frames against the real sockets, others served meanwhile."""

from __future__ import annotations

import itertools
import socket
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random

import pytest
from fuzz.hostile import frame
from fuzz.served import HiveProcess, serve_in_process
from long import at_most, figure, seed, times
from security.neighbour import Neighbour

from hive_core import errors, varlink

FRAMES = times(1000, 20_000)
AGENTS = 8
DECLARED = {name for name in errors.BY_WIRE if name != errors.Internal.wire}


def say(
    here: HiveProcess, agent: int, frames: list[bytes], random: Random
) -> list[varlink.Message]:
    """Put the frames on one connection, whole, in pieces or cut off; what was answered."""
    with socket.socket(socket.AF_UNIX) as peer:
        peer.connect(str(here.path(agent)))
        peer.settimeout(10)
        data = b"\0".join(frames)
        if random.random() < 0.8:
            data += b"\0"
        with suppress(BrokenPipeError, ConnectionResetError):
            for piece in pieces(data, random):
                peer.sendall(piece)
            peer.shutdown(socket.SHUT_WR)
        return answers(peer)


def bursts(random: Random) -> Iterator[list[bytes]]:
    """What goes over one connection: it ends with the first frame that is none."""
    burst: list[bytes] = []
    for _ in range(FRAMES):
        burst.append(frame(random))
        try:
            varlink.decode(burst[-1])
        except errors.BadFrame:
            yield burst
            burst = []
    yield burst


def pieces(data: bytes, random: Random) -> Iterator[bytes]:
    """In one go, or in parts as small as a byte."""
    size = random.choice([len(data), len(data), 1000, 1]) if len(data) < 20_000 else 1 << 16
    for at in range(0, len(data), max(size, 1)):
        yield data[at : at + max(size, 1)]


def answers(peer: socket.socket) -> list[varlink.Message]:
    reader, messages = varlink.FrameReader(2 * varlink.FRAME_LIMIT), []
    with suppress(ConnectionResetError):
        while data := peer.recv(1 << 18):
            messages += [varlink.decode(frame) for frame in reader.feed(data)]
    return messages


@contextmanager
def neighbours(here: HiveProcess, first: int) -> Iterator[list[Neighbour]]:
    result = [Neighbour(here.path(first + number)) for number in range(2)]
    for neighbour in result:
        neighbour.start()
        neighbour.begun.wait()
    yield result
    for neighbour in result:
        neighbour.end()


@pytest.mark.sized
def test_attack_36_thousands_of_hostile_frames_end_in_declared_errors_and_leave_nothing_behind(
    tmp_path: Path,
) -> None:
    start, number, error_counts, memory = seed(), itertools.count(), Counter[str](), list[float]()
    random = Random(start)  # noqa: S311 - the same seed says the same
    with serve_in_process(tmp_path, AGENTS + 2) as here, neighbours(here, AGENTS) as others:
        files, began, said = here.descriptors, time.monotonic(), 0
        for burst in bursts(random):
            for answer in say(here, next(number) % AGENTS, burst, random):
                check(answer, start, error_counts)
            said += len(burst)
            if said > FRAMES / 2 and not memory:
                memory.append(here.memory)
        memory.append(here.memory)
        spent = time.monotonic() - began
        left = here.descriptors
    waits = sorted(wait for other in others for wait in other.waits)
    figure(
        "hostile frames", frames=FRAMES, seed=start, seconds=spent, memory_mib=memory,
        files=[files, left], others_p99_ms=waits[len(waits) * 99 // 100] * 1000,
        others_most_ms=waits[-1] * 1000, others_calls=len(waits), told=dict(error_counts),
    )  # fmt: skip
    assert left == files, f"seed {start}"
    assert memory[1] < memory[0] + 16, f"seed {start}"
    assert error_counts["parameters"]
    assert error_counts[errors.BadFrame.wire]
    assert waits[len(waits) * 99 // 100] < at_most(0.25)


def check(answer: varlink.Message, start: int, error_counts: Counter[str]) -> None:
    """One of our errors, never a fault of the daemon, or a result."""
    assert set(answer) <= {"parameters", "error", "continues"}, f"seed {start}: {answer}"
    assert isinstance(answer["parameters"], dict)
    error = answer.get("error")
    assert error is None or error in DECLARED, f"seed {start}: {answer}"
    error_counts[str(error or "parameters")] += 1


def test_attack_36_partial_and_slow_frames_are_cut_off_in_time(tmp_path: Path) -> None:
    """A byte now and then does not extend the time that a frame has."""
    with serve_in_process(tmp_path, 1, patience=15) as here:
        files = here.descriptors
        drip, half, mute = (socket.socket(socket.AF_UNIX) for _ in range(3))
        for peer in (drip, half, mute):
            peer.connect(str(here.path(0)))
            peer.settimeout(0.05)
        half.sendall(b'{"method":"')
        start, ended = time.monotonic(), set[socket.socket]()
        while len(ended) < 3:
            assert time.monotonic() - start < at_most(30)
            for peer in {drip, half, mute} - ended:
                with suppress(TimeoutError):
                    try:
                        if peer is drip:
                            peer.send(b" ")
                        if peer.recv(10) == b"":
                            ended.add(peer)
                    except ConnectionError:
                        ended.add(peer)
        for peer in (drip, half, mute):
            peer.close()
        with varlink.Client(str(here.path(0))) as client:
            client.call("org.hive.Broker.Whoami")
            assert here.descriptors == files + 1
