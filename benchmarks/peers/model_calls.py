"""A provider of models and what stands before it, each in a process of its own, and their clients.

The provider answers at once, so what is measured is the way to it. Beside hive-model stand a bare
hop over httpx2, and the proxy of LiteLLM if `litellm` is on PATH (from an environment of its own,
`litellm[proxy]`). https://docs.litellm.ai/docs/simple_proxy
"""

import asyncio
import json
import multiprocessing
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp
from typing import Final

import httpx2
from fixtures.world import world
from typing_extensions import override

from benchmarks.peers.model_accounts import AGENT, serve_accounts
from hive_core.model.config.models import parse_models
from hive_core.model.config.settings import Paths, Settings

KEY: Final = "sk-bench-0f3b1c5d7e9a2b4c6d8e"
PATH: Final = "/v1/chat/completions"
AT_ONCE: Final = 16
SECONDS: Final = 4.0
CALLS: Final = 1000
WARM: Final = 50
_WAIT: Final = 60.0
_POLL: Final = 0.02
_KEY: Final = "sk-bench-0123456789"
REQUEST: Final = json.dumps({
    "model": "m", "messages": [{"role": "user", "content": "word " * 400}], "max_tokens": 100,
}).encode()  # fmt: skip
ANSWER: Final = json.dumps({
    "id": "x", "object": "chat.completion", "created": 1, "model": "m",
    "choices": [{"index": 0, "finish_reason": "stop",
                 "message": {"role": "assistant", "content": "word " * 40}}],
    "usage": {"prompt_tokens": 400, "completion_tokens": 40, "total_tokens": 440},
}).encode()  # fmt: skip
_REPLY: Final = (
    b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(ANSWER)
) + ANSWER
_MODELS: Final = """
[providers.p]
base_url = "http://127.0.0.1:{port}/v1"
key = "p"
[models.m]
provider = "p"
name = "gpt-bench"
price_in = 1.0
price_out = 2.0
[limits]
concurrent = 1000
concurrent_all = 10000
calls_a_minute = 100000
"""
_LITELLM: Final = """
model_list:
  - model_name: m
    litellm_params: {{model: openai/gpt-bench, api_base: "http://127.0.0.1:{port}/v1", api_key: x}}
"""


@dataclass
class ModelWay:
    """A way to the provider: a TCP port, or a Unix socket. `pid` is what stands between."""

    port: int = 0
    socket: str = ""
    pid: int = 0
    start: float = 0.0

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self.socket:
            return await asyncio.open_unix_connection(self.socket)
        return await asyncio.open_connection("127.0.0.1", self.port)

    def client(self) -> httpx2.AsyncClient:
        transport = httpx2.AsyncHTTPTransport(uds=self.socket or None)
        url = "http://hive" if self.socket else f"http://127.0.0.1:{self.port}"
        headers = {"authorization": f"Bearer {KEY}", "content-type": "application/json"}
        return httpx2.AsyncClient(transport=transport, base_url=url, headers=headers, timeout=60)

    @property
    def memory(self) -> float:
        """MiB that it and its children hold now."""
        return sum(_resident(pid) for pid in _family(self.pid))


class Provider(asyncio.Protocol):
    """Reads a request to its end, and answers with the same bytes each time."""

    transport: asyncio.Transport
    _data = b""

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    @override
    def data_received(self, data: bytes) -> None:
        self._data += data
        head, end, body = self._data.partition(b"\r\n\r\n")
        if not end:
            return
        size = _content_length(head)
        if len(body) >= size:
            self._data = body[size:]
            self.transport.write(_REPLY)


@contextmanager
def provider() -> Iterator[tuple[ModelWay, Path]]:
    """The provider, and the broker of hived with its ledger in memory, in another process."""
    folder = Path(mkdtemp(prefix="hb-"))
    process = multiprocessing.get_context("fork").Process(target=_serve_provider, args=(folder,))
    process.start()
    try:
        _wait_for(folder / "port")
        yield ModelWay(port=int((folder / "port").read_text())), folder
    finally:
        process.terminate()
        process.join(_WAIT)
        shutil.rmtree(folder)


def _serve_provider(folder: Path) -> None:
    (folder / "keys").mkdir()
    (folder / "keys" / "p").write_text(_KEY)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        text = _MODELS.format(port=port)
        (folder / "models").write_text(text)
        with world(Settings(), f"root/{AGENT}", models=parse_models(text)) as made:

            async def serve() -> None:
                ended = asyncio.Event()
                loop = asyncio.get_running_loop()
                loop.add_signal_handler(signal.SIGTERM, ended.set)
                server = await loop.create_server(Provider, sock=listening)
                async with serve_accounts(made, folder):
                    spare = folder / "spare"
                    spare.write_text(str(port))
                    spare.rename(folder / "port")
                    await ended.wait()
                server.close()

            asyncio.run(serve())


def hive_model(_direct: ModelWay, folder: Path) -> AbstractContextManager[ModelWay]:
    return _start_hive_model("hive_core.proxy.main", folder)


