"""Masking: registered secrets are replaced in everything that is written.

A secret is found as it is and in the forms in which programs pass it on: escaped for JSON (also
twice) or for a URL, in base64 at any of its three offsets, in hexadecimal digits; of a value of
several lines each line counts. A value of fewer than six characters is not masked: it would mask
words of other texts. A value that is cut in two, or encoded in another way, is not found.
"""

from __future__ import annotations

import json
import re
import sys
from base64 import b64encode, urlsafe_b64encode
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Final
from urllib.parse import quote, quote_plus

LEAST: Final = 6
SHOWN: Final = "***"
OLD: Final = 1000
FEW: Final = (
    100  # heads: a larger pattern takes as long to compile and run as a look at every position
)


class Masks:
    """Values that are hidden. An added value stays: one that was revoked may still be in use.

    Values that agents make themselves and retire stay until there are too many. Forms are found by
    their first six characters and their length, so that many of them make neither a new one nor a
    text slower: agents make secrets too, for their webhooks.
    """

    def __init__(self) -> None:
        # Lengths in descending order: a shorter form may be a part of a longer one.
        self._forms: dict[str, dict[int, set[str]]] = {}
        # The change of the heads at which the pattern was made: other threads use it meanwhile.
        self._change = 0
        self._pattern = 0, _pattern(())
        self._uses = Counter[str]()
        self._longest = 0  # of all forms that were ever added
        self._held = Counter[bytes]()
        self._old: dict[bytes, None] = {}

    def add(self, value: bytes) -> None:
        """Hide this value from now on."""
        self._held[value] += 1
        if value in self._old:
            del self._old[value]
        elif self._held[value] == 1:
            for form in _all_forms(value):
                self._add_form(form)

    def retire(self, value: bytes) -> None:
        """Retire a value; of the retired ones the last thousand are still hidden."""
        if value not in self._held:
            return
        self._held[value] -= 1
        if self._held[value] > 0:
            return
        del self._held[value]
        self._old[value] = None
        if len(self._old) > OLD:
            oldest = next(iter(self._old))
            del self._old[oldest]
            for form in _all_forms(oldest):
                self._remove_form(form)

    def _remove_form(self, form: str) -> None:
        self._uses[form] -= 1
        if self._uses[form] > 0:
            return
        del self._uses[form]
        head, size = form[:LEAST], len(form)
        self._forms[head][size].remove(form)
        if not self._forms[head][size]:
            del self._forms[head][size]
        if not self._forms[head]:
            del self._forms[head]
            self._change += 1

    def _add_form(self, form: str) -> None:
        self._uses[form] += 1
        self._longest = max(self._longest, len(form))
        known = self._forms.setdefault(form[:LEAST], {})
        if len(form) in known:
            known[len(form)].add(form)
        else:
            known[len(form)] = {form}
            self._forms[form[:LEAST]] = dict(sorted(known.items(), reverse=True))
            self._change += 1

    def hide(self, text: str, most: int = sys.maxsize) -> str:
        """The text without any of the values; at most `most` characters of it."""
        if not self._forms:
            return text[:most]
        parts, done, left = list[str](), 0, most
        while left > 0 and (match := self._next_match(text, done, done + left)):
            at, end = match
            parts += (text[done:at], SHOWN)
            left -= at - done + len(SHOWN)
            done = end
        return "".join((*parts, text[done : done + max(left, 0)]))[:most]

    def hide_end(self, text: str, most: int) -> str:
        """The last `most` characters of the text, without any of the values.

        A value that begins before them is left out as a whole, since only its end would be visible.
        """
        first = max(len(text) - most, 0)
        if not self._forms:
            return text[first:]
        begun = self._candidates(text, max(first - self._longest, 0), first)
        start = max([first, *(at + self._form_length(text, at) for at in begun)])
        return self.hide(text[start:])

    def _next_match(self, text: str, start: int, end: int) -> tuple[int, int] | None:
        """The first form that begins between these positions; it may end after them."""
        for at in self._candidates(text, start, min(end, len(text) - LEAST + 1)):
            if size := self._form_length(text, at):
                return at, at + size
        return None

    def _candidates(self, text: str, start: int, end: int) -> Iterator[int]:
        heads = self._forms
        if len(heads) > FEW:
            return (at for at in range(start, end) if text[at : at + LEAST] in heads)
        change, pattern = self._pattern
        if change != (now := self._change):
            pattern = _pattern(list(heads))
            self._pattern = now, pattern
        return (match.start() for match in pattern.finditer(text, start, end + LEAST - 1))

    def _form_length(self, text: str, at: int) -> int:
        """The length of the form that begins here; 0: none does."""
        known = self._forms.get(text[at : at + LEAST], {})
        return next((size for size in known if text[at : at + size] in known[size]), 0)

    def hide_fields(self, fields: Mapping[str, object]) -> Mapping[str, object]:
        """Mask secrets in a JSON value, keys included."""
        if not self._forms:
            return fields
        return {self.hide(key): self._value(value) for key, value in fields.items()}

    def _value(self, value: object) -> object:
        match value:
            case str():
                return self.hide(value)
            case Mapping():
                return self.hide_fields({str(key): member for key, member in value.items()})
            case list() | tuple():
                return [self._value(member) for member in value]
            case _:
                return value


def _pattern(heads: Iterable[str]) -> re.Pattern[str]:
    """Finds where a head begins; it consumes one character, since heads may overlap."""
    behind: dict[str, list[str]] = {}
    for head in sorted(heads):
        behind.setdefault(head[0], []).append(re.escape(head[1:]))
    ways = (f"{re.escape(first)}(?={'|'.join(rest)})" for first, rest in behind.items())
    return re.compile("|".join(ways))


def _all_forms(value: bytes) -> set[str]:
    """Every form of a value, and of each of its lines."""
    text = value.decode("utf-8", "replace")
    lines = {text.strip(), *(line.strip() for line in text.splitlines())}
    return {form for part in lines if len(part) >= LEAST for form in forms(part)}


def forms(text: str) -> Iterator[str]:
    """The forms in which programs write a text."""
    yield text
    for ascii_only in (True, False):
        once = json.dumps(text, ensure_ascii=ascii_only)[1:-1]
        yield from (once, json.dumps(once, ensure_ascii=ascii_only)[1:-1])
    yield from (quote(text, safe=""), quote(text), quote_plus(text))
    data = text.encode()
    yield from (data.hex(), data.hex().upper())
    for shift in range(3):
        # The characters that hold only bits of the value.
        start, end = -(-shift * 8 // 6), (shift + len(data)) * 8 // 6
        for encode in (b64encode, urlsafe_b64encode):
            inner = encode(b"\0" * shift + data).decode()[start:end]
            if len(inner) >= LEAST:
                yield inner
