"""What the replies of hived hold, as far as they hold it."""

from __future__ import annotations

from collections.abc import Mapping

from hive_core.varlink import Message

Row = Mapping[str, object]


def rows_of(reply: Row, field: str) -> list[Message]:
    """The objects in a list of an answer."""
    value = reply.get(field)
    return [row for row in value if isinstance(row, dict)] if isinstance(value, list) else []
