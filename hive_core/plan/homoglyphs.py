"""Words that look like other words: letters of two scripts in one, or of one that pass for Latin.

Flags for whoever reads, and no more: a word may be meant as it is. Standard library only: jobs
import this file. https://www.unicode.org/reports/tr39/ lists all that can be confused; here stand
the letters that look the same in common fonts.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

_WORD: Final = re.compile(r"[^\W_]+")
_FOREIGN: Final = re.compile(r"[^\x00-\x7f]")
# Scripts with letters that pass for each other; others may well stand in one word.
_SCRIPTS: Final = frozenset(
    {"LATIN", "CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE", "COPTIC", "GEORGIAN", "LISU", "DESERET",
     "GOTHIC", "OLD", "PHOENICIAN", "CARIAN", "LYCIAN", "LYDIAN", "TIFINAGH", "VAI", "WARANG"}
)  # fmt: skip
_LATIN_LIKE: Final = frozenset("аеорсухіјѕԁһӏԛԝьАВЕКМНОРСТХІЈЅԌԚԜҮѴοανρυικΑΒΕΖΗΙΚΜΝΟΡΤΥΧϹϳօոսցհԼՍՕ")
# Signs that pass for those that programs give a meaning.
_SIGNS: Final = {
    "\u2044": "/", "\u2215": "/", "\u29f8": "/", "\u2024": ".", "\ua789": ":", "\u2236": ":",
    "\u01c3": "!", "\u02d0": ":", "\u2216": "\\", "\u29f5": "\\", "\u037e": ";", "\u201a": ",",
}  # fmt: skip


def alike(text: str) -> Iterator[str]:
    """What in a line may be taken for something else, in words; nothing for plain ASCII."""
    if text.isascii():
        return
    for found in _WORD.finditer(text):
        word = found.group()
        if not word.isascii() and (reason := _fault(word)):
            yield f"{_quoted(word)} {reason}"
    for char in dict.fromkeys(_FOREIGN.findall(text)):
        if twin := _twin(char):
            yield f"{_code(char)} looks like {_quoted(twin)}"


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
    """The letter, digit or sign of ASCII that it passes for, in another dress or by its look."""
    plain = unicodedata.normalize("NFKC", char)
    folds = len(plain) == 1 and plain.isascii() and plain.isprintable() and plain != " "
    return plain if folds else _SIGNS.get(char, "")


def _code(char: str) -> str:
    return f"U+{ord(char):04X}"


def _quoted(word: str) -> str:
    return f'"{word[:40]}"'
