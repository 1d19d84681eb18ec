"""What the server needs of an engine, and the stand-in for one that could not be loaded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from hive_core.small.request import ChatRefusal

Chunk = dict[str, object]


class ChatEngine(Protocol):
    """Answers chat calls, one after another; calls from several threads queue."""

    @property
    def context(self) -> int:
        """Size of the context in tokens."""
        ...

    def complete(self, fields: Mapping[str, object]) -> Chunk:
        """The whole answer. Raise ChatRefusal for a request that cannot be answered."""
        ...

    def stream(self, fields: Mapping[str, object], take: Callable[[Chunk], bool]) -> None:
        """Pass each part of the answer to `take`, until it returns True."""
        ...


class MissingEngine:
    """Answers every call with the reason why there is no model."""

    context = 1

    def __init__(self, reason: str) -> None:
        self.reason = reason

    def complete(self, fields: Mapping[str, object]) -> Chunk:  # noqa: ARG002 - as the protocol says
        raise ChatRefusal(503, "model_unavailable", self.reason)

    def stream(self, fields: Mapping[str, object], take: Callable[[Chunk], bool]) -> None:  # noqa: ARG002
        raise ChatRefusal(503, "model_unavailable", self.reason)
