"""Sessions at work in containers while their host is disturbed: the load, and the kills."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from chaos.session_oracle import CHARGED, SessionEvidence
from e2e.hivehost import HiveHost, Reply

from hive_core.agent.session.records import KINDS, Record, read_records
from hive_core.model.names import short
from hive_core.operations.models.reserve import NOTED_WITHIN

Row = dict[str, Any]
PORT = 8097
PAGE = 1000
LOG = "/run/session-provider.log"
PROVIDER = "/usr/src/hive/tests/chaos/session_provider.py"
MODELS = f"""
[providers.load]
base_url = "http://127.0.0.1:{PORT}/v1"
[models.load]
provider = "load"
name = "load-1"
price_in = 1.0
price_out = 1.0
[limits]
calls_a_minute = 100000
"""
# An agent that is killed on purpose again and again is not parked.
SETTINGS = """
[back_off]
first = 0.05
most = 0.2
failures = 100000
[tasks]
attempts = 100
[limits]
inbox_count = 100000
inbox_bytes = 100000000
send_rate = 100000
send_burst = 100000
"""
UNITS = ("hived", "hive-model")
PROCESSES = {
    "session": "session", "runtime": "hive-runtime", "fork server": "hive-forkserver",
}  # fmt: skip
VICTIMS = (*UNITS, *PROCESSES, "unit")
POINTS = tuple(sorted(KINDS - {"open", "compact", "rewind", "inherit"}))
# Kills the process of a unit that has this name, or this word in its command line; prints its id.
_KILL = """
import os, pathlib, signal, sys
for place in pathlib.Path("/proc").glob("[0-9]*"):
    try:
        words = (place / "cmdline").read_bytes().split(b"\\0")
        if sys.argv[1] in (place / "cgroup").read_text() and b"python" in words[0]:
            if sys.argv[2].encode() in (*words, (place / "comm").read_bytes().strip()):
                os.kill(int(place.name), signal.SIGKILL)
                print(place.name)
    except OSError:
        pass
