"""Registered secrets, taken out of what is written down.

A value is found as it is and in the forms in which programs pass it on: escaped for JSON (also
twice) or for a URL, in base64 at any of its three offsets, in hexadecimal digits; of a value of
several lines each line counts. What is shorter than six characters is no secret: masking it would
take words out of other texts. A value that is cut in two, or encoded otherwise, is not found.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterable, Iterator, Mapping
from typing import Final
from urllib.parse import quote, quote_plus

LEAST: Final = 6
SHOWN: Final = "***"


class Masks:
    """What is added stays: a value that was taken back may still be going round."""

    def __init__(self) -> None:
        self._forms: set[str] = set()
        self._pattern: re.Pattern[str] | None = None

    def add(self, value: bytes) -> None:
        """From now on this is not written down."""
        text = value.decode("utf-8", "replace")
        known = len(self._forms)
        for each in {text.strip(), *(line.strip() for line in text.splitlines())}:
            if len(each) >= LEAST:
                self._forms.update(forms(each))
        if len(self._forms) != known:
            self._pattern = re.compile("|".join(map(re.escape, _longest_first(self._forms))))

    def hide(self, text: str) -> str:
        """The text without any of them."""
        return text if self._pattern is None else self._pattern.sub(SHOWN, text)

    def clean(self, fields: Mapping[str, object]) -> Mapping[str, object]:
        """The same for JSON, keys included."""
        if self._pattern is None:
            return fields
        return {self.hide(key): self._value(value) for key, value in fields.items()}

    def _value(self, value: object) -> object:
        match value:
            case str():
                return self.hide(value)
            case Mapping():
                return self.clean({str(key): each for key, each in value.items()})
            case list() | tuple():
                return [self._value(each) for each in value]
            case _:
                return value


def _longest_first(found: Iterable[str]) -> list[str]:
    return sorted(found, key=lambda each: (-len(each), each))


def forms(text: str) -> Iterator[str]:
    """The ways in which a text is written."""
    yield text
    for ascii_only in (True, False):
        once = json.dumps(text, ensure_ascii=ascii_only)[1:-1]
        yield from (once, json.dumps(once, ensure_ascii=ascii_only)[1:-1])
    yield from (quote(text, safe=""), quote(text), quote_plus(text))
    data = text.encode()
    yield from (data.hex(), data.hex().upper())
    for shift in range(3):
        # The characters that hold bits of the value alone.
        start, end = -(-shift * 8 // 6), (shift + len(data)) * 8 // 6
        for encode in (b64encode, urlsafe_b64encode):
            inner = encode(b"\0" * shift + data).decode()[start:end]
            if len(inner) >= LEAST:
                yield inner
