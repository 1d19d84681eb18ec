"""What a model reads of a letter, of a task and of the time, as text.

The session alone writes the tags: in text of others each `<` that could begin one is escaped.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from hive_core.agent.letter import ReceivedLetter
from hive_core.agent.prompt_text import escape_attribute, escape_tags


def message_text(letter: ReceivedLetter) -> str:
    """A letter: `<message from="lead" relation="parent" kind="message" id="...">`."""
    fields = {
        "from": letter.sender, "relation": letter.relation, "kind": letter.kind, "id": letter.id,
        "thread": letter.thread, "reply_to": letter.reply_to, "source": letter.source,
    }  # fmt: skip
    head = " ".join(f'{key}="{escape_attribute(value)}"' for key, value in fields.items() if value)
    return f"<message {head}>\n{escape_tags(letter.body)}\n</message>"


def reminder_text(facts: Mapping[str, str], now: float | None = None) -> str:
    """Facts of this moment, with their date: they change, and the system prompt does not."""
    date = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now))
    lines = "".join(f"{key}: {escape_tags(value)}\n" for key, value in facts.items() if value)
    return f'<reminder date="{date}">\n{lines}</reminder>'


def session_text(text: str) -> str:
    """Something that the session itself says to the model."""
    return f"<reminder>\n{text}\n</reminder>"
