"""Clients call without end while the host is disturbed; their replies are kept."""

from __future__ import annotations

import json
import re
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import long
from e2e.hivehost import OPERATOR_SOCKET, HiveHost
from e2e.wire import SOCKET

Row = dict[str, Any]
OPERATOR = "operator"
TREE: dict[str, str | None] = {
    "root": None, "ann": "root", "ben": "root", "silo": "root", "cid": "ann",
    "ann-nest": "ann", "ben-nest": "ben", "cid-nest": "cid",
}  # fmt: skip
if long.asked.chosen:
    TREE |= {"dot": "ann", "eva": "ben", "fay": "ben", "gil": "cid", "hal": "eva"}
KEEPERS = {"ann", "ben", "cid"}  # whose children come and go
NESTS = {f"{keeper}-nest" for keeper in KEEPERS}  # restarted when one is moved away from them
LEADS = {"ann", "ben", "cid", *TREE.keys() & {"eva", "gil"}, *NESTS}
SILENT = {"silo", *NESTS}  # the mail of the first waits, and is counted in the end
CLIENTS = 5 * len({*TREE, OPERATOR} - SILENT)  # fifty under `--long`
SETTINGS = """
[limits]
send_rate = 100000
send_burst = 1000000
change_rate = 100000
change_burst = 1000000
commit_rate = 100000
commit_burst = 1000000
inbox_count = 1000000
inbox_bytes = 1000000000
children = 100
refusals_kept = 100000
[retention]
archive = 3
"""
HOLD = ["sleep", "100000"]
_PROGRAM = (
    "import sys; sys.path.insert(0, '/usr/src/hive/tests'); sys.dont_write_bytecode = True;"
    " from chaos.crowd import main; main()"
)


def make(host: HiveHost, mail: int = 0) -> list[Row]:
    """A hive with the tree and so many waiting messages on a fresh lab; what it took for that."""
    host.settings(SETTINGS)
    host.setup()
    level = {"root"}
    while level := {name for name, parent in TREE.items() if parent in level}:
        host.grow(**{name: _words(name) for name in TREE if name in level})
    _fill(host, mail)
    return [operator_row("spawn", len(TREE) - 1), operator_row("send", mail)]


def _words(name: str) -> dict[str, object] | str:
    return {"parent": TREE[name], "role": "lead" if name in LEADS else "worker"}


def operator_row(method: str, times: int) -> Row:
    """What the operator did before the clients began, or beside them."""
    return {"who": f"{OPERATOR}/first", "what": "told", "method": method, "times": times}


def _fill(host: HiveHost, number: int) -> None:
    """So many messages wait in one inbox, sent and acknowledged through the socket."""
    wire = host.connect()
    frame = json.dumps({
        "method": "org.hive.Broker.Send", "parameters": {"to": "silo", "body": "grain " * 20},
    })  # fmt: skip
    for start in range(0, number, 500):
        most = min(500, number - start)
        wire.write((frame.encode() + b"\0") * most)
        for _ in range(most):
            assert "error" not in wire.read()
    wire.close()


def peers(name: str) -> list[str]:
    """To whom it may send: parent, siblings, descendants, the operator; the operator to all."""
    if name == OPERATOR:
        return [name for name in TREE if name not in SILENT]
    family = {other for other, parent in TREE.items() if parent == TREE[name]}
    below = {name}
    while grown := {other for other, parent in TREE.items() if parent in below} - below:
        below |= grown
    result = (family | below | {TREE[name] or OPERATOR, OPERATOR}) - {name} - SILENT
    return sorted(result)


def homes(name: str) -> list[str]:
    """Under whom a keeper has its pets: itself and one child, so that they can move."""
    return [name, f"{name}-nest"] if name in KEEPERS else []


