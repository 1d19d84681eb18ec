"""Escapes untrusted text, so that no character in it is invisible or changes its surroundings.

Text that looks like an escape is escaped too, so the original can be restored. Standard library
only: jobs import this file. https://trojansource.codes shows what hidden characters can do
(CVE-2021-42574).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

_ODD: Final = re.compile(r"[^\t\x20-\x7e]+")
_BRACKETS: Final = "\u27e8\u27e9"  # of the escapes themselves
# Characters that are invisible, though their category says otherwise.
_BLANK: Final = frozenset(
    map(
        chr,
        (
            0x34F, 0x115F, 0x1160, 0x17B4, 0x17B5, *range(0x180B, 0x1810), 0x2800, 0x3164,
            *range(0xFE00, 0xFE10), 0xFFA0, 0x16FE4, 0x1D159, *range(0xE0100, 0xE01F0),
        ),
    )
)  # fmt: skip
_MARKS_MOST: Final = 2  # on one letter; more of them cover the text around
_SPELLED: Final = re.compile(r"⟨(U\+[0-9A-F]{4,6})⟩")
_BYTES: Final = range(0xDC80, 0xDD00)  # how Python represents bytes that are not UTF-8 (PEP 383)


def escape(text: str) -> str:
    """The text with every character that is not plainly visible written as `⟨U+202E⟩`.

    Tabs stay. Bytes that are not UTF-8, decoded with `surrogateescape`, become `⟨0xFF00⟩`.
    """
    return _ODD.sub(_escape_match, text)


def escape_bytes(data: bytes) -> str:
    """The same for bytes that should be UTF-8."""
    return escape(data.decode("utf-8", "surrogateescape"))


def hidden_characters(text: str) -> list[str]:
    """The codes of the characters that are escaped in this text, each once; brackets left out."""
    codes = dict.fromkeys(_SPELLED.findall(text))
    return [code for code in codes if code not in ("U+27E8", "U+27E9")]


def _escape_match(match: re.Match[str]) -> str:
    before = match.string[match.start() - 1 : match.start()]
    return "".join(_runs(match.group(), before.isalpha()))


def _runs(text: str, after_letter: bool) -> Iterator[str]:  # noqa: FBT001 - state of a scan
    marks = 0 if after_letter else _MARKS_MOST
    pending = ""
    for char in text:
        if ord(char) in _BYTES:
            pending += f"{ord(char) - 0xDC00:02X}"
            marks = _MARKS_MOST
            continue
        if pending:
            yield f"⟨0x{pending}⟩"
            pending = ""
        kind = _kind(char)
        marks = marks + 1 if kind == "M" else 0 if kind == "L" else _MARKS_MOST
        yield char if (kind and marks <= _MARKS_MOST) or kind == "V" else f"⟨U+{ord(char):04X}⟩"
    if pending:
        yield f"⟨0x{pending}⟩"


@lru_cache(maxsize=1 << 16)
def _kind(char: str) -> str:
    """`L` for a letter, `M` for a mark on one, `V` for anything else visible; empty: invisible."""
    category = unicodedata.category(char)[0]
    if char in _BLANK or char in _BRACKETS or category in "CZ":
        return ""
    return category if category in "LM" else "V"
