"""The Varlink codec, with all that it refuses, against plain json, which refuses nothing."""

import json
from collections.abc import Callable

from benchmarks.report.rows import Row, rate
from hive_core.varlink import decode, encode

MESSAGE: dict[str, object] = {
    "method": "org.hive.Broker.Send",
    "parameters": {"to": "alice", "body": "How is the build? " * 20, "priority": 2},
}


def run() -> list[Row]:
    frame = encode(MESSAGE)[:-1]
    return [
        _row("encode", lambda: encode(MESSAGE), lambda: json.dumps(MESSAGE).encode() + b"\0"),
        _row("decode", lambda: decode(frame), lambda: json.loads(frame.decode())),
    ]


def _row(name: str, ours: Callable[[], object], theirs: Callable[[], object]) -> Row:
    value, peer = rate(ours), rate(theirs)
    return {
        "name": f"{name} a send",
        "value": value,
        "unit": "messages/s",
        "peer": "json",
        "peer_value": peer,
    }
