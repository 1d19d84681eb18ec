"""What the change road tells of machines, in steps that a test takes."""

from __future__ import annotations

from itertools import count

from operations.world import World

from hive_core.broker.call import Call, Record
from hive_core.broker.hooks import AgentEnded, AgentStarted, TaskEnded, emit
from hive_core.broker.operation import Result
from hive_core.model.agents.machine import DesiredRun, DesiredState, State

_SERIAL = count(1)


class Nothing(Result):
    """No answer."""


def run_of(world: World, name: str) -> DesiredRun:
    run = world.ledger.runs.get(world.uuid(name))
    assert run is not None
    return run


def start_machines(world: World, *names: str) -> None:
    """Their machines run."""
    for name in names:
        uuid, nonce = world.uuid(name), run_of(world, name).nonce
        world.seen.states.pop(uuid, None)

        def began(call: Call, uuid: str = uuid, name: str = name, nonce: int = nonce) -> (
            Record[Nothing]
        ):  # fmt: skip
            call.ledger.lives.mark_running(uuid, f"{next(_SERIAL):032x}", nonce)
            emit(call, AgentStarted(uuid, name, nonce))
            return Record(Nothing())

        world.broker.perform("watch", began)
    world.run()


def end_machine(
    world: World, name: str, code: int | None = 0, *, output: str = "", returns: bool = False
) -> None:
    """The machine has ended: by itself, or as it was wanted."""
    uuid, run = world.uuid(name), run_of(world, name)
    asked = run.wanted is not DesiredState.RUNNING
    own = DesiredState.STOPPED if code == 0 else DesiredState.RUNNING
    if not asked and code != 0 and not returns:
        world.seen.states[uuid] = State.FAILED

    def over(call: Call) -> Record[Nothing]:
        life = call.ledger.lives.get(uuid)
        call.ledger.lives.mark_ended(uuid, life.invocation, recorded=True)
        if not asked and code == 0:
            call.ledger.runs.want(uuid, DesiredState.STOPPED, call.now, reason="ended")
        result = AgentEnded(
            uuid, name, code, run.reason if asked else f"ended with {code}", code == 0, asked,
            (run.wanted if asked else own).value, returns,
            {"invocation": life.invocation, "nonce": life.nonce, "output": output},
        )  # fmt: skip
        emit(call, result)
        return Record(Nothing())

    world.broker.perform("watch", over)
    world.run()


def end_task(world: World, name: str, status: str = "success") -> None:
    """A task of this agent has come to its end, and it has no other."""

    def emit_end(call: Call) -> Record[Nothing]:
        result = TaskEnded("0" * 12, world.uuid(name), world.uuid("root"), status)
        emit(call, result)
        return Record(Nothing())

    world.broker.perform("task", emit_end)
    world.run()