"""


@dataclass
class SessionLoad:
    """Workers run commands, daemons send; all have letters beside their tasks."""

    host: HiveHost
    seed: int
    workers: int
    daemons: int
    steps: int = 6
    tasks: dict[str, list[str]] = field(default_factory=dict)
    letters: dict[str, list[str]] = field(default_factory=dict)
    kills: list[tuple[str, str]] = field(default_factory=list)
    _keys: int = 0
    _folders: dict[str, Path] = field(default_factory=dict)

    @property
    def agents(self) -> list[str]:
        return [
            *(f"runner-{number}" for number in range(self.workers)),
            *(f"keeper-{number}" for number in range(self.daemons)),
        ]

    def start(self) -> None:
        """Start the provider and the agents."""
        host = self.host
        service = ("--unit=session-provider", "--property=StandardError=null")
        host.run("systemd-run", "--quiet", *service, "/usr/bin/python3", PROVIDER, str(PORT), LOG)
        self.ask("AllocateBudget", agent="root", kind="tokens", amount=1_000_000_000)
        for name in self.agents:
            role = "worker" if name.startswith("runner") else "daemon"
            words = {"parent": "root", "role": role, "runtime": "builtin", "model": "load",
                     "add_capabilities": ["model:load"]}  # fmt: skip
            reply = host.call("Spawn", name=name, **words)
            assert not reply.error, reply
            self.tasks[name], self.letters[name] = [], []
        host.wait("running", *self.agents)

    def ask(self, method: str, **parameters: object) -> Reply:
        """One keyed call of the operator, repeated until it is answered."""
        self._keys += 1
        key = f"load:{self.seed}:{self._keys}"
        while True:
            try:
                reply = self.host.call(method, idempotency_key=key, **parameters)
            except OSError:
                continue
            if reply.error not in {"Busy", "StorageFull"}:
                return reply

    def feed(self) -> None:
        """Give each agent a task when it has none that is open, a letter, and a start."""
        for name in self.agents:
            if not any(self._is_open(task) for task in self.tasks[name][-1:]):
                work = "runs" if name.startswith("runner") else "sends"
                text = f"Make {self.steps} {work}."
                more = {"deadline": 0, "requeue": 100}
                reply = self.ask("AssignTask", agent=name, description=text, **more)
                self.tasks[name].append(str(reply["task"]))
            self.write(name)
            self.ask("Start", agent=name)

    def write(self, name: str) -> None:
        """Send a letter, which stays in the inbox until the session has it."""
        reply = self.ask("Send", to=name, body=f"letter {len(self.letters[name])}")
        self.letters[name].append(str(reply["id"]))

    def strike_at(self, victim: str, kind: str, random: Random) -> None:
        """Kill at the next record of this kind in a log; at a random moment where it is empty."""
        self.feed()
        name = random.choice(self.agents)
        if kind:
            before = self._count(name, kind)
            self._watch(lambda: self._count(name, kind) > before, 5.0)
        else:
            threading.Event().wait(random.uniform(0, 1.5))
        if self._strike(victim, name):
            self.kills.append((victim, kind))

    def settle(self) -> None:
        """Wait until all tasks have ended and nothing waits in an inbox."""
        for name in self.agents:
            self.ask("Start", agent=name)
        for name in self.agents:
            self._settle(name)

    def wait_for_lost_calls(self) -> None:
        """Wait until calls that were lost with hive-model are charged as estimated."""
        within = 2 * NOTED_WITHIN
        assert self._watch(lambda: not self._held_tokens(), within, 0.2), "reservations stay open"

    def _held_tokens(self) -> int:
        """Tokens that the budgets hold for calls."""
        rows = self.ask_plain("GetUsage", agent="root")["budgets"]
        return sum(row["held"] for row in rows if row["kind"] == "tokens")

    def evidence(self) -> SessionEvidence:
        """Everything that the oracle looks at."""
        host = self.host
        text = host.lab.path(LOG).read_text()
        return SessionEvidence(
            runs={name: self._runs(name) for name in self.agents},
            logs={name: self._logs(name) for name in self.agents},
            letters=self.letters,
            waiting={name: self._inbox(name) for name in self.agents},
            marks=[str(row["body"]) for row in self._inbox("root")],
            tasks=[self._task(task) for tasks in self.tasks.values() for task in tasks],
            calls=self._model_events(),
            sums={name: self._sums(name) for name in self.agents},
            provider=[json.loads(line) for line in text.splitlines()],
            held=self._held_tokens(),
        )

    # What is there.

    def _settle(self, name: str) -> None:
        """A session that waits for a word gets one."""
        for _ in range(8):
            if self._watch(lambda: self._is_done(name), 10.0, pause=0.2):  # each look is many calls
                return
            self.write(name)
            self.ask("Start", agent=name)
        raise AssertionError(f"{name} does not come to rest: {self._state(name)}")

    def _is_done(self, name: str) -> bool:
        return not (
            any(self._is_open(task) for task in self.tasks[name])
            or self._inbox(name) or self._has_turn(name)
        )  # fmt: skip

    def _state(self, name: str) -> object:
        """What tells why it does not rest; a log that is closed may belong to an open task."""
        open_tasks = [
            row for row in (self._task(task)["task"] for task in self.tasks[name])
            if row["state"] not in {"done", "cancelled"}
        ]  # fmt: skip
        names = {f"task-{row['id']}" for row in open_tasks}
        logs = {
            key: [(row["t"], row["at"]) for row in rows][-8:]
            for key, rows in self._logs(name).items()
            if key in names or rows[-1]["t"] != "closed"
        }
        journal = self.host.run(
            "journalctl", "-q", "-o", "short-unix", "-n", "30", "-u", f"hive-agent@{name}.service"
        ).stdout
        events = [
            (row["time"], row["operation"], row["reason"])
            for row in self.ask_plain("ListEvents", agents=[name], last=20)["events"]
        ]
        return self.seed, self.kills, open_tasks, logs, len(self._inbox(name)), events, journal

    def _has_turn(self, name: str) -> bool:
        """Whether the log of a conversation does not end with a closed turn."""
        return any(
            rows[-1]["t"] not in {"closed", "open"} for rows in self._logs(name).values() if rows
        )

    def _is_open(self, task: str) -> bool:
        return self._task(task)["task"]["state"] not in {"done", "cancelled"}

    def _task(self, task: str) -> Row:
        return self.ask_plain("GetTask", task=task).parameters

    def ask_plain(self, method: str, **parameters: object) -> Reply:
        """One call that changes nothing, repeated until it is answered."""
        while True:
            try:
                reply = self.host.call(method, **parameters)
            except OSError:
                continue
            assert not reply.error, reply
            return reply

    def _folder(self, name: str) -> Path:
        if name not in self._folders:
            place = self.host.lab.path("/var/lib/hive/tree")
            self._folders[name] = next(place.glob(f"**/{short(self.host.uuid(name))}/state"))
        return self._folders[name]

    def _runs(self, name: str) -> list[str]:
        file = self._folder(name) / "work/runs.txt"
        return file.read_text().split() if file.exists() else []

    def _logs(self, name: str) -> dict[str, list[Record]]:
        """The records of each conversation, old segments first."""
        folder = self._folder(name) / "session"
        return {
            place.name: [
                record
                for file in (*sorted(place.glob("log.[0-9]*")), place / "log")
                for record in read_records(file.read_bytes()).records
            ]
            for place in sorted(folder.glob("*")) if (place / "log").exists()
        }  # fmt: skip

    def _count(self, name: str, kind: str) -> int:
        """How many records of a kind an agent has logged."""
        mark = f'{{"t":"{kind}"'.encode()
        files = (self._folder(name) / "session").glob("*/log*")
        return sum(file.read_bytes().count(mark) for file in files)

    def _inbox(self, name: str) -> list[Row]:
        rows: list[Row] = []
        after: dict[str, object] = {}
        while True:
            page = self.ask_plain("ListMessages", agent=name, limit=100, **after)
            rows += page["messages"]
            if not page.parameters.get("next"):
                return rows
            after = {"after": page["next"]}

    def _model_events(self) -> list[Row]:
        rows: list[Row] = []
        after = "0"
        while True:
            page = self.ask_plain("ListEvents", after=after, limit=PAGE, kinds=["model"])
            rows += [row for row in page["events"] if row["fields"].get("alias") == "load"]
            if page["next"] is None:
                return rows
            after = page["next"]

    def _sums(self, name: str) -> dict[str, int]:
        """What was charged for the calls of an agent."""
        sums = self.ask_plain("GetUsage", agent=name)["sums"]
        return {
            kind: sum(row["amount"] for row in sums if (row["key"], row["kind"]) == (name, kind))
            for kind in CHARGED
        }

    # The kills.

    def _strike(self, victim: str, name: str) -> bool:
        """Kill it; False where it does not run."""
        host, unit = self.host, f"hive-agent@{name}.service"
        if victim in PROCESSES:
            words = ("/usr/bin/python3", "-Ic", _KILL, unit, PROCESSES[victim])
            return bool(host.run(*words).stdout)
        of = ("--kill-whom=all", unit) if victim == "unit" else (
            "--kill-whom=main", f"{victim}.service"
        )  # fmt: skip
        return host.run("systemctl", "kill", "--signal=KILL", *of, check=False).returncode == 0

    def _watch(self, holds: Callable[[], bool], seconds: float, pause: float = 0.01) -> bool:
        """Whether it holds within this time; looked at again and again."""
        ends = time.monotonic() + seconds
        while not holds():
            if time.monotonic() > ends:
                return False
            threading.Event().wait(pause)
        return True
