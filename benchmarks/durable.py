"""Durable sends from end to end beside other ways to keep a message: Redis, NATS, bare SQLite.

Everything is driven from Python, syncs to the same disk (/var/tmp) before it answers, and sends the
same text. A hundred senders each have one message under way, the lone one too. Redis is there in
three ways: as a program with a hundred senders would use it (a connection for each); with all
senders in step, so that one pipeline holds what all of them send; and without redis-py, by the
same few lines that drive hive, which shows how much of the first is the library.
"""

from functools import partial

from benchmarks.calls import SENDER, SENDERS, best, rate
from benchmarks.peers import bare
from benchmarks.report.rows import Row, beside, with_aim
from benchmarks.services import serving

ROUNDS = 3


def run() -> list[Row]:
    with serving("hive") as hive, bare.serving() as sqlite:
        alone = [(rate(hive, SENDER), rate(sqlite, SENDER)) for _ in range(ROUNDS)]
        many = best(hive, SENDERS)
    mine, theirs = (max(values) for values in zip(*alone, strict=True))
    lone: Row = {"name": "durable send, one sender", "value": mine, "unit": "sends/s"}
    crowd: Row = {"name": "durable send, 100 senders", "value": many, "unit": "sends/s"}
    return [
        with_aim(
            {**crowd, **beside("Redis streams, redis-py", partial(_redis, "connections"))},
            "at least twice Redis", ratio_at_least=2,
        ),
        {**crowd, **beside("Redis streams, one pipeline for all", partial(_redis, "pipeline"))},
        {**crowd, **beside("Redis streams, no client library", partial(_redis, "bare"))},
        with_aim(
            {**crowd, **beside("NATS JetStream, nats-py", _jetstream)},
            "at least ten times JetStream", ratio_at_least=10,
        ),
        with_aim(
            {**lone, "peer": "bare SQLite behind a blocking socket", "peer_value": theirs},
            "at least 85 % of it", ratio_at_least=0.85,
        ),
    ]  # fmt: skip


def _redis(way: str) -> float:
    from benchmarks.peers import redis_streams  # noqa: PLC0415 - may not be installed

    return redis_streams.rate(way)


def _jetstream() -> float:
    from benchmarks.peers import jetstream  # noqa: PLC0415 - may not be installed

    return jetstream.rate()
