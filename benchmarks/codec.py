"""The Varlink codec, with all that it refuses, against plain json, which refuses nothing."""

import json
import time
from collections.abc import Callable

from hive_core.varlink import decode, encode

MESSAGE: dict[str, object] = {
    "method": "org.hive.Broker.Send",
    "parameters": {"to": "alice", "body": "How is the build? " * 20, "priority": 2},
}
ROUNDS = 5
CALLS = 20_000


def run() -> list[dict[str, object]]:
    frame = encode(MESSAGE)[:-1]
    return [
        _row("encode", lambda: encode(MESSAGE), lambda: json.dumps(MESSAGE).encode() + b"\0"),
        _row("decode", lambda: decode(frame), lambda: json.loads(frame.decode())),
    ]


def _row(name: str, ours: Callable[[], object], theirs: Callable[[], object]) -> dict[str, object]:
    value, peer = _rate(ours), _rate(theirs)
    return {
        "name": f"{name} a send",
        "value": value,
        "unit": "messages/s",
        "peer": "json",
        "peer_value": peer,
        "ratio": value / peer,
    }


def _rate(call: Callable[[], object]) -> float:
    """The best of some rounds: what disturbs a round can only slow it."""
    return CALLS / min(_seconds(call) for _ in range(ROUNDS))


def _seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    for _ in range(CALLS):
        call()
    return time.perf_counter() - start
