"""Built-in agents on the real broker, without containers: each a mind that can be killed."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from operations.world import World
from typing_extensions import override

from hive_core.agent.agent_loop import AgentBehaviour, StateFile, run_once
from hive_core.agent.lead import Lead
from hive_core.agent.queen import Queen
from hive_core.agent.reconnect import Link
from hive_core.agent.task_client import TaskClient
from hive_core.agent.worker import LineWorker
from hive_core.broker.call import Call, Record
from hive_core.broker.hooks import AgentEnded, AgentStarted, emit
from hive_core.broker.operation import Result
from hive_core.errors import HiveError
from hive_core.model.agents.agent import Role
from hive_core.model.agents.machine import DesiredState
from hive_core.varlink import Message

MINDS: dict[str, Callable[..., AgentBehaviour]] = {
    "lead": Lead,
    "queen": Queen,
    "worker": LineWorker,
}


class Killed(BaseException):
    """The process is gone between two calls."""


class Wire(Link):
    """A link without a socket. `before` is called before each call, and may end the process."""

    def __init__(self, world: World, uuid: str, before: Callable[[str, str], None]) -> None:
        super().__init__("")
        self._world, self._uuid, self._before = world, uuid, before

    @override
    def call(self, method: str, params: Message, *, repeat: bool = False) -> Message:
        name = method.rpartition(".")[2]
        operation = re.sub(r"(?<!^)([A-Z])", r"_\1", name).lower()
        self._before(self._uuid, operation)
        # Nobody else could do anything while this thread waits.
        present = {**params, "wait": 0} if "wait" in params else params
        return self._world.ask_as(self._uuid, operation, present).result()


@dataclass
class BuiltInAgents:
    """All agents of a world whose command is a built-in one."""

    world: World
    folder: Path
    before: Callable[[str, str], None] = lambda _, __: None
    minds: dict[str, tuple[TaskClient, AgentBehaviour]] = field(default_factory=dict)
    refusals: list[tuple[str, str]] = field(default_factory=list)

    def play(self, until: Callable[[], bool], rounds: int = 300) -> None:
        """Everybody takes turns; time passes when nothing else does."""
        for _ in range(rounds):
            if until():
                return
            self.round()
        raise AssertionError("this play does not end")

    def round(self) -> None:
        for name in list(self.world.hive.topology.order):
            spec = self.world.hive.specs.get(name)
            run = self.world.ledger.runs.get(spec.id) if spec else None
            if (
                spec
                and run
                and run.wanted is DesiredState.RUNNING
                and spec.command[:1] == ("hive-agent",)
            ):
                self._turn(name, spec.command[1])
        self.world.advance(1)

    def _turn(self, name: str, kind: str) -> None:
        desk, mind = self._mind(name, kind)
        try:
            run_once(desk, mind, 0)
        except Killed:
            self.crash(name)
        except HiveError as error:
            self.refusals.append((name, error.reason))

    def _mind(self, name: str, kind: str) -> tuple[TaskClient, AgentBehaviour]:
        uuid = self.world.uuid(name)
        if uuid not in self.minds:
            wire = Wire(self.world, uuid, self._before_call)
            desk = TaskClient(wire, name, self.world.advance)
            memory = StateFile(self.folder / f"{uuid}.json")
            mind = (
                LineWorker(desk, memory, self._end)
                if kind == "worker"
                else MINDS[kind](desk, memory)
            )
            self.minds[uuid] = (desk, mind)
        return self.minds[uuid]

    def _before_call(self, uuid: str, operation: str) -> None:
        self.before(uuid, operation)

    def _end(self, _status: int) -> None:
        raise Killed

    def crash(self, name: str) -> None:
        """Its machine ends; what comes back by itself comes back, as the daemon has it."""
        spec = self.world.hive.spec(name)
        self.minds.pop(spec.id, None)
        returns = spec.role is Role.DAEMON

        def act(call: Call) -> Record[Result]:
            if not returns:
                call.ledger.runs.want(
                    spec.id, DesiredState.STOPPED, call.now, reason="ended with 1"
                )
            end = AgentEnded(
                spec.id, name, 1, "ended with 1", clean=False, asked=False,
                wanted="running" if returns else "stopped", returns=returns,
            )  # fmt: skip
            emit(call, end)
            run = call.ledger.runs.get(spec.id)
            if run is not None and run.wanted is DesiredState.RUNNING:
                emit(call, AgentStarted(spec.id, name, run.nonce))
            return Record(Result())

        self.world.broker.perform("exit", act)
        self.world.run()

    def task(self, id_: str) -> Any:  # noqa: ANN401 - JSON is anything
        return self.world.call("operator", "get_task", task=id_)["task"]
