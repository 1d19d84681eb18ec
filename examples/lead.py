#!/usr/bin/python3
"""A lead that splits its task: each line goes to a worker, the results are put together.

The workers run `wc -w` under `hive-agent serve`. WORKERS says how many there are, COMMAND what they
run in its place.
"""

import os
import shlex

from hive_agent import AgentClient, Assignment, TaskStopped

WORKERS = int(os.environ.get("WORKERS", "2"))
COMMAND = shlex.split(os.environ.get("COMMAND", "wc -w"))


def split(hive: AgentClient, task: Assignment) -> list[dict]:
    """Assign each line of the task to a worker; return what came out of each, in their order."""
    name = hive.call("whoami")["name"]
    workers = [f"{name}-worker-{number}" for number in range(1, WORKERS + 1)]
    for worker in workers:
        hive.spawn(worker, ["hive-agent", "serve", "--", *COMMAND], role="worker")
    parts = [
        hive.assign(workers[number % WORKERS], line, title=f"line {number + 1}", part_of=task.id)
        for number, line in enumerate(task.text.splitlines())
    ]
    return hive.wait(parts, task)


def work_on(hive: AgentClient, task: Assignment) -> None:
    """Report what the workers made of the task."""
    try:
        results = split(hive, task)
    except TaskStopped:
        hive.report(task, "stopped before all parts were done", "stopped")
        return
    failed = [part for part in results if part["status"] != "success"]
    summary = "\n".join(part["summary"] for part in results)
    hive.report(task, summary, "partial" if failed else "success")


hive = AgentClient()
while True:
    message = hive.recv()
    if not message.task:
        hive.reply(message, "send me a task: `hive task assign`")
    elif task := hive.begin(message):
        work_on(hive, task)