def hive_model_without_accounts(
    _direct: ModelWay, folder: Path
) -> AbstractContextManager[ModelWay]:
    """The same, but that a call costs nothing and is recorded nowhere."""
    return _start_hive_model("benchmarks.peers.model_without_accounts", folder)


@contextmanager
def _start_hive_model(program: str, folder: Path) -> Iterator[ModelWay]:
    paths = Paths(runtime=folder)
    names = {"models": folder / "models", "keys": folder / "keys",
             "control": paths.model_control_socket, "hand": paths.hand_model_socket,
             "operator": folder / "operator.sock", "small": folder / "small.sock",
             "journal": folder / "unsettled"}  # fmt: skip
    options = [part for name, file in names.items() for part in (f"--{name}", str(file))]
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(folder / "notify"))
        manager.settimeout(_WAIT)
        began = time.perf_counter()
        with _process(
            [sys.executable, "-m", program, *options],
            {"NOTIFY_SOCKET": str(folder / "notify"), "PYTHONPATH": os.pathsep.join(sys.path)},
        ) as process:
            assert manager.recv(1000).startswith(b"READY=1")
            start = time.perf_counter() - began
            way = ModelWay(socket=str(folder / "model.sock"), pid=process.pid, start=start)
            asyncio.run(_until_it_answers(way))
            yield way
    (folder / "notify").unlink()


@contextmanager
def bare_hop(direct: ModelWay, folder: Path) -> Iterator[ModelWay]:
    """The least that passes calls on, with the libraries of hive-model."""
    path = str(folder / "hop.sock")
    words = [sys.executable, "-m", "benchmarks.peers.bare_hop", path, str(direct.port)]
    began = time.perf_counter()
    with _process(words, {"PYTHONPATH": os.pathsep.join(sys.path)}) as process:
        way = ModelWay(socket=path, pid=process.pid)
        asyncio.run(_until_it_answers(way))
        way.start = time.perf_counter() - began
        yield way


@contextmanager
def litellm(direct: ModelWay, folder: Path) -> Iterator[ModelWay]:
    program = shutil.which("litellm")
    if program is None:
        raise FileNotFoundError("litellm is not installed")
    config = folder / "litellm.yaml"
    config.write_text(_LITELLM.format(port=direct.port))
    port = _free_port()
    began = time.perf_counter()
    # It does not start without a key of its own, and by default fetches its prices.
    more = {"LITELLM_MASTER_KEY": KEY, "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    with _process([program, "--config", str(config), "--port", str(port)], more) as process:
        way = ModelWay(port=port, pid=process.pid)
        asyncio.run(_until_it_answers(way))
        way.start = time.perf_counter() - began
        yield way


@contextmanager
def _process(words: list[str], more: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        words, env={**os.environ, **more}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        start_new_session=True,
    )  # fmt: skip
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        process.wait(_WAIT)


async def latencies(ways: list[ModelWay]) -> list[list[float]]:
    """Seconds of each call, one after another, the ways in turn; sorted for each way."""
    clients = [way.client() for way in ways]
    times: list[list[float]] = [[] for _ in ways]
    for number in range(WARM + CALLS):
        for client, seconds in zip(clients, times, strict=True):
            began = time.perf_counter()
            response = await client.post(PATH, content=REQUEST)
            assert response.status_code == 200, response.text
            if number >= WARM:
                seconds.append(time.perf_counter() - began)
    for client in clients:
        await client.aclose()
    return [sorted(seconds) for seconds in times]


async def rate(way: ModelWay) -> float:
    """Calls in a second over some connections at once."""
    until = time.perf_counter() + SECONDS
    counts = await asyncio.gather(*(_call_until(way, until) for _ in range(AT_ONCE)))
    return sum(counts) / SECONDS


async def _call_until(way: ModelWay, until: float) -> int:
    reader, writer = await way.connect()
    head = (
        f"POST {PATH} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {KEY}\r\n"
        f"content-type: application/json\r\ncontent-length: {len(REQUEST)}\r\n\r\n"
    ).encode()
    count = 0
    while time.perf_counter() < until:
        writer.write(head + REQUEST)
        answer = await reader.readuntil(b"\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 200"), answer
        await reader.readexactly(_content_length(answer))
        count += 1
    writer.close()
    return count


def _content_length(head: bytes) -> int:
    lines = head.lower().split(b"\r\n")
    return next((int(line[15:]) for line in lines if line[:15] == b"content-length:"), 0)


async def _until_it_answers(way: ModelWay) -> None:
    async with asyncio.timeout(_WAIT), way.client() as client:
        while True:
            with suppress(httpx2.TransportError):
                if (await client.post(PATH, content=REQUEST)).status_code == 200:
                    return
            await asyncio.sleep(_POLL)


def _free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port: int = listening.getsockname()[1]
        return port


def _wait_for(path: Path) -> None:
    until = time.perf_counter() + _WAIT
    while not path.exists():
        assert time.perf_counter() < until, f"{path} did not appear"
        time.sleep(_POLL)


def _family(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(below for child in children for below in _family(int(child)))]


def _resident(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS:"))
