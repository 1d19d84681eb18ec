"""What the dashboard and `hive top` cost while a thousand agents send each other mail.

hived (broker, ledger, sockets, all durable on /var/tmp), hive-web, the agents, a lone sender and
`hive top` are processes of their own; this one holds 200 event streams, as 50 browsers with four
pages each would, and decodes five of them. Each second 1,000 rows of the tree change; each
five an agent is made, and the tabs that show the tree load its rows. hived is
measured first without anybody who watches, with the same mail. Beside hive-web stands a bare
asyncio server that writes as many bytes to as many streams, with no login and nothing to render.
"""

import compileall
import os
import pty
import resource
import select
import selectors
import signal
import socket
import struct
import subprocess
import sys
import termios
import time
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from fcntl import ioctl
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory

from fuzz.served import HiveProcess, serve_in_process

from benchmarks.report.rows import Row, with_aim
from benchmarks.services import ROOT
from benchmarks.services.dashboard import Dashboard, serving_dashboard

AGENTS, LARGE, RATE = 1_000, 10_000, 1_000
STREAMS, STREAMS_OF_LOGIN, DECODED = 200, 4, 5
SECONDS, BEFORE, SETTLE = 30.0, 10.0, 3.0
LONE_EVERY = 0.25
SPAWN_EVERY = 4.0  # seconds from the rows of one new agent to the next
FIRST_AGENT = "00000001-0000-0000-0000-000000000000"  # as fuzz.served makes agent 0
_TICKS = os.sysconf("SC_CLK_TCK")


def run() -> list[Row]:
    with TemporaryDirectory(dir="/var/tmp") as name, ExitStack() as stack:
        hived = stack.enter_context(serve_in_process(Path(name), AGENTS))
        pages = list(_pages(hived, AGENTS, 60_000, 500))
        rows = [*_streams(hived), *_top(hived)]
    with TemporaryDirectory(dir="/var/tmp") as name, ExitStack() as stack:
        hived = stack.enter_context(serve_in_process(Path(name), LARGE))
        pages += _pages(hived, LARGE, None, 1000)
    return [*rows, *pages]


# The first page


def _pages(hived: HiveProcess, agents: int, most_bytes: int | None, most_ms: int) -> Iterator[Row]:
    """The tree as it is first shown, to a browser that has just logged in."""
    with serving_dashboard(hived.folder) as web:
        cookie = web.log_in(0)
        body, first = web.page("/tree", cookie)
        again = median(web.page("/tree", cookie)[1] for _ in range(5))
    size: Row = {"name": f"first page, {agents:,} agents", "value": len(body), "unit": "bytes"}
    yield with_aim(size, "< 60 kB", at_most=most_bytes) if most_bytes else size
    slow: Row = {"name": f"first page, {agents:,} agents", "value": first * 1e3, "unit": "ms"}
    yield with_aim(slow, f"< {most_ms} ms", at_most=most_ms)
    yield {"name": f"the same page again, {agents:,} agents", "value": again * 1e3, "unit": "ms"}


# Streams


@dataclass(frozen=True)
class LoadFigures:
    """What was measured under load: shares of a core, MiB, and bytes of a stream in a second."""

    hived: float
    web: float
    memory: float
    size: float
    sends: list[tuple[float, float]]


@dataclass
class StreamReader:
    """One event stream. `unpack`: it is decoded, and tells when agent 0's row came."""

    connection: socket.socket
    unpack: "zlib._Decompress | None"
    size: int = 0
    text: bytes = b""
    raw: bytes = b""
    has_head: bool = False
    came: list[float] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)  # of its frames
    gaps: int = 0  # one is at its begin, as it resumes after nothing

    def read(self) -> None:
        data = self.connection.recv(1 << 20)
        if not data:
            raise RuntimeError("hive-web ended a stream")
        self.size += len(data)
        if self.unpack is not None:
            self._take(data)

    def _take(self, data: bytes) -> None:
        now = time.monotonic()
        self.raw += data
        if not self.has_head:
            _, end, rest = self.raw.partition(b"\r\n\r\n")
            if not end:
                return
            self.raw, self.has_head = rest, True
        while (chunk := self._chunk()) is not None:
            assert self.unpack is not None
            self.text += self.unpack.decompress(chunk)
        while b"\n\n" in self.text:
            event, _, self.text = self.text.partition(b"\n\n")
            self.gaps += event.startswith(b"event: gap")
            if b"\nid: " in event:
                number = event.partition(b"\nid: ")[2].partition(b"\n")[0]
                self.numbers.append(int(number.rpartition(b"-")[2]))
            if FIRST_AGENT.encode() in event and b"event: tree" in event:
                self.came.append(now)

    def _chunk(self) -> bytes | None:
        length, end, rest = self.raw.partition(b"\r\n")
        if not end or len(rest) < (size := int(length, 16)) + 2:
            return None
        self.raw = rest[size + 2 :]
        return rest[:size]


