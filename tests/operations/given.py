"""Tasks as a test gives and ends them."""

from __future__ import annotations

from operations.world import World


def give(world: World, assigner: str, agent: str, **wish: object) -> str:
    """A task, taken by its agent; its id."""
    given = {"description": "mend it", **wish}
    task = str(world.call(assigner, "assign_task", agent=agent, **given)["task"])
    take(world, agent)
    return task


def take(world: World, agent: str) -> list[dict[str, object]]:
    """All that waits for an agent, read and acked, its tasks begun."""
    found = read(world, agent)
    for each in found:
        head = str(each["body"]).partition("\n")[0]
        if each["kind"] == "task" and each["relation"] == "daemon":
            world.call(agent, "begin_task", task=head.removeprefix("task: "))
    return found


def read(world: World, agent: str) -> list[dict[str, object]]:
    """All that waits for an agent, read and acked, and nothing is done about it."""
    found = world.call(agent, "recv", max=100)["messages"]
    assert isinstance(found, list)
    if found:
        world.call(agent, "ack", ids=[each["id"] for each in found])
    return found


def finish(world: World, agent: str, task: str, status: str = "success", **more: object) -> None:
    world.call(agent, "finish_task", task=task, status=status, **{"summary": "done", **more})


def state(world: World, task: str) -> str:
    return world.ledger.tasks.require(task).state.value


def end(world: World, task: str, status: str = "success", **more: object) -> None:
    """Its agent reports."""
    found = world.ledger.tasks.require(task)
    finish(world, str(world.hive.name(found.assignee)), task, status, **more)


def phase(world: World, task: str) -> str:
    """Its state, or `offered`: queued, and its agent may begin it."""
    found = world.ledger.tasks.require(task)
    return "offered" if found.offered else found.state.value
