"""The text of running turns: as lines between other lines, or as it comes in a conversation."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from hive_core.agent.reconnect import wire_name
from hive_core.cli.core.output import Row
from hive_core.cli.core.session import Session, entries
from hive_core.errors import HiveError

# A line without an end is shown in pieces of about so many characters.
_PIECE: Final = 200
_GAP: Final = "[...] "
# Seconds between the attempts to go on after a restart of the daemon.
_PAUSES: Final = (0.2, 0.5, 1.0, 2.0, 4.0, 4.0)


def follow_turns(session: Session, name: str) -> Iterator[Row]:
    """The text of an agent's turns as it is written, over restarts of the daemon.

    It ends without an error: what else the command reads tells what is wrong.
    """
    params: dict[str, object] = {"agent": name}
    for pause in _PAUSES:
        with suppress(HiveError):
            for page in session.link.stream(wire_name("watch_turn"), params):
                params["after"] = page.get("next")
                yield from entries(page, "parts")
        threading.Event().wait(pause)


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0


class LiveLines:
    """Joins the parts of turns into whole lines. A gap marks text that the daemon no longer has."""

    def __init__(self) -> None:
        self._pending: dict[tuple[str, int], str] = {}
        self._written: dict[tuple[str, int], int] = {}

    def new_text(self, part: Row) -> str:
        """The text of a part, with a mark where text before it is missing."""
        key, text = _key(part), str(part.get("text") or "")
        at = _number(part.get("at"))
        is_gap = at > self._written.get(key, 0)
        self._written[key] = at + len(text)
        if part.get("ended"):
            self._written.pop(key, None)
        return f"{_GAP}{text}" if is_gap else text

    def lines(self, part: Row) -> Iterator[str]:
        """The lines that this part completes. The end of the turn completes its last line."""
        key = _key(part)
        *whole, rest = (self._pending.pop(key, "") + self.new_text(part)).split("\n")
        while len(rest) > _PIECE and (at := rest.rfind(" ", 0, _PIECE)) > 0:
            whole.append(rest[:at])
            rest = rest[at + 1 :]
        if part.get("ended"):
            whole, rest = [*whole, rest], ""
        if rest:
            self._pending[key] = rest
        yield from (line for line in whole if line)


def _key(part: Row) -> tuple[str, int]:
    return str(part.get("conversation")), _number(part.get("turn"))
