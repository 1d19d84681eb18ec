"""Questions in tests: put, looked at, and read as the mail that they come as."""

from __future__ import annotations

import json

from operations.world import Reply, World, rows

DAY = 86_400.0


def ask(world: World, caller: str, *prompts: str, **more: object) -> str:
    """A question with a prompt for each item; its id."""
    items = [{"prompt": item} for item in prompts or ("Which?",)]
    return str(world.call(caller, "ask", items=items, **more)["question"])


def escalate(world: World, caller: str, severity: str = "error", **more: object) -> str:
    issue = str(more.pop("issue", "it burns"))
    reply = world.call(caller, "escalate", issue=issue, severity=severity, **more)
    return str(reply["escalation"])


def answer(world: World, caller: str, question: str, *texts: str) -> Reply:
    return world.call(caller, "answer", question=question, answers=list(texts))


def row(world: World, question: str) -> Reply:
    """As the operator sees it."""
    result = world.call("operator", "get_question", question=question)["question"]
    assert isinstance(result, dict)
    return result


def letters(world: World, name: str, kind: str) -> list[Reply]:
    """The first lines of all mail of this kind that somebody has."""
    mail = world.mail(name)
    return [json.loads(str(letter["body"]).partition("\n")[0]) for letter in mail
            if letter["kind"] == kind]  # fmt: skip


def hops(world: World, question: str) -> list[tuple[object, object]]:
    """On whom it has waited, and why it came there."""
    result = world.call("operator", "get_question", question=question)["hops"]
    return [(item["to"], item["why"]) for item in rows(result)]
