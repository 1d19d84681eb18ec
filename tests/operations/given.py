"""Tasks as a test gives and ends them."""

from __future__ import annotations

from operations.world import World


def give(world: World, assigner: str, agent: str, **wish: object) -> str:
    """A task, taken by its agent; its id."""
    params = {"description": "mend it", **wish}
    task = str(world.call(assigner, "assign_task", agent=agent, **params)["task"])
    take(world, agent)
    return task


def take(world: World, agent: str) -> list[dict[str, object]]:
    """All that waits for an agent, read and acked, its tasks begun."""
    messages = read(world, agent)
    for row in messages:
        head = str(row["body"]).partition("\n")[0]
        if row["kind"] == "task" and row["relation"] == "daemon":
            world.call(agent, "begin_task", task=head.removeprefix("task: "))
    return messages


def read(world: World, agent: str) -> list[dict[str, object]]:
    """All that waits for an agent, read and acked, and nothing is done about it."""
    messages = world.call(agent, "recv", max=100)["messages"]
    assert isinstance(messages, list)
    if messages:
        world.call(agent, "ack", ids=[row["id"] for row in messages])
    return messages


def finish(world: World, agent: str, task: str, status: str = "success", **more: object) -> None:
    world.call(agent, "finish_task", task=task, status=status, **{"summary": "done", **more})


def state(world: World, task: str) -> str:
    return world.ledger.tasks.require(task).state.value


def end(world: World, task: str, status: str = "success", **more: object) -> None:
    """Its agent reports."""
    result = world.ledger.tasks.require(task)
    finish(world, str(world.hive.name(result.assignee)), task, status, **more)


def phase(world: World, task: str) -> str:
    """Its state, or `offered`: queued, and its agent may begin it."""
    result = world.ledger.tasks.require(task)
    return "offered" if result.offered else result.state.value
