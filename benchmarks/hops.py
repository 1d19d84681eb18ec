"""What a request costs: Python calls, frames down to the handler, processor time.

A batch of durable sends and one move, in one process, over the real broker, ledger and git. Counts
do not depend on the machine, so a test keeps them (`tests/broker/test_hops.py`).
"""

import cProfile
import gc
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import NamedTuple

from fixtures.world import World, world

from benchmarks.report.rows import Row, with_aim
from hive_core import varlink
from hive_core.broker.connection import ClientConnection
from hive_core.broker.operation import REGISTRY
from hive_core.host.systemd.watchdog import freeze_heap
from hive_core.model.config.settings import HostLimits, Settings

SEND = "a durable send in a batch of 100"
# One send each, in one batch.
SENDERS = 100
ROUNDS = 30
# From one sum of the bytes of a sender in the ledger to the next.
COUNTED_BATCHES = 33
# Half of the 1,393 that it took when objects were read, and paths built, at each step anew.
MOVE_MOST = 696
# Seconds between two batches, so that what happens once a second is a part of the figure.
PAUSE = 0.01
BATCHES = 100
WIDE = HostLimits(inbox_count=10**7, inbox_bytes=10**12, send_burst=10**7, change_burst=10**7)


def run() -> list[Row]:
    with crowd() as hive:
        counts = count_rows(hive)
        seconds = seconds_of_send(hive)
    spent: Row = {"name": f"{SEND}, processor time", "value": seconds * 1e6, "unit": "us"}
    return [*counts, with_aim(spent, "at most 25 us", at_most=25)]


def count_rows(hive: World) -> list[Row]:
    """What does not depend on the machine."""
    sends = calls_of_sends(hive)
    calls: Row = {"name": f"{SEND}, Python calls", "value": sends.python, "unit": "calls"}
    both: Row = {
        "name": f"{SEND}, Python and built-in calls", "value": sends.all, "unit": "calls",
    }  # fmt: skip
    frames: Row = {
        "name": f"{SEND}, frames down to the handler", "value": frames_to_handler(hive),
        "unit": "frames",
    }  # fmt: skip
    moves: Row = {
        "name": "a move, Python calls", "value": python_calls_of_move(hive), "unit": "calls",
    }  # fmt: skip
    return [
        calls,
        with_aim(both, "at most 120", at_most=120),
        with_aim(frames, "at most 5", at_most=5),
        with_aim(moves, f"at most {MOVE_MOST}", at_most=MOVE_MOST),
    ]


@contextmanager
def crowd() -> Iterator[World]:
    """A lead with a hundred children, and two more between which one can be moved."""
    children = [f"lead/c{number}" for number in range(SENDERS)]
    with world(Settings(limits=WIDE), "root/lead", "root/left", "root/right", "left/team") as hive:
        hive.grow(*children)
        _send_all(hive, _open_connections(hive))
        # As hived does once it has started: its own objects are not looked through for garbage.
        thresholds = gc.get_threshold()
        gc.collect()
        freeze_heap()
        try:
            yield hive
        finally:
            gc.unfreeze()
            gc.set_threshold(*thresholds)


class SendCalls(NamedTuple):
    """Calls for one send of a batch, the batch's own calls divided by all.

    `python` and `all`, with built-in functions and methods, are averages of many batches: in some
    of them all senders are due for what each does seldom, such as the sum of its bytes in the
    ledger. `most` is `all` in the batch that takes most.
    """

    python: float
    all: float
    most: float


def calls_of_sends(hive: World) -> SendCalls:
    """Count the calls of each batch with cProfile."""
    connections, python, both = _open_connections(hive), list[int](), list[int]()
    for _ in range(COUNTED_BATCHES):
        profile = cProfile.Profile()
        profile.runcall(_send_all, hive, connections)
        entries = profile.getstats()
        both.append(sum(entry.callcount for entry in entries))
        python.append(sum(entry.callcount for entry in entries if isinstance(entry.code, CodeType)))
    sends = SENDERS * COUNTED_BATCHES
    return SendCalls(sum(python) / sends, sum(both) / sends, max(both) / SENDERS)


def python_calls_of_move(hive: World) -> float:
    """The same for a move, with the work tree of its commit; without what follows on the host.

    The third move is counted: what the first one builds once is there, and its commit has a tree
    that no commit before it had, as that of nearly every change.
    """
    for parent in ("right", "left"):
        _move(hive, parent)
    with counted_calls() as calls:
        _move(hive, "lead")
    return calls.total()


def frames_to_handler(hive: World) -> int:
    """Frames from the one that serves a batch down to the handler of a send."""
    depths: list[int] = []
    code = REGISTRY["send"].handler.__code__

    def watch(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call" and frame.f_code is code:
            depths.append(_depth_below(frame, "serve_batch"))

    sys.setprofile(watch)
    try:
        _send_all(hive, _open_connections(hive))
    finally:
        sys.setprofile(None)
    return max(depths)


def seconds_of_send(hive: World) -> float:
    """Processor time of one send, from its frame to its reply, with what a second of sends costs.

    The best of some rounds: whatever else the machine does can only slow a round.
    """
    connections, best = _open_connections(hive), float("inf")
    for _ in range(ROUNDS):
        began = time.process_time()
        for _ in range(BATCHES):
            hive.clock.advance(PAUSE)
            _send_all(hive, connections)
        best = min(best, time.process_time() - began)
    return best / SENDERS / BATCHES


@contextmanager
def counted_calls() -> Iterator[Counter[CodeType]]:
    """Counts calls of Python functions, as cProfile does without built-in ones."""
    calls = Counter[CodeType]()

    def count(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call":
            calls[frame.f_code] += 1

    sys.setprofile(count)
    try:
        yield calls
    finally:
        sys.setprofile(None)


def _open_connections(hive: World) -> list[ClientConnection]:
    """One of each child."""
    return [_connection(hive, f"c{number}") for number in range(SENDERS)]


def _send_all(hive: World, connections: list[ClientConnection]) -> None:
    """Each child sends a message to its parent; all of them in one batch."""
    frame = varlink.encode({
        "method": "org.hive.Broker.Send", "parameters": {"to": "lead", "body": "How is the build?"},
    })[:-1]  # fmt: skip
    for connection in connections:
        hive.broker.receive(connection, [frame])
    hive.broker.serve_batch()


def _move(hive: World, parent: str) -> None:
    """Move the team below another parent."""
    frame = varlink.encode({
        "method": "org.hive.Broker.Move", "parameters": {"agent": "team", "parent": parent},
    })[:-1]  # fmt: skip
    hive.broker.receive(_connection(hive, "operator"), [frame])
    hive.broker.serve_batch()


def _connection(hive: World, name: str) -> ClientConnection:
    return ClientConnection(hive.uuid(name), 0, _check_reply)


def _depth_below(frame: FrameType | None, name: str) -> int:
    """How many frames are below the one of this name."""
    depth = 0
    while frame is not None and frame.f_code.co_name != name:
        depth, frame = depth + 1, frame.f_back
    return depth


def _check_reply(data: bytes, _closing: bool) -> None:  # noqa: FBT001 - as the broker calls it
    assert b'"error"' not in data, data
