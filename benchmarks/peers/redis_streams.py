"""Redis streams with `appendfsync always`, with and without redis-py.

https://redis.io/docs/latest/commands/xadd, https://pypi.org/project/redis
"""

import asyncio
import selectors
import shutil
import socket
import subprocess
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, Final

from redis import Redis
from redis import asyncio as aioredis

from benchmarks.peers import BODY, ROUNDS, SECONDS, SENDERS

Client = Any  # what redis-py's own annotations say of its commands does not hold under --strict


def rate(way: str) -> float:
    """Messages a second, in one of the WAYS."""
    with _serving() as path:
        return max(WAYS[way](path) for _ in range(ROUNDS))


def _bare(path: Path) -> float:
    """The commands as bytes, driven as hive is."""
    lines = []
    with selectors.DefaultSelector() as ready:
        for number in range(SENDERS):
            line = socket.socket(socket.AF_UNIX)
            line.connect(str(path))
            lines.append(line)
            fields = ("from", f"a{number}", "body", BODY)
            command = _command("XADD", _box(number), "*", *fields)
            ready.register(line, selectors.EVENT_READ, (line, command))
            line.sendall(command)
        done, start = 0, time.perf_counter()
        while (spent := time.perf_counter() - start) < SECONDS:
            for key, _ in ready.select(1):
                line, command = key.data
                if line.recv(4096)[:1] != b"$":
                    raise RuntimeError("redis refuses")
                done += 1
                line.sendall(command)
    for line in lines:
        line.close()
    return done / spent


def _command(*words: str) -> bytes:
    """https://redis.io/docs/latest/develop/reference/protocol-spec"""
    parts = (b"$%d\r\n%s\r\n" % (len(word), word.encode()) for word in words)
    return b"*%d\r\n%s" % (len(words), b"".join(parts))


def _rate(way: Callable[[Path, float], Awaitable[int]], path: Path) -> float:
    async def measure() -> float:
        start = time.perf_counter()
        done = await way(path, start + SECONDS)
        return done / (time.perf_counter() - start)

    return asyncio.run(measure())


async def _connections(path: Path, until: float) -> int:
    async def sender(number: int) -> int:
        client: Client = aioredis.Redis(unix_socket_path=str(path))
        done = 0
        while time.perf_counter() < until:
            await client.xadd(_box(number), _letter(number))
            done += 1
        await client.aclose()
        return done

    return sum(await asyncio.gather(*map(sender, range(SENDERS))))


async def _pipeline(path: Path, until: float) -> int:
    client: Client = aioredis.Redis(unix_socket_path=str(path))
    done = 0
    while time.perf_counter() < until:
        pipe = client.pipeline(transaction=False)
        for number in range(SENDERS):
            pipe.xadd(_box(number), _letter(number))
        done += len(await pipe.execute())
    await client.aclose()
    return done


WAYS: Final[dict[str, Callable[[Path], float]]] = {
    "connections": partial(_rate, _connections),
    "pipeline": partial(_rate, _pipeline),
    "bare": _bare,
}


def _box(number: int) -> str:
    return f"a{(number + 1) % SENDERS}"


def _letter(number: int) -> dict[str, str]:
    return {"from": f"a{number}", "body": BODY}


@contextmanager
def _serving() -> Iterator[Path]:
    folder = Path(mkdtemp(dir="/var/tmp"))
    path = folder / "redis.sock"
    words = (
        f"port 0|unixsocket {path}|dir {folder}|appendonly yes|appendfsync always|save ''"
    ).split("|")
    (folder / "redis.conf").write_text("\n".join(words))
    server = subprocess.Popen(
        ["redis-server", str(folder / "redis.conf")], stdout=subprocess.DEVNULL
    )
    try:
        _wait(path)
        yield path
    finally:
        server.kill()
        server.wait()
        shutil.rmtree(folder)


def _wait(path: Path) -> None:
    for _ in range(200):
        try:
            with socket.socket(socket.AF_UNIX) as probe:
                probe.connect(str(path))
            with Redis(unix_socket_path=str(path)) as client:
                result: Client = client.config_get("appendfsync")
            if result != {"appendfsync": "always"}:
                raise RuntimeError(f"redis says {result}")
        except OSError:
            time.sleep(0.02)
        else:
            return
    raise RuntimeError("redis-server does not start")
