"""A model call that hive-model answers itself, with an HTTP status."""

from __future__ import annotations

from dataclasses import dataclass

from typing_extensions import override


@dataclass(slots=True)
class CallFailed(Exception):
    """The answer to the client: `message` says why, and what to do where there is something.

    `code` is the error code of the chat and responses wires where it is not the usual one of the
    status; `retry` tells client libraries whether to try again (None: nothing is said).
    """

    status: int
    message: str
    code: str = ""
    retry: bool | None = None
    retry_after: float | None = None

    @override
    def __str__(self) -> str:
        return self.message

    @property
    def headers(self) -> list[tuple[bytes, bytes]]:
        headers = []
        if self.retry_after is not None:
            headers.append((b"retry-after", str(max(1, round(self.retry_after))).encode()))
        if self.retry is not None:
            headers.append((b"x-should-retry", str(self.retry).lower().encode()))
        return headers


def bad_request(message: str) -> CallFailed:
    return CallFailed(400, message)


def rate_limited(message: str, seconds: float) -> CallFailed:
    return CallFailed(429, message, retry_after=seconds)


def unavailable(message: str) -> CallFailed:
    return CallFailed(503, message, retry_after=1.0)


def provider_fault(message: str, status: int = 502) -> CallFailed:
    return CallFailed(status, message)
