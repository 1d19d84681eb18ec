"""Programs that load a service, and what a process takes."""

import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.services import ROOT

_TICKS = os.sysconf("SC_CLK_TCK")


@contextmanager
def run_load(name: str, folder: Path, *arguments: float) -> Iterator["subprocess.Popen[bytes]"]:
    """A program of this folder; `end_sender` ends it and has what it printed."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    argv = [sys.executable, "-m", f"benchmarks.load.{name}", str(folder), *map(str, arguments)]
    pipe = subprocess.PIPE
    process = subprocess.Popen(argv, stdin=pipe, stdout=pipe, env=environment())
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def write_line(process: "subprocess.Popen[bytes]", text: str) -> None:
    assert process.stdin is not None
    process.stdin.write(f"{text}\n".encode())
    process.stdin.flush()


def end_sender(lone: "subprocess.Popen[bytes]") -> list[tuple[float, float]]:
    """The sends of the lone sender: when each was sent, and when it was answered."""
    output, _ = lone.communicate()
    if lone.returncode:
        raise RuntimeError("the lone sender has failed")
    pairs = (line.split() for line in output.decode().splitlines())
    return [(float(sent), float(answered)) for sent, answered in pairs]


def latencies(sends: list[tuple[float, float]]) -> list[float]:
    return [(answered - sent) * 1e3 for sent, answered in sends]


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}"}


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def mebibytes(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024
