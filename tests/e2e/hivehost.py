"""A lab that `hive setup` has made a hive host: the operator's hands on it, and the agents' own."""

from __future__ import annotations

import json
import secrets
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from e2e import wire
from e2e.forks import Forks
from e2e.inside import BROKER
from e2e.labhost import Lab, check_status
from long import at_most

OPERATOR_SOCKET = "/run/hive/operator.sock"
_INSIDE = (
    "PATH=/opt/hive/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME=/root",
    "HIVE_SOCKET=/run/hive/broker.sock",
    "CREDENTIALS_DIRECTORY=/run/hive/credentials",
)


@dataclass(frozen=True)
class Reply:
    """A reply; `error` is empty, or the last part of the error name."""

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


class AgentConnection:
    """Calls that a process in the container of an agent makes on the agent's socket (inside.py)."""

    def __init__(self, socket: Path) -> None:
        self._socket = str(socket)
        self._wire: wire.Wire | None = None

    def connect_again(self) -> bool:
        """Connect where no connection is open. The process inside ends with its container."""
        if self._wire is None or self._wire.ended:
            self.close()
            with suppress(ConnectionRefusedError, FileNotFoundError):
                self._wire = wire.Wire(self._socket)
        return self._wire is not None

    def ask(self, method: str, parameters: object) -> Reply:
        assert self._wire is not None, "connect_again() makes it"
        return Reply.of(self._wire.ask(method, parameters))

    def stream(self, method: str, parameters: object, most: int) -> list[Reply]:
        """On a connection of its own."""
        with closing(wire.Wire(self._socket)) as connection:
            return [Reply.of(item) for item in connection.stream(method, parameters, most)]

    def close(self) -> None:
        if self._wire is not None:
            self._wire.close()
            self._wire = None


