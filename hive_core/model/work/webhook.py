"""What a webhook is asked, and whether it is signed. Pure.

Two signatures are good, each an HMAC-SHA256 with the secret of the trigger, in hex. One is over the
body alone, as GitHub makes it, and does for POST. The other is over all that decides what the
request does and when: who overhears it can send it again to no effect.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

WINDOW: Final = 300.0  # seconds that the clocks of sender and host may be apart
KEYS: Final = ("idempotency-key", "hive-delivery", "x-github-delivery")
SIGNATURE: Final = "hive-signature"
GITHUB: Final = "x-hub-signature-256"
TIME: Final = "hive-timestamp"
WHOLE: Final = "v1="
# What a body that begins so was signed for is another thing.
HEAD: Final = b"hive-v1\n"
NOBODY: Final = b"\0" * 32
_BODY: Final = "sha256="
_KEY_MOST: Final = 128
_TIME_MOST: Final = 12
_ONCE: Final = frozenset({*KEYS, SIGNATURE, GITHUB, TIME})
_PLAIN: Final = "POST"


class SignatureScope(IntEnum):
    NOT = 0
    BODY = 1
    WHOLE = 2


@dataclass(frozen=True, slots=True)
class WebhookRequest:
    """One request. `target`: path and query as they came, nothing decoded."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def delivery_key(self) -> str:
        """The key that the sender gave; empty: none."""
        return next((found for name in KEYS if (found := self.headers.get(name))), "")

    def repeat_key(self, found: SignatureScope, secret: bytes) -> str:
        """What tells a repeat: nothing that is not signed, or who overhears it could change it.

        A signature over all of a request covers the key, and is good once where there is none. Of
        one over the body alone the body is all that tells.
        """
        if found is SignatureScope.WHOLE:
            return self.delivery_key or self.headers.get(SIGNATURE, "").lower()
        return f"body:{hmac.new(secret, self.body, 'sha256').hexdigest()}"

    def signed_text(self) -> bytes:
        """What the whole signature is over."""
        lines = (self.method, self.target, self.headers.get(TIME, ""), self.delivery_key)
        return HEAD + "".join(f"{each}\n" for each in lines).encode("latin-1") + self.body


def unique_headers(headers: Iterable[tuple[str, str]]) -> Mapping[str, str] | None:
    """The headers by name; None when one that decides something comes twice, or is malformed."""
    found: dict[str, str] = {}
    for name, value in headers:
        if name in _ONCE and name in found:
            return None
        found.setdefault(name, value)
    keys = [found[name] for name in KEYS if name in found]
    fit = all(len(key) <= _KEY_MOST and key.isascii() and key.isprintable() for key in keys)
    return found if fit else None


def signature_scope(secret: bytes, asked: WebhookRequest, now: float) -> SignatureScope:
    """What of a request is signed; it takes as long whatever is right of it."""
    mark, other = asked.headers.get(SIGNATURE, ""), asked.headers.get(GITHUB, "")
    body = _matches(mark, _BODY, secret, asked.body) | _matches(other, _BODY, secret, asked.body)
    whole = mark.startswith(WHOLE) & _matches(mark, WHOLE, secret, asked.signed_text())
    if secret == NOBODY:
        return SignatureScope.NOT
    if whole and _is_fresh(asked.headers.get(TIME, ""), now):
        return SignatureScope.WHOLE
    return SignatureScope.BODY if body and not asked.body.startswith(HEAD) else SignatureScope.NOT


def is_sufficient(found: SignatureScope, method: str, *, strict: bool) -> bool:
    """Whether that signature does: an empty body says nothing about what a GET is for."""
    return found >= (SignatureScope.WHOLE if strict or method != _PLAIN else SignatureScope.BODY)


def _matches(said: str, head: str, secret: bytes, text: bytes) -> bool:
    right = hmac.new(secret, text, "sha256").hexdigest().encode()
    given = said.removeprefix(head).lower().encode("utf-8", "surrogateescape")
    return hmac.compare_digest(given, right)


def _is_fresh(said: str, now: float) -> bool:
    digits = said.isascii() and said.isdecimal() and len(said) <= _TIME_MOST
    return digits and abs(now - int(said)) <= WINDOW
