"""Hostile frames, each made from a number: the same seed makes the same frames."""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random

from hive_core import varlink
from hive_core.errors import HIVE
from hive_core.operations import load

REGISTRY = load()
METHODS = [HIVE + operation.method for operation in REGISTRY.values()]
FIELDS = sorted({name for operation in REGISTRY.values() for name in operation.params.model_fields})
WHOAMI = HIVE + "Whoami"
ODD: list[object] = [
    None, True, 0, -1, 1 << 62, 0.5, 1e308, "", "a1", "operator", "root", "-", "..", "/etc", "\n",
    "\x1b[2J", "\u202e", "x" * 70, "x" * 70_000, [], ["a1"], [[[]]], {}, {"a": {"b": []}},
]  # fmt: skip
# What JSON does not have, or has in a way that we do not take.
RAW = [
    "NaN", "Infinity", "-Infinity", "1e999", "-1e999", "9" * 5000, "01", "+1", "1.", ".5", "0x10",
    "'a'", '"\\ud800"', '"\\udfff\\ud800"', '"\\x41"', '"\t"', "tru", "[1,]", "{,}", "\ufeff1",
    "/**/1", "1 2", "[" * 40 + "]" * 40, '{"a":' * 40 + "1" + "}" * 40, '"' + "[" * 400 + '"',
    '{"a":1,"a":1}', '{"a":{"b":1,"b":2}}', '[{"to":1,"to":1}]', "1" + " " * 3000,
]  # fmt: skip


def nearly_valid(random: Random) -> bytes:
    """A call that exists, with parameters that do, of types and values that need not fit."""
    result = REGISTRY[random.choice(sorted(REGISTRY))]
    names = sorted(result.params.model_fields) or FIELDS
    chosen = random.sample(names, random.randint(0, min(4, len(names))))
    message: dict[str, object] = {
        "method": HIVE + result.method, "parameters": {name: random.choice(ODD) for name in chosen},
    }  # fmt: skip
    if random.random() < 0.2:
        message[random.choice(["oneway", "more", "upgrade", "x"])] = random.choice(ODD)
    return json.dumps(message).encode()


def unknown(random: Random) -> bytes:
    """Parameters, methods and interfaces that do not exist."""
    name = random.choice(["x", "", "idempotency-key", "TO", "__class__", "to\u0000", "é" * 100])
    method = random.choice([
        random.choice(METHODS), HIVE + "Nothing", "org.example.Any", "", ".", "a" * 5000,
        "org.varlink.service.GetInterfaceDescription", "org.varlink.service.GetInfo",
    ])  # fmt: skip
    return json.dumps({"method": method, "parameters": {name: random.choice(ODD)}}).encode()


def raw(random: Random) -> bytes:
    """Text that JSON refuses, or that our rules do, as a whole frame or as a parameter."""
    text = random.choice(RAW)
    if random.random() < 0.3:
        return text.encode("utf-8", "surrogatepass")
    name = random.choice(FIELDS)
    whole = f'{{"method":"{random.choice(METHODS)}","parameters":{{"{name}":{text}}}}}'
    return whole.encode("utf-8", "surrogatepass")


def duplicate_keys(random: Random) -> bytes:
    """A key that comes twice: the value that is judged must be the value that is used."""
    method = random.choice(METHODS)
    return random.choice([
        f'{{"method":"{WHOAMI}","method":"{method}"}}',
        f'{{"method":"{WHOAMI}","parameters":{{}},"parameters":{{"agent":"root"}}}}',
        f'{{"method":"{method}","parameters":{{"agent":"a1","agent":"root"}}}}',
        f'{{"method":"{method}","parameters":{{"agent":"a1","\\u0061gent":"root"}}}}',
    ]).encode()  # fmt: skip


def bytes_(random: Random) -> bytes:
    """Anything at all."""
    return random.randbytes(random.randint(0, 200)).replace(b"\0", b"")


def damaged_frame(random: Random) -> bytes:
    """A good call with a few bytes of it changed, lost or said twice."""
    data = bytearray(nearly_valid(random))
    for _ in range(random.randint(1, 4)):
        at = random.randrange(len(data))
        data[at : at + random.randint(0, 3)] = random.choice(
            [b"", b"\xff", b'"', b"{", b"}", b"\\", b",", bytes(data[:at][-9:])]
        )
    return bytes(data).replace(b"\0", b"")


def large(random: Random) -> bytes:
    """At the limit of a frame and beyond, in one string, in many keys or in many brackets."""
    size = varlink.FRAME_LIMIT + random.choice([-200, 0, 1, 5000])
    return random.choice([
        b'{"method":"' + b"x" * size + b'"}',
        b"[" * size,
        b'{"method":"' + WHOAMI.encode() + b'","parameters":{' + b'"a":1,' * (size // 6) + b"}}",
        b'{"method":"' + WHOAMI.encode() + b'","parameters":{"a":[' + b"{}," * (size // 3) + b"]}}",
        b'{"method":"' + b"\\u0061" * (size // 6) + b'"}',
    ])  # fmt: skip


KINDS: list[tuple[Callable[[Random], bytes], int]] = [
    (nearly_valid, 40), (unknown, 12), (raw, 16), (duplicate_keys, 8), (bytes_, 8),
    (damaged_frame, 15), (large, 1),
]  # fmt: skip


def frame(random: Random) -> bytes:
    kinds, weights = zip(*KINDS, strict=True)
    (kind,) = random.choices(kinds, weights)
    result: bytes = kind(random)
    return result