@dataclass
class ClientCrowd:
    """The clients of all parties, five each, and everything that they were told."""

    host: HiveHost
    seed: int
    pace: float
    rows: list[Row] = field(default_factory=list)
    _processes: dict[str, subprocess.Popen[str]] = field(default_factory=dict)
    _threads: list[threading.Thread] = field(default_factory=list)

    def start(self) -> None:
        for name in (OPERATOR, *TREE):
            if name not in SILENT:
                self._start(name)

    def _start(self, name: str) -> None:
        arguments = {
            "name": name, "socket": OPERATOR_SOCKET if name == OPERATOR else SOCKET,
            "seed": self.seed, "pace": self.pace, "peers": peers(name), "homes": homes(name),
            "command": HOLD,
        }  # fmt: skip
        enter = [] if name == OPERATOR else ["hive", "shell", name, "--"]
        command = [*enter, "/usr/bin/python3", "-Ic", _PROGRAM, json.dumps(arguments)]
        process = self.host.lab.popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        thread = threading.Thread(target=self._collect, args=(process,))
        thread.start()
        self._processes[name] = process
        self._threads.append(thread)

    def _collect(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            self.rows.append(json.loads(line))

    def effect_count(self) -> int:
        """How many effects were acknowledged so far."""
        return sum(row["what"] in {"sent", "acked", "nacked", "did"} for row in list(self.rows))

    def keep(self) -> None:
        """Beside the figures: what was heard, and what the daemons wrote to the journal."""
        if long.asked.file is None:
            return
        rows = "".join(json.dumps(row) + "\n" for row in self.rows)
        long.asked.file.with_suffix(f".{self.seed}.rows.jsonl").write_text(rows)
        units = ["-u", "hived.service", "-u", "hive-privd.service"]
        said = self.host.run("journalctl", "--no-pager", "-o", "short-precise", *units).stdout
        long.asked.file.with_suffix(f".{self.seed}.journal").write_text(said)

    def end(self, patience: float = 180) -> None:
        """Every client ends what it is at: no keyed call stays open."""
        for process in self._processes.values():
            assert process.stdin is not None
            process.stdin.close()
        deadline = time.monotonic() + patience
        for thread in self._threads:
            thread.join(max(0.1, deadline - time.monotonic()))
        for process in self._processes.values():
            process.kill()
            process.wait()
            assert process.stdout is not None
            process.stdout.close()
        ended = {row["who"] for row in self.rows if row["what"] == "ended"}
        left = {*TREE, OPERATOR} - SILENT - ended
        assert not left, f"these did not end: {left}"


@contextmanager
def crowd(host: HiveHost, seed: int, pace: float) -> Iterator[ClientCrowd]:
    """They work by the time this gives them, and have all ended well when it is left."""
    made = ClientCrowd(host, seed, pace)
    made.start()
    try:
        host.until(lambda: made.effect_count() > 200, "they do nothing", 60)
        yield made
    finally:
        made.end()


def leaders(host: HiveHost) -> dict[str, tuple[str, str]]:
    """Of each container: its first process, and when that began, which a PID alone cannot tell.

    A nest is left out: it is restarted whenever a child is moved away from it.
    """
    result = {}
    for name in TREE.keys() - NESTS:
        located = host.call("Locate", agent=name)
        stat = host.run("cat", f"/proc/{located['leader']}/stat").stdout
        result[name] = (str(located["leader"]), stat.rpartition(")")[2].split()[19])
    return result


def ends(host: HiveHost) -> list[tuple[str, str]]:
    """Each end of a daemon's main process, and how: systemd tells the journal."""
    words = ("journalctl", "--no-pager", "-o", "cat", "-u", "hived", "-u", "hive-privd")
    lines = host.run(*words).stdout.splitlines()
    exited = re.compile(r"([\w-]+)\.service: Main process exited, .*(status=\S+)")
    map_ = map(exited.match, lines)
    return [(match_[1], match_[2]) for match_ in map_ if match_]


@dataclass
class Killer:
    """Ends one unit's main process again and again, a random while after it was ready again."""

    host: HiveHost
    unit: str
    seed: int
    number: int
    between: float  # seconds at most
    ready: list[float] = field(default_factory=list)  # seconds from each kill to ready again
    at: list[float] = field(default_factory=list)
    since: float = 0.0  # wall clock of the last kill
    _last: str = ""

    def plan(self) -> list[tuple[float, float]]:
        """When: the same seed gives the same plan. One in ten is hit again while it starts."""
        random = Random(f"{self.seed} {self.unit}")  # noqa: S311 - a schedule, no secret
        return [
            (random.uniform(0, self.between), random.uniform(0.1, 0.6) * (random.random() < 0.1))
            for _ in range(self.number)
        ]  # fmt: skip

    def run(self) -> None:
        self._last, _ = self._main_process()
        for pause, again in self.plan():
            threading.Event().wait(pause)
            self.strike()
            if again:
                threading.Event().wait(again)
                self.strike()
            answered = self._answers() if self.unit == "hived" else self._is_up()
            self.ready.append(answered - self.at[-1])

    def strike(self) -> None:
        self.since = time.time()
        now = time.monotonic()
        words = ("systemctl", "kill", "--kill-whom=main", "--signal=KILL", f"{self.unit}.service")
        # Between two lives there is none to be killed.
        if self.host.run(*words, check=False).returncode == 0 or not self.at:
            self.at.append(now)

    def _answers(self) -> float:
        """Its socket was kept, so the call waits in the queue of who comes next. When it was."""
        while True:
            with suppress(OSError):
                if self.host.call("Status")["hived"]["since"] > self.since:
                    return time.monotonic()

    def _is_up(self) -> float:
        """systemd was told that the next one is ready. When it was, by systemd's clock."""
        self.host.until(
            lambda: self._main_process()[0] not in {"", self._last}, "it is not back", 60
        )
        self._last, when = self._main_process()
        return when

    def _main_process(self) -> tuple[str, float]:
        """PID of one that is ready, else nothing; and since when."""
        names = "MainPID,ActiveState,ActiveEnterTimestampMonotonic"
        words = ("systemctl", "show", "-p", names, f"{self.unit}.service")
        shown = dict(line.split("=") for line in self.host.run(*words).stdout.split())
        pid = shown["MainPID"] if shown["ActiveState"] == "active" else ""
        return pid, int(shown["ActiveEnterTimestampMonotonic"]) / 1e6


def silences(rows: list[Row], at: list[float]) -> list[float]:
    """For how long after each kill no client was told of any effect."""
    heard = sorted(row["at"] for row in rows if row["what"] in {"sent", "acked", "did"})
    pauses = list(pairwise(heard))
    # What the dead one had answered may be read a moment later: the longest pause that begins soon.
    return [
        max((end - begin for begin, end in pauses if time_ - 1 < begin < time_ + 0.2), default=0.0)
        for time_ in at
    ]  # fmt: skip


def quantiles(values: list[float]) -> Mapping[str, float]:
    ordered = sorted(values)
    at = {"p50": 0.5, "p99": 0.99, "most": 1.0}
    return {
        name: round(ordered[min(len(ordered) - 1, int(share * len(ordered)))], 3)
        for name, share in at.items()
    }


def copy_state(host: HiveHost, folder: Path) -> Path:
    """The ledger and the meta repo as they are on disk now; the daemon must not run."""
    for name in ("hive.db", "hive.db-wal", "meta"):
        source = host.lab.path(f"/var/lib/hive/{name}")
        if source.exists():
            subprocess.run(["cp", "-r", str(source), str(folder / name)], check=True)
    return folder
