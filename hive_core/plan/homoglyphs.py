"""Finds words that look like other words: of two scripts, or of letters that look like Latin.

It only warns the reader, since such a word may be intended. Standard library only: jobs import this
file. https://www.unicode.org/reports/tr39/ lists all confusable characters; this module knows those
that look the same in common fonts.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

_WORD: Final = re.compile(r"[^\W_]+")
_FOREIGN: Final = re.compile(r"[^\x00-\x7f]")
# Scripts with letters that look alike; a word may mix others.
_SCRIPTS: Final = frozenset(
    {"LATIN", "CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE", "COPTIC", "GEORGIAN", "LISU", "DESERET",
     "GOTHIC", "OLD", "PHOENICIAN", "CARIAN", "LYCIAN", "LYDIAN", "TIFINAGH", "VAI", "WARANG"}
)  # fmt: skip
_LATIN_LIKE: Final = frozenset("аеорсухіјѕԁһӏԛԝьАВЕКМНОРСТХІЈЅԌԚԜҮѴοανρυικΑΒΕΖΗΙΚΜΝΟΡΤΥΧϹϳօոսցհԼՍՕ")
# Signs that look like those with a meaning for programs.
_SIGNS: Final = {
    "\u2044": "/", "\u2215": "/", "\u29f8": "/", "\u2024": ".", "\ua789": ":", "\u2236": ":",
    "\u01c3": "!", "\u02d0": ":", "\u2216": "\\", "\u29f5": "\\", "\u037e": ";", "\u201a": ",",
}  # fmt: skip


def confusable_text(text: str) -> Iterator[str]:
    """Describe each part of a line that may be confused with other text; none for plain ASCII."""
    if text.isascii():
        return
    for match in _WORD.finditer(text):
        word = match.group()
        if not word.isascii() and (reason := _fault(word)):
            yield f"{_quote(word)} {reason}"
    for char in dict.fromkeys(_FOREIGN.findall(text)):
        if twin := _twin(char):
            yield f"{_code(char)} looks like {_quote(twin)}"


def _fault(word: str) -> str:
    scripts = sorted({script for char in word if (script := _script(char)) in _SCRIPTS})
    odd = ", ".join(_code(char) for char in dict.fromkeys(word) if not char.isascii())
    if len(scripts) > 1:
        return f"mixes {' and '.join(scripts)} ({odd[:60]})"
    if len(word) > 1 and all(char in _LATIN_LIKE or char.isdigit() for char in word):
        return f"looks like Latin and is {scripts[0] if scripts else 'not'} ({odd[:60]})"
    return ""


@lru_cache(maxsize=1 << 14)
def _script(char: str) -> str:
    return unicodedata.name(char, "").partition(" ")[0] if char.isalpha() else ""


@lru_cache(maxsize=1 << 14)
def _twin(char: str) -> str:
    """The ASCII character that this one looks like, by compatibility or by shape."""
    plain = unicodedata.normalize("NFKC", char)
    folds = len(plain) == 1 and plain.isascii() and plain.isprintable() and plain != " "
    return plain if folds else _SIGNS.get(char, "")


def _code(char: str) -> str:
    return f"U+{ord(char):04X}"


def _quote(word: str) -> str:
    return f'"{word[:40]}"'
