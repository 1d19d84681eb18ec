"""A lab that `hive setup` has made a hive host: the operator's hands on it, and the agents' own."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from e2e import wire
from e2e.labhost import Lab
from long import bound

OPERATOR_SOCKET = "/run/hive/operator.sock"
_PYTHON = ("/usr/bin/python3", "-Ic", Path(wire.__file__).read_text())


@dataclass(frozen=True)
class Reply:
    """What came back over the wire; `error` is empty, or the last word of its name."""

    error: str
    parameters: dict[str, Any]

    @classmethod
    def of(cls, frame: dict[str, Any]) -> Reply:
        return cls(frame.get("error", "").rpartition(".")[2], frame.get("parameters", {}))

    def __getitem__(self, key: str) -> Any:  # noqa: ANN401 - JSON is anything
        assert not self.error, self
        return self.parameters[key]

    @property
    def reason(self) -> str:
        return str(self.parameters.get("reason", ""))


class Voice:
    """A process in the container of an agent that speaks for it, call by call."""

    def __init__(self, lab: Lab, agent: str) -> None:
        command = ["hive", "shell", agent, "--", *_PYTHON]
        self._process = lab.popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def order(self, **order: object) -> list[Reply]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        return [Reply.of(each) for each in json.loads(self._process.stdout.readline())]

    @property
    def gone(self) -> bool:
        return self._process.poll() is not None

    def close(self) -> None:
        with suppress(OSError):
            self._process.stdin.close()  # type: ignore[union-attr]
        self._process.kill()
        self._process.wait()
        self._process.stdout.close()  # type: ignore[union-attr]


@dataclass
class HiveHost:
    """The operator's hands on it."""

    lab: Lab
    _voices: dict[str, Voice] = field(default_factory=dict)

    def run(
        self, *words: str, check: bool = True, text: str | None = None, timeout: float = 90
    ) -> subprocess.CompletedProcess[str]:
        return self.lab.run(list(words), check=check, input=text, timeout=timeout)

    def hive(self, *words: str, text: str | None = None) -> str:
        """What `hive WORDS` prints; it has to end with 0."""
        return self.run("hive", *words, text=text).stdout

    def fails(self, status: int, *words: str) -> str:
        """What `hive WORDS` complains about; it has to end with `status`."""
        done = self.run("hive", *words, check=False)
        assert done.returncode == status, done
        return done.stderr

    def json(self, *words: str) -> Any:  # noqa: ANN401 - JSON is anything
        return json.loads(self.hive(*words, "-o", "json"))

    def inside(self, agent: str, *command: str, check: bool = True) -> str:
        """What a command says in the container of an agent."""
        return self.run("hive", "shell", agent, "--", *command, check=check).stdout

    def main_pid(self, agent: str) -> int:
        """0 when it is down; `kill 0` would end whoever calls it."""
        return int(self.show(agent, "MainPID"))

    def show(self, agent: str, name: str) -> str:
        """A property of its unit, as systemd tells it."""
        unit = f"hive-agent@{agent}.service"
        return self.run("systemctl", "show", "--value", f"--property={name}", unit).stdout.strip()

    def settings(self, text: str) -> None:
        """What is in hive.toml from the next start of the daemon on."""
        self.run("sh", "-c", "mkdir -p /etc/hive; cat >/etc/hive/hive.toml", text=text)

    def setup(self) -> str:
        return self.hive("setup")

    def connect(self, wait: float = 60.0) -> wire.Wire:
        """The operator's socket, as any client in the lab would use it."""
        return wire.Wire(str(self.lab.path(OPERATOR_SOCKET)), wait)

    def call(self, method: str, /, **parameters: object) -> Reply:
        """One call of the operator's."""
        connection = self.connect()
        try:
            return Reply.of(connection.ask(method, parameters))
        finally:
            connection.close()

    def stream(self, method: str, most: int, /, **parameters: object) -> list[Reply]:
        connection = self.connect()
        try:
            return [Reply.of(each) for each in connection.stream(method, parameters, most)]
        finally:
            connection.close()

    def ask(self, agent: str, method: str, /, **parameters: object) -> Reply:
        """One call of an agent's, through the socket in its container."""
        (reply,) = self._voice(agent).order(method=method, parameters=parameters)
        return reply

    def follow(self, agent: str, method: str, most: int, /, **parameters: object) -> list[Reply]:
        """The same with `more`."""
        return self._voice(agent).order(method=method, parameters=parameters, most=most)

    def _voice(self, agent: str) -> Voice:
        if agent in self._voices and self._voices[agent].gone:
            self.hush(agent)
        if agent not in self._voices:
            self._voices[agent] = Voice(self.lab, agent)
        return self._voices[agent]

    def hush(self, *agents: str) -> None:
        """End the processes that speak for these agents (all when none is named)."""
        for agent in agents or list(self._voices):
            if agent in self._voices:
                self._voices.pop(agent).close()

    def grow(self, **parents: str | dict[str, object]) -> None:
        """Spawn agents, all at once, and wait until they run: lead="root" or more in a dict."""
        for name, given in parents.items():
            words = {"parent": given} if isinstance(given, str) else given
            reply = self.call("Spawn", name=name.replace("_", "-"), **words)
            assert not reply.error, reply
        self.wait("running", *parents)

    def prune(self, tree: Mapping[str, str | None]) -> None:
        """Have the hive as `tree` again: all others destroyed, and these running."""
        rows = self.call("ListAgents")["agents"]
        for row in rows:
            if row["name"] not in tree:
                self.hush(row["name"])
                self.call("Destroy", agent=row["name"], wait=20)
            elif row["state"] != "running":
                self.call("Start", agent=row["name"])
        self.wait("running", *tree)

    def wait(self, state: str, *agents: str, seconds: float = 30) -> None:
        names = [agent.replace("_", "-") for agent in agents]
        deadline, reply = time.monotonic() + bound(seconds), None
        while reply is None or not reply["done"]:
            left = deadline - time.monotonic()
            assert left > 0, reply
            reply = self.call("WaitAgents", agents=names, states=[state], wait=min(50, left))

    def uuid(self, agent: str) -> str:
        return str(self.call("Locate", agent=agent)["uuid"])

    def until(self, holds: Callable[[], object], what: str, seconds: float = 15) -> None:
        """For what nobody announces: look again and again."""
        deadline, began = time.monotonic() + bound(seconds), time.monotonic()
        while not holds():
            assert time.monotonic() < deadline, what
            # Who looks by starting processes leaves the machine to what it waits for.
            time.sleep(max(0.05, time.monotonic() - began))
            began = time.monotonic()

    def mail(self, agent: str, **parameters: object) -> list[dict[str, Any]]:
        """Take everything out of an agent's inbox, as itself."""
        found: list[dict[str, Any]] = self.ask(agent, "Recv", max=100, **parameters)["messages"]
        if found:
            self.ask(agent, "Ack", ids=[each["id"] for each in found])
        return found

    def events(self, **last: int | str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.call("ListEvents", **last)["events"]
        return found

    def tree(self) -> dict[str, str | None]:
        """name -> parent, as `hive tree -o json` draws it."""
        found: dict[str, str | None] = {}

        def walk(nodes: Sequence[dict[str, Any]]) -> None:
            for node in nodes:
                found[node["name"]] = node["parent"]
                walk(node["children"])

        walk(self.json("tree"))
        return found
