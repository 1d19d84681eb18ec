"""Tasks as a test gives and ends them."""

from __future__ import annotations

from operations.world import World

from hive_core.broker.call import Call, Record
from hive_core.broker.operation import Result
from hive_core.model.task import TaskWish
from hive_core.operations.assigning import assign


def give(world: World, assigner: str, agent: str, **wish: object) -> str:
    """A task, taken by its agent; its id."""
    made: list[str] = []

    def act(call: Call) -> Record[Result]:
        given = TaskWish(**{"description": "mend it", **wish})  # type: ignore[arg-type]
        theirs = call._replace(caller=assigner, uuid=world.uuid(assigner))
        task, topics = assign(theirs, world.uuid(assigner), agent, given)
        made.append(task.id)
        return Record(Result(), topics)

    world.broker.perform("assign", act)
    world.run()
    take(world, agent)
    return made[0]


def take(world: World, agent: str) -> list[dict[str, object]]:
    """All that waits for an agent, read and acked."""
    found = world.call(agent, "recv", max=100)["messages"]
    assert isinstance(found, list)
    if found:
        world.call(agent, "ack", ids=[each["id"] for each in found])
    return found


def finish(world: World, agent: str, task: str, status: str = "success", **more: object) -> None:
    world.call(agent, "finish_task", task=task, status=status, **{"summary": "done", **more})


def state(world: World, task: str) -> str:
    return world.ledger.tasks.known(task).state.value
