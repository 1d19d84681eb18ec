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
import re
import select
import socket
import struct
import subprocess
import sys
import termios
import time
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from fcntl import ioctl
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory

from fuzz.served import HiveDaemon, HiveProcess, serve_in_process

from benchmarks.load.browser_page import interactive_rows
from benchmarks.load.programs import (
    cpu_seconds,
    end_sender,
    environment,
    latencies,
    mebibytes,
    run_load,
    write_line,
)
from benchmarks.load.restart import Tab, measure_restart
from benchmarks.load.streams import PATH, StreamReader, check_frames, read_for
from benchmarks.report.rows import Row, with_aim
from benchmarks.services import ROOT
from benchmarks.services.dashboard import LOGINS_OF_ADDRESS, Dashboard, serving_dashboard

AGENTS, LARGE, RATE = 1_000, 10_000, 1_000
STREAMS, STREAMS_OF_LOGIN, DECODED = 200, 4, 5
SECONDS, BEFORE, SETTLE = 30.0, 10.0, 3.0
LONE_EVERY = 0.25
STARTS = 15
_FIRST_ROW = re.compile(rb"a\d+ ")  # of whichever agent
_CLIENT_IMPORTS = "import json, socket, termios, threading, typing"
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
    yield from interactive_rows(hived.folder, agents, most_ms)


# Streams


@dataclass(frozen=True)
class LoadFigures:
    """What was measured under load: shares of a core, MiB, and bytes of a stream in a second."""

    hived: float
    web: float
    memory: float
    size: float
    sends: list[tuple[float, float]]


