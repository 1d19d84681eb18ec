"""A span, and its JSON in OTLP.

https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding says how it is written: ids are
hexadecimal, 64-bit numbers are strings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from pydantic import BaseModel, ConfigDict

from hive_core.plan.printable import escape

TEXT_MOST: Final = 256
INTERNAL, CLIENT = 1, 3
_OK, _ERROR = 1, 2
_NANO: Final = 1_000_000_000
Attribute = str | bool | int | float


class Span(BaseModel):
    """One operation. `parent`: empty for the first span of a trace; `error`: why it failed."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    trace: str
    id: str
    parent: str = ""
    kind: int = INTERNAL
    start: float
    end: float
    attributes: dict[str, Attribute] = {}
    error: str = ""
    ok: bool = False


def export_request(
    spans: Sequence[Span], resource: Mapping[str, Attribute], version: str
) -> dict[str, object]:
    """An ExportTraceServiceRequest."""
    scope = {"scope": {"name": "hive", "version": version}, "spans": list(map(_span_json, spans))}
    return {
        "resourceSpans": [
            {"resource": {"attributes": _attributes_json(resource)}, "scopeSpans": [scope]}
        ]
    }


def _span_json(span: Span) -> dict[str, object]:
    status: dict[str, object] = {}
    if span.error:
        status = {"code": _ERROR, "message": printable(span.error)}
    elif span.ok:
        status = {"code": _OK}
    parent = {"parentSpanId": span.parent} if span.parent else {}
    start = max(0.0, span.start)
    return {
        "traceId": span.trace, "spanId": span.id, **parent, "name": printable(span.name),
        "kind": span.kind, "startTimeUnixNano": _nanoseconds(start),
        "endTimeUnixNano": _nanoseconds(max(start, span.end)),
        "attributes": _attributes_json(span.attributes), "status": status,
    }  # fmt: skip


def printable(text: str) -> str:
    """Text of others: bounded, and no character of it acts on a screen."""
    return escape(text[:TEXT_MOST])[:TEXT_MOST]


def _nanoseconds(time: float) -> str:
    return str(round(time * 1_000_000) * (_NANO // 1_000_000))


def _attributes_json(attributes: Mapping[str, Attribute]) -> list[dict[str, object]]:
    return [
        {"key": key, "value": _value_json(value)}
        for key, value in attributes.items()
        if value not in ("", None)
    ]


def _value_json(value: Attribute) -> dict[str, object]:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    return {"stringValue": printable(value)}
