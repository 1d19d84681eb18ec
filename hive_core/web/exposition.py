"""Metrics in the text format of Prometheus. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_ESCAPED: Final = str.maketrans({"\\": "\\\\", "\n": "\\n"})
_ESCAPED_LABEL: Final = str.maketrans({"\\": "\\\\", "\n": "\\n", '"': '\\"'})

Family = Mapping[str, object]


def metrics_text(families: Iterable[Family]) -> str:
    """The text of families, by name; those that arrive in parts are joined."""
    parts: dict[str, list[Family]] = {}
    for family in families:
        parts.setdefault(str(family["name"]), []).append(family)
    return "".join(line for name in sorted(parts) for line in _lines(parts[name]))


def _lines(parts: list[Family]) -> Iterator[str]:
    first = parts[0]
    kind, is_counter = str(first["type"]), first["type"] == "counter"
    name = f"{first['name']}_total" if is_counter else str(first["name"])
    yield f"# HELP {name} {str(first['help']).translate(_ESCAPED)}\n"
    yield f"# TYPE {name} {kind}\n"
    for sample in _samples(parts):
        suffix = "" if is_counter else str(sample.get("suffix") or "")
        yield f"{name}{suffix}{_labels(sample)} {_number(sample.get('value'))}\n"


def _samples(parts: list[Family]) -> Iterator[Family]:
    for part in parts:
        samples = part.get("samples")
        yield from (
            (row for row in samples if isinstance(row, dict)) if isinstance(samples, list) else ()
        )


def _labels(sample: Family) -> str:
    labels = sample.get("labels")
    if not isinstance(labels, dict) or not labels:
        return ""
    pairs = (f'{key}="{str(labels[key]).translate(_ESCAPED_LABEL)}"' for key in sorted(labels))
    return "{" + ",".join(pairs) + "}"


def _number(value: object) -> str:
    return repr(float(value)) if isinstance(value, int | float) else "NaN"