def _streams(hived: HiveDaemon) -> list[Row]:
    with run_load("chatter", hived.folder, AGENTS, RATE):
        alone, quiet = _measure_alone(hived)
        with serving_dashboard(hived.folder) as web, ExitStack() as stack:
            first = LOGINS_OF_ADDRESS  # the first address has logged in for the pages just now
            cookies = [web.log_in(first + at) for at in range(STREAMS // STREAMS_OF_LOGIN)]
            streams = list(_open_streams(web, cookies, stack))
            with run_load("tabs", hived.folder, web.port, SPAWN_EVERY) as tabs:
                write_line(tabs, "\t".join(cookies))
                rows = _loaded_rows(hived, web, streams, alone, quiet)
                made, loaded, slowest = map(float, tabs.communicate()[0].split())
            check_frames(streams)
            opened = [
                Tab(web, at // STREAMS_OF_LOGIN, cookies[at // STREAMS_OF_LOGIN], stream)
                for at, stream in enumerate(streams)
            ]
            restarted = measure_restart(hived, web, opened)
            return [
                *rows, {"name": "agents made meanwhile", "value": made, "unit": "agents"},
                {"name": "rows of the tree loaded by tabs", "value": loaded, "unit": "times"},
                {"name": "rows of the tree loaded by tabs, p99", "value": slowest * 1e3,
                 "unit": "ms"},
                *restarted,
            ]  # fmt: skip


def _measure_alone(hived: HiveProcess) -> tuple[float, float]:
    """The lone send in milliseconds, and hived's share of a core, without a watcher."""
    with run_load("lone_sender", hived.folder, LONE_EVERY) as lone:
        time.sleep(SETTLE)
        start, since = cpu_seconds(hived.pid), time.monotonic()
        time.sleep(SECONDS)
        share = (cpu_seconds(hived.pid) - start) / (time.monotonic() - since)
        return median(latencies(end_sender(lone))), share


def _open_streams(web: Dashboard, cookies: list[str], stack: ExitStack) -> Iterator[StreamReader]:
    for number, cookie in enumerate(cookies):
        for place in range(STREAMS_OF_LOGIN):
            connection = stack.enter_context(web.connect(number))
            connection.sendall(web.request("GET", PATH, cookie=cookie))
            is_decoded = number * STREAMS_OF_LOGIN + place < DECODED
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
        "value": median(latencies(load.sends)), "peer": "the same without a stream",
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
    with run_load("lone_sender", hived.folder, LONE_EVERY) as lone:
        read_for(streams, SETTLE)
        for stream in streams:
            stream.size = 0
        pids = (hived.pid, web.pid)
        start, since = [cpu_seconds(pid) for pid in pids], time.monotonic()
        read_for(streams, SECONDS)
        spent = time.monotonic() - since
        shares = [
            (cpu_seconds(pid) - before) / spent for pid, before in zip(pids, start, strict=True)
        ]
        memory = mebibytes(web.pid)
        sends = end_sender(lone)
    size = sum(stream.size for stream in streams) / len(streams) / spent
    return LoadFigures(shares[0], shares[1], memory, size, sends)


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
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, env=environment())
    try:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        with ExitStack() as stack:
            streams = []
            for _ in range(STREAMS):
                connection = socket.create_connection(("127.0.0.1", port), 30)
                stack.enter_context(connection).sendall(b"GET / HTTP/1.1\r\n\r\n")
                streams.append(StreamReader(connection, None))
            read_for(streams, 1.0)
            start, since = cpu_seconds(process.pid), time.monotonic()
            read_for(streams, BEFORE)
            return (cpu_seconds(process.pid) - start) / (time.monotonic() - since)
    finally:
        process.kill()
        process.communicate()


# hive top


@dataclass(frozen=True)
class RunningTop:
    pid: int
    terminal: int


def _top(hived: HiveProcess) -> list[Row]:
    """Its first screen from the start of the program, and its share while 1,000 rows/s change."""
    compileall.compile_dir(ROOT / "hive_core", quiet=1)  # as an installation has its modules
    screens, bare = _first_screens(hived)
    idle = _watch_top(hived)[1]
    with run_load("chatter", hived.folder, AGENTS, RATE):
        first, share = _watch_top(hived)
    return [
        with_aim({"name": f"hive top, first screen of {AGENTS:,} agents", "value": screens * 1e3,
                  "unit": "ms", "peer": "Python with what a client imports",
                  "peer_value": bare * 1e3}, "< 50 ms", at_most=50),
        {"name": f"hive top, first screen, {RATE:,} rows/s", "value": first * 1e3, "unit": "ms"},
        {"name": f"hive top, {RATE:,} rows/s", "value": share * 100, "unit": "% of a core"},
        with_aim({"name": "hive top, nothing changes", "value": idle * 100,
                  "unit": "% of a core"}, "< 1 %", at_most=1),
    ]  # fmt: skip


def _first_screens(hived: HiveProcess) -> tuple[float, float]:
    """Half of the first screens came within so many seconds; and half of the starts of the peer.

    They take turns, so that both have the same machine. The first of each is not counted: later
    ones find the files in memory, as on a host where somebody has used hive.
    """
    screens, bare = [], []
    for _ in range(STARTS + 1):
        with _started_top(hived) as (_, first):
            screens.append(first)
        start = time.monotonic()
        subprocess.run([sys.executable, "-c", _CLIENT_IMPORTS], check=True)
        bare.append(time.monotonic() - start)
    return median(screens[1:]), median(bare[1:])


def _watch_top(hived: HiveProcess) -> tuple[float, float]:
    """Seconds until its first screen, and then its share of a core."""
    with _started_top(hived) as (top, first):
        _drain(top.terminal, SETTLE)
        before, since = cpu_seconds(top.pid), time.monotonic()
        _drain(top.terminal, BEFORE)
        return first, (cpu_seconds(top.pid) - before) / (time.monotonic() - since)


@contextmanager
def _started_top(hived: HiveProcess) -> Iterator[tuple[RunningTop, float]]:
    """`hive top` on a terminal of its own, and the seconds until its first screen.

    It is started as a shell starts it, with vfork: a fork of this process, with all it has read,
    would take as long again.
    """
    terminal, end = os.openpty()
    ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    operator = str(hived.folder / "operator.sock")
    words = ["-c", "from hive_core.cli.start import main; main()", "--socket", operator, "top"]
    start = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, *words], stdin=end, stdout=end, stderr=end, env=environment()
    )
    os.close(end)
    try:
        _read_until(terminal, _FIRST_ROW)
        yield RunningTop(process.pid, terminal), time.monotonic() - start
    finally:
        process.kill()
        process.wait()
        os.close(terminal)


def _read_until(terminal: int, shown: re.Pattern[bytes]) -> None:
    seen = b""
    while not shown.search(seen):
        seen += os.read(terminal, 1 << 16)


def _drain(terminal: int, seconds: float) -> None:
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        if select.select([terminal], [], [], left)[0]:
            os.read(terminal, 1 << 16)
