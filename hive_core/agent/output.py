"""The output of `hive-agent`: JSON for programs, aligned lines for people.

Text of other parties is shown with control and direction characters escaped, so that it can neither
move the cursor nor look like other output.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Mapping
from typing import Final

from hive_core.agent import layout
from hive_core.errors import HiveError, InvalidArgument, MethodNotFound

# C0 without tab and newline, DEL, C1, and the format characters of Unicode that turn or hide text.
_HOSTILE: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f"
    "\u115f\u1160\u17b4\u17b5\u3164\uffa0\U00013430-\U0001343f\U0001bca0-\U0001bca3"
    "\ufeff\ufff9-\ufffb\U0001d173-\U0001d17a\U000e0000-\U000e007f\ud800-\udfff]"
)


# Seconds since 1970 of this century; no other fraction in a reply is as large.
_MOMENTS: Final = (1e9, 4.1e9)


def plain(text: str) -> str:
    """The text with all characters that act on a terminal escaped as ⟨U+001B⟩."""
    return _HOSTILE.sub(lambda match: f"⟨U+{ord(match.group()):04X}⟩", text)


def _json_escape(match: re.Match[str]) -> str:
    return json.dumps(match.group())[1:-1]


def as_json(value: object, indent: int | None = None) -> str:
    """JSON that keeps readable text and escapes what acts on a terminal; parses to the same."""
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    return _HOSTILE.sub(_json_escape, text)


def sentence(error: HiveError) -> str:
    """The text of an error for people."""
    match error:
        case InvalidArgument(field=field, reason=reason) if field and field not in reason:
            return f"{field}: {reason}"
        case MethodNotFound(reason=reason):
            return f"no method {reason}"
        case _:
            return str(error) or error.wire


def line(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def complaint(text: str) -> None:
    sys.stderr.write(f"hive-agent: {plain(text)}\n")


def _cell(value: object) -> str:
    match value:
        case None | "" | []:
            text = "-"
        case str():
            text = plain(value).replace("\n", "⏎").replace("\t", " ")
        case list() if all(isinstance(item, str) for item in value):
            text = ",".join(map(_cell, value))
        case float():
            text = _number(value)
        case _:
            text = as_json(value)
    return text


def _number(value: float) -> str:
    """A time as local time, any other number to a thousandth."""
    if _MOMENTS[0] <= value < _MOMENTS[1]:
        return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(value))
    return f"{value:.3f}".rstrip("0").rstrip(".")


# Columns of a listing on a terminal, where all of them would fit no line. JSON has all.
_FEW: Final[Mapping[str, tuple[str, ...]]] = {
    "messages": ("id", "sent_at", "from", "relation", "kind", "body"),
}


def _table(key: str, rows: list[Mapping[str, object]]) -> list[str]:
    few = _FEW.get(key, ()) if _columns() else ()
    names = [name for name in few or rows[0] if name in rows[0]]
    cells = [[name.upper() for name in names]]
    cells += [[_cell(row.get(name)) for name in names] for row in rows]
    return list(layout.table(cells, _columns()))


def _columns() -> int | None:
    """The width of the terminal; None when the output is not a terminal."""
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or None
    except (OSError, ValueError):
        return None


def _text(reply: Mapping[str, object]) -> list[str]:
    lines = []
    for key, value in reply.items():
        if isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
            lines += _table(key, value)
        elif isinstance(value, str) and "\n" in value:
            lines += [f"{key}:", *(f"    {plain(line)}" for line in value.split("\n"))]
        elif key != "next" or value is not None:  # there is no further page
            lines.append(f"{key}: {_cell(value)}")
    return lines


def result(reply: Mapping[str, object], style: str) -> None:
    """Print a reply of the daemon in this style."""
    for text in [as_json(reply)] if style == "json" else _text(reply):
        line(text)
