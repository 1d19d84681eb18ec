"""Listings in pages that fit into one frame, so that a small request costs a bounded reply."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeVar

from pydantic import Field

from hive_core.broker.operation import Params, Result

# The part of a frame of 1 MiB that entries may use; the rest is the envelope.
REPLY_BYTES: Final = 1_000_000
# Rows of a page at most, however many are asked for: building one costs up to 0.1 ms of the loop,
# during which no other call is served (attack 61).
ROWS_MOST: Final = 100
# JSON writes a control character as six bytes.
ESCAPED: Final = 6

T = TypeVar("T")


class Paged(Params):
    """A listing in pages; called with `more`, the pages follow each other."""

    after: str | None = Field(
        None, max_length=200, description="`next` of the previous page; absent for the first page."
    )
    limit: int = Field(
        100, ge=1, le=1000, description="Maximum number of entries in a page, at most 100."
    )

    @property
    def most(self) -> int:
        """Entries that this page may have."""
        return min(self.limit, ROWS_MOST)


class Page(Result):
    next: str | None = Field(None, description="`after` of the next page; null at the end.")


def take_fitting(entries: Iterable[T], size: Callable[[T], int]) -> Iterator[T]:
    """The first entries that fit into one reply together; at least one if there is any."""
    left = REPLY_BYTES
    for number, entry in enumerate(entries):
        left -= size(entry)
        if left < 0 and number:
            return
        yield entry


def reply_bytes(*texts: str) -> int:
    """The most bytes that these texts take in a reply, with room for the other fields."""
    return 400 + ESCAPED * sum(len(text.encode()) for text in texts)
