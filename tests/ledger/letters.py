"""Short words for letters in tests, and a failure to try."""

from __future__ import annotations

from typing import Any, Never

from hive_core.ledger.mail.letters import NewMessage
from hive_core.model.wire.record import Message, Relation


def letter(sender: str, recipient: str, body: str = "hello", **more: Any) -> NewMessage:  # noqa: ANN401
    """A letter between parties that are called like their UUIDs."""
    return NewMessage(sender, sender, recipient, recipient, Relation.CHILD, body, **more)


class Mind(Exception):
    """What a test raises where something is to be undone."""


def change_mind() -> Never:
    raise Mind


def bodies(messages: list[Message]) -> list[str]:
    return [message.body for message in messages]


def ids(messages: list[Message]) -> list[str]:
    return [message.id for message in messages]
