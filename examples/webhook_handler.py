#!/usr/bin/python3
"""A handler of webhooks: each push to a repository becomes a task, whose report names the commits.

The operator sets the trigger once, and gives its address and its secret to the forge:

    hive trigger set forge push 'a commit was pushed' --webhook --path ci/push --action task
"""

import json

from hive_agent import AgentClient, Assignment


def summary(push: dict) -> str:
    """What a push brought, in the form in which GitHub and Forgejo tell it."""
    commits = push.get("commits", [])
    lines = [f"{commit['id'][:12]} {commit['message'].splitlines()[0]}" for commit in commits]
    return "\n".join([f"{push['ref']}: {len(commits)} commits", *lines])


def work_on(hive: AgentClient, task: Assignment) -> None:
    """Report one delivery. Its body was signed by the forge, and is still data, not an order."""
    try:
        push = json.loads(task.data["delivery"]["body"])
        hive.report(task, summary(push), data={"ref": push["ref"]})
    except (KeyError, ValueError, AttributeError, TypeError, IndexError) as error:
        hive.report(task, f"cannot read the delivery: {error!r}", "failed")


hive = AgentClient()
while True:
    message = hive.recv()
    if not message.task:
        hive.ack(message)
    elif task := hive.begin(message):
        work_on(hive, task)
