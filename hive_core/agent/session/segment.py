"""A segment: the messages of a conversation up to the end of a turn, for another one to go on from.

It has what a runtime needs of them, and nothing of turns, letters and keys. The record of it is
the first one of each new conversation of an agent that has inherited a segment.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from hive_core.agent.session.records import Record
from hive_core.agent.session.state import ConversationState, texts
from hive_core.errors import Conflict, InvalidArgument

FILE: Final = "inherited"
_SYSTEM: Final = "system-prompt"
SEGMENT_MOST: Final = 12 << 20  # a record of a log has to hold it


def segment_of(records: Sequence[Record]) -> bytes:
    """The segment of a log up to its last turn that has ended; Conflict where it has none."""
    ends = [at for at, record in enumerate(records) if record["t"] == "closed"]
    state = ConversationState.of(records[: ends[-1] + 1] if ends else ())
    if not state.history:
        raise Conflict("no turn of this conversation has ended, so nothing of it can be inherited")
    calls = [
        {"id": call.id, "name": call.name, "arguments": call.arguments,
         "content": str((call.result or {}).get("content") or ""),
         "is_error": (call.result or {}).get("is_error") is not False}
        for call in state.calls
    ]  # fmt: skip
    rows = {"history": [_without_system(text) for text in state.history], "calls": calls}
    data = json.dumps(rows, ensure_ascii=False, separators=(",", ":")).encode(errors="replace")
    if len(data) > SEGMENT_MOST:
        raise Conflict(
            f"the conversation has {len(data)} bytes, and {SEGMENT_MOST} can be inherited"
        )
    return data


def _without_system(text: str) -> str:
    """A message whose system prompt is empty: that of the queen has her persona and her phase.

    The runtime puts the prompt of the conversation that goes on in its place.
    """
    try:
        message = json.loads(text)
    except (ValueError, RecursionError):
        return text
    parts = message.get("parts") if isinstance(message, dict) else None
    systems = [part for part in parts if isinstance(part, dict)
               and part.get("part_kind") == _SYSTEM] if isinstance(parts, list) else []  # fmt: skip
    for part in systems:
        part["content"] = ""
    return json.dumps(message, ensure_ascii=False, separators=(",", ":")) if systems else text


def read_segment(data: bytes) -> Record:
    """The record of a segment; InvalidArgument for bytes that are none."""
    try:
        rows = json.loads(data) if len(data) <= SEGMENT_MOST else None
    except (ValueError, RecursionError):
        rows = None
    match rows:
        case {"history": [*history], "calls": [*calls]} if texts(history) == history != [] and all(
            isinstance(call, dict) for call in calls
        ):
            return {"t": "inherit", "history": history, "calls": calls}
        case _:
            raise InvalidArgument("it is not a segment of a conversation", field="segment")


def inherited_records(folder: Path) -> list[Record]:
    """What a new conversation of these begins with."""
    try:
        data = (folder / FILE).read_bytes()
    except FileNotFoundError:
        return []
    return [read_segment(data)]
