"""Ids of traces and spans, in the form of W3C Trace Context.

They follow from what they name, so that hived, hive-otel and a repeated export agree on them
without a word: https://www.w3.org/TR/trace-context/
"""

from __future__ import annotations

import re
from hashlib import blake2b
from typing import Final, NamedTuple

PATTERN: Final = r"^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$"
_SAMPLED: Final = "01"


class TraceParent(NamedTuple):
    """The trace that a request belongs to, and the span that it was made in."""

    trace: str
    span: str

    # `hive` starts without typing_extensions, which has `override`.
    def __str__(self) -> str:  # type: ignore[explicit-override]
        return f"00-{self.trace}-{self.span}-{_SAMPLED}"


def parse_traceparent(text: str) -> TraceParent | None:
    """The value of a header `traceparent`; None where it is not one of version 00."""
    if not re.fullmatch(PATTERN, text):
        return None
    _, trace, span, _ = text.split("-")
    return TraceParent(trace, span) if trace.strip("0") and span.strip("0") else None


def trace_id(thing: str) -> str:
    """32 hexadecimal digits for what begins a trace, such as an outermost task."""
    return blake2b(thing.encode(), digest_size=16).hexdigest()


def span_id(*thing: str) -> str:
    """16 hexadecimal digits for what a span is about."""
    return blake2b("\0".join(thing).encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def attempt_span(task: str, attempt: int) -> str:
    """The span of one attempt of a task."""
    return span_id("attempt", task, str(attempt))