def _streams(hived: HiveProcess) -> list[Row]:
    with _load("chatter", hived.folder, AGENTS, RATE):
        alone, quiet = _measure_alone(hived)
        with serving_dashboard(hived.folder) as web, ExitStack() as stack:
            cookies = [web.log_in(number) for number in range(STREAMS // STREAMS_OF_LOGIN)]
            streams = list(_open_streams(web, cookies, stack))
            with _load("tabs", hived.folder, web.port, SPAWN_EVERY) as tabs:
                _write_line(tabs, "\t".join(cookies))
                rows = _loaded_rows(hived, web, streams, alone, quiet)
                made, loaded = map(int, tabs.communicate()[0].split())
            _check_frames(streams)
            return [
                *rows, {"name": "agents made meanwhile", "value": made, "unit": "agents"},
                {"name": "rows of the tree loaded by tabs", "value": loaded, "unit": "times"},
            ]  # fmt: skip


def _measure_alone(hived: HiveProcess) -> tuple[float, float]:
    """The lone send in milliseconds, and hived's share of a core, without a watcher."""
    with _load("lone_sender", hived.folder, LONE_EVERY) as lone:
        time.sleep(SETTLE)
        start, since = _cpu_seconds(hived.pid), time.monotonic()
        time.sleep(BEFORE)
        share = (_cpu_seconds(hived.pid) - start) / (time.monotonic() - since)
        return median(_latencies(_end(lone))), share


def _write_line(process: "subprocess.Popen[bytes]", text: str) -> None:
    assert process.stdin is not None
    process.stdin.write(f"{text}\n".encode())
    process.stdin.flush()


def _check_frames(streams: list[StreamReader]) -> None:
    """RuntimeError: a stream lacks a frame that another one has, has one twice, or had a gap."""
    sequences = [stream.numbers for stream in streams if stream.unpack is not None]
    start = max(numbers[0] for numbers in sequences)
    until = min(numbers[-1] for numbers in sequences)
    seen = [[number for number in numbers if start <= number <= until] for numbers in sequences]
    if any(numbers != seen[0] for numbers in seen) or any(stream.gaps > 1 for stream in streams):
        raise RuntimeError("a frame is lost, or came twice")


def _open_streams(web: Dashboard, cookies: list[str], stack: ExitStack) -> Iterator[StreamReader]:
    for number, cookie in enumerate(cookies):
        for _ in range(STREAMS_OF_LOGIN):
            connection = stack.enter_context(web.connect(number))
            path = "/live?topics=tree,attention,audit"
            connection.sendall(web.request("GET", path, cookie=cookie))
            is_decoded = number * STREAMS_OF_LOGIN < DECODED
            yield StreamReader(connection, zlib.decompressobj(31) if is_decoded else None)


def _loaded_rows(
    hived: HiveProcess, web: Dashboard, streams: list[StreamReader], alone: float, quiet: float
) -> list[Row]:
    load = _measure_load(hived, web, streams)
    bare = _bare_share(load.size)
    cuts = quantiles(sorted(_delays(load.sends, streams)), n=100)
    added: Row = {
        "name": f"hived's further share, {STREAMS} streams", "value": (load.hived - quiet) * 100,
        "unit": "% of a core",
    }  # fmt: skip
    lone_row: Row = {
        "name": f"a lone durable send beside {STREAMS} streams", "unit": "ms",
        "value": median(_latencies(load.sends)), "peer": "the same without a stream",
        "peer_value": alone,
    }  # fmt: skip
    share: Row = {
        "name": f"hive-web, {STREAMS} streams, {RATE:,} rows/s", "value": load.web * 100,
        "unit": "% of a core", "peer": "bare asyncio, the same bytes", "peer_value": bare * 100,
    }  # fmt: skip
    return [
        with_aim(share, "< 15 %", at_most=15),
        with_aim({"name": "hive-web's memory then", "value": load.memory, "unit": "MiB"},
                 "< 64 MiB", at_most=64),
        with_aim(added, "< 5 %", at_most=5),
        {"name": "hived's share without one who watches", "value": quiet * 100,
         "unit": "% of a core"},
        with_aim(lone_row, "< 1.1 times", ratio_at_most=1.1),
        {"name": "event to screen, p50", "value": cuts[49] * 1e3, "unit": "ms"},
        with_aim({"name": "event to screen, p99", "value": cuts[98] * 1e3, "unit": "ms"},
                 "< 200 ms", at_most=200),
        {"name": "bytes of a stream", "value": load.size / 1e3, "unit": "kB/s"},
    ]  # fmt: skip


def _measure_load(hived: HiveProcess, web: Dashboard, streams: list[StreamReader]) -> LoadFigures:
    """What the daemons take while all streams are read and a lone sender sends."""
    with _load("lone_sender", hived.folder, LONE_EVERY) as lone:
        _read_for(streams, SETTLE)
        for stream in streams:
            stream.size = 0
        pids = (hived.pid, web.pid)
        start, since = [_cpu_seconds(pid) for pid in pids], time.monotonic()
        _read_for(streams, SECONDS)
        spent = time.monotonic() - since
        shares = [
            (_cpu_seconds(pid) - before) / spent for pid, before in zip(pids, start, strict=True)
        ]
        memory = _mebibytes(web.pid)
        sends = _end(lone)
    size = sum(stream.size for stream in streams) / len(streams) / spent
    return LoadFigures(shares[0], shares[1], memory, size, sends)


def _read_for(streams: list[StreamReader], seconds: float) -> None:
    until = time.monotonic() + seconds
    with selectors.DefaultSelector() as selector:
        for stream in streams:
            selector.register(stream.connection, selectors.EVENT_READ, stream)
        while (left := until - time.monotonic()) > 0:
            for key, _ in selector.select(left):
                key.data.read()


def _delays(sends: list[tuple[float, float]], streams: list[StreamReader]) -> Iterator[float]:
    """From each lone send to the row that shows it, in each stream that is decoded."""
    for stream in streams[:DECODED]:
        for sent, _ in sends:
            came = next((at for at in stream.came if at >= sent), None)
            if came is not None:
                yield came - sent


def _bare_share(size: float) -> float:
    """The share of a core of a bare server that writes so many bytes a second to each stream."""
    argv = [sys.executable, "-m", "benchmarks.peers.sse", str(round(size * 0.1)), "0.1"]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, env=_environment())
    try:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        with ExitStack() as stack:
            streams = []
            for _ in range(STREAMS):
                connection = socket.create_connection(("127.0.0.1", port), 30)
                stack.enter_context(connection).sendall(b"GET / HTTP/1.1\r\n\r\n")
                streams.append(StreamReader(connection, None))
            _read_for(streams, 1.0)
            start, since = _cpu_seconds(process.pid), time.monotonic()
            _read_for(streams, BEFORE)
            return (_cpu_seconds(process.pid) - start) / (time.monotonic() - since)
    finally:
        process.kill()
        process.communicate()


# hive top


def _top(hived: HiveProcess) -> list[Row]:
    """Its first screen from the start of the program, and its share while 1,000 rows/s change."""
    compileall.compile_dir(ROOT / "hive_core", quiet=1)  # as an installation has its modules
    idle = _watch_top(hived)
    with _load("chatter", hived.folder, AGENTS, RATE):
        first, share = _watch_top(hived)
    return [
        with_aim({"name": f"hive top, first screen of {AGENTS:,} agents", "value": idle[0] * 1e3,
                  "unit": "ms"}, "< 50 ms", at_most=50),
        {"name": f"hive top, first screen, {RATE:,} rows/s", "value": first * 1e3, "unit": "ms"},
        {"name": f"hive top, {RATE:,} rows/s", "value": share * 100, "unit": "% of a core"},
        with_aim({"name": "hive top, nothing changes", "value": idle[1] * 100,
                  "unit": "% of a core"}, "< 1 %", at_most=1),
    ]  # fmt: skip


def _watch_top(hived: HiveProcess) -> tuple[float, float]:
    """Seconds until its first screen, and then its share of a core."""
    start = time.monotonic()
    process, terminal = pty.fork()
    if process == 0:
        os.environ["PYTHONPATH"] = str(ROOT)
        operator = str(hived.folder / "operator.sock")
        words = ["-c", "from hive_core.cli.start import main; main()", "--socket", operator, "top"]
        os.execv(sys.executable, [sys.executable, *words])  # noqa: S606 - a program of ours
    ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    try:
        _read_until(terminal, b"a1")
        first = time.monotonic() - start
        _drain(terminal, SETTLE)
        before, since = _cpu_seconds(process), time.monotonic()
        _drain(terminal, BEFORE)
        return first, (_cpu_seconds(process) - before) / (time.monotonic() - since)
    finally:
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
        os.close(terminal)


def _read_until(terminal: int, text: bytes) -> None:
    seen = b""
    while text not in seen:
        seen += os.read(terminal, 1 << 16)


def _drain(terminal: int, seconds: float) -> None:
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        if select.select([terminal], [], [], left)[0]:
            os.read(terminal, 1 << 16)


# Processes


@contextmanager
def _load(name: str, folder: Path, *arguments: float) -> Iterator["subprocess.Popen[bytes]"]:
    """A program of `load/`; `_end` ends it and has what it printed."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    argv = [sys.executable, "-m", f"benchmarks.load.{name}", str(folder), *map(str, arguments)]
    pipe = subprocess.PIPE
    process = subprocess.Popen(argv, stdin=pipe, stdout=pipe, env=_environment())
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def _end(lone: "subprocess.Popen[bytes]") -> list[tuple[float, float]]:
    """The sends of the lone sender: when each was sent, and when it was answered."""
    output, _ = lone.communicate()
    pairs = (line.split() for line in output.decode().splitlines())
    return [(float(sent), float(answered)) for sent, answered in pairs]


def _latencies(sends: list[tuple[float, float]]) -> list[float]:
    return [(answered - sent) * 1e3 for sent, answered in sends]


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}"}


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def _mebibytes(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024
