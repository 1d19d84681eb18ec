"""Requests to webhooks, and their signatures. Pure.

There are two signatures, each an HMAC-SHA256 with the secret of the trigger, in hex. One signs the
body alone, as GitHub does, and is enough for POST. The other signs everything that decides what the
request does and when: an attacker who replays it has no effect.
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
# A body that begins with this may be the signed text of another request.
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
    """One request. `target`: path and query as they arrived, not decoded."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def delivery_key(self) -> str:
        """The delivery key of the sender; empty: none."""
        return next((key for name in KEYS if (key := self.headers.get(name))), "")

    def repeat_key(self, scope: SignatureScope, secret: bytes) -> str:
        """A key that is the same for a repeated request; made of signed parts only.

        An attacker could change other parts. A signature of the whole request covers its key, or
        counts once without one. A signature of the body alone leaves only the body.
        """
        if scope is SignatureScope.WHOLE:
            return self.delivery_key or self.headers.get(SIGNATURE, "").lower()
        return f"body:{hmac.new(secret, self.body, 'sha256').hexdigest()}"

    def signed_text(self) -> bytes:
        """The text that the signature of the whole request signs."""
        lines = (self.method, self.target, self.headers.get(TIME, ""), self.delivery_key)
        return HEAD + "".join(f"{line}\n" for line in lines).encode("latin-1") + self.body


def unique_headers(headers: Iterable[tuple[str, str]]) -> Mapping[str, str] | None:
    """The headers by name; None when one that matters comes twice, or is malformed."""
    unique: dict[str, str] = {}
    for name, value in headers:
        if name in _ONCE and name in unique:
            return None
        unique.setdefault(name, value)
    keys = [unique[name] for name in KEYS if name in unique]
    fit = all(len(key) <= _KEY_MOST and key.isascii() and key.isprintable() for key in keys)
    return unique if fit else None


def signature_scope(secret: bytes, request: WebhookRequest, now: float) -> SignatureScope:
    """Which part of a request is signed; takes the same time for right and wrong signatures."""
    mark, other = request.headers.get(SIGNATURE, ""), request.headers.get(GITHUB, "")
    body = _matches(mark, _BODY, secret, request.body) | _matches(
        other, _BODY, secret, request.body
    )
    whole = mark.startswith(WHOLE) & _matches(mark, WHOLE, secret, request.signed_text())
    if secret == NOBODY:
        return SignatureScope.NOT
    if whole and _is_fresh(request.headers.get(TIME, ""), now):
        return SignatureScope.WHOLE
    return SignatureScope.BODY if body and not request.body.startswith(HEAD) else SignatureScope.NOT


def is_sufficient(scope: SignatureScope, method: str, *, strict: bool) -> bool:
    """Whether that signature is enough: the empty body of a GET says nothing about the request."""
    return scope >= (SignatureScope.WHOLE if strict or method != _PLAIN else SignatureScope.BODY)


def _matches(said: str, head: str, secret: bytes, text: bytes) -> bool:
    right = hmac.new(secret, text, "sha256").hexdigest().encode()
    signature = said.removeprefix(head).lower().encode("utf-8", "surrogateescape")
    return hmac.compare_digest(signature, right)


def _is_fresh(said: str, now: float) -> bool:
    digits = said.isascii() and said.isdecimal() and len(said) <= _TIME_MOST
    return digits and abs(now - int(said)) <= WINDOW