@dataclass
class HiveHost:
    """The commands and calls of the operator on this host."""

    lab: Lab
    began: int = 0  # the last event before the test file that uses it now
    _agent_connections: dict[str, AgentConnection] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._forks = Forks(self.lab)
        self.lab.guests += [self._forks.close, self.close_connections]

    def run(
        self, *words: str, check: bool = True, text: str | None = None, timeout: float = 90
    ) -> subprocess.CompletedProcess[str]:
        if words[0] == "hive" and words[1:]:
            done = self._forks.run(words[1:], text, timeout)
            if done is not None:
                return check_status(done) if check else done
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
        return self.enter(agent, *command, check=check).stdout

    def enter(
        self, agent: str, *command: str, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """What a command does that is put into the container of an agent.

        `hive shell` does it the careful way: what it runs counts as the agent's, and may not call
        all there is. That takes ten times as long; `shell` is for tests to which it matters.
        """
        reply = self.call("Locate", agent=agent)
        clean = ("env", "-i", "LANG=C.UTF-8", f"HIVE_NAME={agent}", *_INSIDE)
        enter = ("nsenter", f"--target={reply['leader']}", "--all", "--")
        return self.run(*clean, *enter, *command, check=check)

    def shell(self, agent: str, *command: str, check: bool = True) -> str:
        """What a command says in the container of an agent, as `hive shell` runs it."""
        return self.run("hive", "shell", agent, "--", *command, check=check).stdout

    def main_pid(self, agent: str) -> int:
        """0 when it is down; `kill 0` would end whoever calls it."""
        return int(self.show(agent, "MainPID"))

    def pids(self, *agents: str) -> dict[str, int]:
        """The same of several."""
        units = [f"hive-agent@{agent}.service" for agent in agents]
        shown = self.run("systemctl", "show", "--value", "--property=MainPID", *units).stdout
        return dict(zip(agents, map(int, shown.split()), strict=True))

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
        with closing(self.connect()) as connection:
            return Reply.of(connection.ask(method, parameters))

    def stream(self, method: str, most: int, /, **parameters: object) -> list[Reply]:
        with closing(self.connect()) as connection:
            return [Reply.of(item) for item in connection.stream(method, parameters, most)]

    def ask(self, agent: str, method: str, /, **parameters: object) -> Reply:
        """One call of an agent's, through its socket; they share one connection."""
        return self._agent_connection(agent).ask(method, parameters)

    def follow(self, agent: str, method: str, most: int, /, **parameters: object) -> list[Reply]:
        """The same with `more`."""
        return self._agent_connection(agent).stream(method, parameters, most)

    def _agent_connection(self, agent: str) -> AgentConnection:
        if (
            agent not in self._agent_connections
            or not self._agent_connections[agent].connect_again()
        ):
            self.close_connections(agent)
            self._agent_connections[agent] = AgentConnection(self.socket_inside(agent))
            assert self._agent_connections[agent].connect_again(), agent
        return self._agent_connections[agent]

    def socket_inside(self, agent: str, socket: str = BROKER) -> Path:
        """A socket of the host behind which is this one in the container, until that ends."""
        place = f"/run/voice-{secrets.token_hex(4)}.sock"
        self._forks.enter(self.call("Locate", agent=agent)["leader"], place, socket)
        return self.lab.path(place)

    def close_connections(self, *agents: str) -> None:
        """End the connections of these agents (all when none is named)."""
        for agent in agents or list(self._agent_connections):
            if agent in self._agent_connections:
                self._agent_connections.pop(agent).close()

    def grow(self, **parents: str | dict[str, object]) -> None:
        """Spawn agents, all at once, and wait until they run: lead="root" or more in a dict."""
        for name, parent in parents.items():
            words = {"parent": parent} if isinstance(parent, str) else parent
            reply = self.call("Spawn", name=name.replace("_", "-"), **words)
            assert not reply.error, reply
        self.wait("running", *parents)

    def prune(self, tree: Mapping[str, str | None]) -> None:
        """Have the hive as `tree` again: all others destroyed, and these running."""
        rows = self.call("ListAgents")["agents"]
        for row in rows:
            if row["name"] not in tree:
                self.close_connections(row["name"])
                self.call("Destroy", agent=row["name"], wait=20)
            elif row["state"] != "running":
                self.call("Start", agent=row["name"])
        if tree:
            self.wait("running", *tree)

    def wait(self, state: str, *agents: str, seconds: float = 30) -> None:
        names = [agent.replace("_", "-") for agent in agents]
        deadline, reply = time.monotonic() + at_most(seconds), None
        while reply is None or not reply["done"]:
            left = deadline - time.monotonic()
            assert left > 0, reply
            reply = self.call("WaitAgents", agents=names, states=[state], wait=min(50, left))

    def uuid(self, agent: str) -> str:
        return str(self.call("Locate", agent=agent)["uuid"])

    def until(self, holds: Callable[[], object], failure: str, seconds: float = 15) -> None:
        """Poll for a fact that nothing announces."""
        first = began = time.monotonic()
        while not holds():
            now = time.monotonic()
            assert now < first + at_most(seconds), failure
            # Who looks by starting processes leaves the machine to what it waits for, and so does
            # who has waited for long: each look costs the daemon a call.
            time.sleep(max(0.05, now - began, min(0.5, (now - first) / 10)))
            began = time.monotonic()

    def mail(self, agent: str, **parameters: object) -> list[dict[str, Any]]:
        """Take everything out of an agent's inbox, as itself."""
        messages: list[dict[str, Any]] = self.ask(agent, "Recv", max=100, **parameters)["messages"]
        if messages:
            self.ask(agent, "Ack", ids=[message["id"] for message in messages])
        return messages

    def events(self, **last: int | str) -> list[dict[str, Any]]:
        result: list[dict[str, Any]] = self.call("ListEvents", **last)["events"]
        return result

    def own_events(self) -> list[dict[str, Any]]:
        """All events since this test file began."""
        rows: list[dict[str, Any]] = []
        after: str | None = str(self.began)
        while after is not None:
            page = self.call("ListEvents", after=after, limit=1000)
            rows += page["events"]
            after = page["next"]
        return rows

    def tree(self) -> dict[str, str | None]:
        """name -> parent."""
        return {row["name"]: row["parent"] or None for row in self.call("ListAgents")["agents"]}

    def kill(self, how: str = "KILL") -> None:
        """End the daemon in the middle of whatever it does; systemd starts it again."""
        words = ("systemctl", "kill", "--kill-whom=main", f"--signal={how}", "hived.service")
        self.run(*words)
        self.close_connections()  # their connections have ended with it
        self.answers()

    def restart(self) -> None:
        self.run("systemctl", "restart", "hived.service")
        self.close_connections()

    def answers(self, seconds: float = 20) -> None:
        """Wait until a daemon does: who calls while there is none waits in the socket it left."""

        def has_answer() -> bool:
            with suppress(OSError):
                return not self.call("Status").error
            return False

        self.until(has_answer, "hived does not answer", seconds)
