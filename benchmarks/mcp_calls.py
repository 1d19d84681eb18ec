"""A call over MCP beside the same call over Varlink, one after another, at the same broker.

`hive-agent mcp` reads and writes lines here without a client of the SDK, so the figures have the
server and its way to the broker. The start is the time until the answer to `initialize`.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from benchmarks.report.rows import Row
from benchmarks.services import ROOT, serving
from hive_core.varlink import Client

CALLS: Final = 500
_WARM: Final = 50
_HELLO: Final = {
    "protocolVersion": "2025-11-25", "capabilities": {},
    "clientInfo": {"name": "bench", "version": "1"},
}  # fmt: skip
_MAIN: Final = "from hive_core.agent.main import main; main()"


class McpLines:
    """The client's end of a server: one line a message."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._in, self._out = process.stdin, process.stdout
        self._pid = process.pid
        self._number = 0

    @property
    def memory(self) -> float:
        """Resident MiB."""
        status = Path(f"/proc/{self._pid}/status").read_text()
        return int(status.partition("VmRSS:")[2].split()[0]) / 1024

    def send(self, method: str, **more: object) -> None:
        self._in.write(json.dumps({"jsonrpc": "2.0", "method": method, **more}) + "\n")
        self._in.flush()

    def ask(self, method: str, **params: object) -> Any:  # noqa: ANN401 - JSON is anything
        self._number += 1
        self.send(method, id=self._number, params=params)
        return json.loads(self._out.readline())["result"]


def run() -> list[Row]:
    with serving("hive") as folder:
        path = str(folder / "a0.sock")
        with Client(path) as client:
            bare = latencies(lambda: client.call("org.hive.Broker.Whoami"))
        with mcp_server(path) as (lines, start):
            listed = lines.ask("tools/list")["tools"]
            call = lines.ask("tools/call", name="whoami", arguments={})
            assert not call["isError"]
            over = latencies(lambda: lines.ask("tools/call", name="whoami", arguments={}))
            memory = lines.memory
    rows: list[Row] = [
        {
            "name": f"whoami over MCP, {label}", "value": _at(over, share), "unit": "ms",
            "peer": "bare Varlink call", "peer_value": _at(bare, share),
        }
        for label, share in (("p50", 0.5), ("p99", 0.99))
    ]  # fmt: skip
    size = len(json.dumps(listed, separators=(",", ":"))) / 1024
    return [
        *rows,
        {"name": "start of hive-agent mcp", "value": start, "unit": "s"},
        {"name": "memory of hive-agent mcp after them", "value": memory, "unit": "MiB"},
        {"name": f"list of {len(listed)} tools", "value": size, "unit": "KiB"},
    ]  # fmt: skip


@contextmanager
def mcp_server(path: str) -> Iterator[tuple[McpLines, float]]:
    """A server for the agent behind this socket, and the seconds of its start."""
    environment = {
        "PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "HIVE_SOCKET": path,
        "HIVE_RUNTIME": "",
    }  # fmt: skip
    began = time.perf_counter()
    with subprocess.Popen(
        [sys.executable, "-c", _MAIN, "mcp"], env=environment, stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, text=True, cwd=Path("/"),
    ) as process:  # fmt: skip
        lines = McpLines(process)
        lines.ask("initialize", **_HELLO)
        start = time.perf_counter() - began
        lines.send("notifications/initialized")
        yield lines, start
        process.kill()


def latencies(call: Callable[[], object]) -> list[float]:
    """Milliseconds of calls, sorted."""
    for _ in range(_WARM):
        call()
    times = []
    for _ in range(CALLS):
        began = time.perf_counter()
        call()
        times.append(1000 * (time.perf_counter() - began))
    return sorted(times)


def _at(times: list[float], share: float) -> float:
    return times[int(share * (len(times) - 1))]
