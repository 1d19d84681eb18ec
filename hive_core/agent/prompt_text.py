"""Text of others inside a prompt: it can look like none of the tags that hive writes."""

from __future__ import annotations

import re
from typing import Final

TAGS: Final = (
    "message", "reminder", "session", "instructions", "persona", "memory", "judged-task",
    "judged-criteria", "judged-result",
)  # fmt: skip
_TAG: Final = re.compile(rf"<(?=\s*/?\s*(?:{'|'.join(TAGS)})\b)", re.IGNORECASE)
_ATTRIBUTE: Final = str.maketrans({
    "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "\n": " ", "\r": " ", "\t": " ",
})  # fmt: skip


def escape_tags(text: str) -> str:
    """The text with `&lt;` for the `<` of each tag of hive."""
    return _TAG.sub("&lt;", text)


def escape_attribute(text: str) -> str:
    """The text as the value of an attribute between double quotes."""
    return text.translate(_ATTRIBUTE)


def one_line(text: str) -> str:
    """The text on one line, without tags of hive."""
    return escape_tags(" ".join(text.split()))
