"""What every request and every response must have. Pure: no state, no effect."""

from __future__ import annotations

import base64
import hmac
import secrets
from collections.abc import Iterable, Mapping
from hashlib import sha256
from http.cookies import CookieError, SimpleCookie
from typing import Final

COOKIE: Final = "__Host-hive"
TOKEN_FIELD: Final = "form_token"  # noqa: S105 - the name of a field
SAFE_METHODS: Final = frozenset({"GET", "HEAD"})
CSP: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self';"
    " form-action 'self'; base-uri 'none'; frame-ancestors 'none';"
    " require-trusted-types-for 'script'; trusted-types hive"
)
SECURITY_HEADERS: Final[Mapping[str, str]] = {
    "content-security-policy": CSP,
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}
_TOKEN_BYTES: Final = sha256().digest_size
_NUMERIC: Final = ("127.0.0.1", "[::1]")

Headers = Iterable[tuple[bytes, bytes]]


def single_header(headers: Headers, name: bytes) -> str | None:
    """The value of a header; None where it is missing, given twice, or not ASCII."""
    values = [value for key, value in headers if key == name]
    if len(values) != 1 or not values[0].isascii():
        return None
    return values[0].decode()


def canonical_host(host: str, hosts: Mapping[str, str]) -> str | None:
    """The origin to send a browser to that came by the number of this host; None: refuse it.

    Passkeys exist for names only, and a page at another name could resolve to this address.
    """
    name, _, port = host.rpartition(":")
    if name not in _NUMERIC:
        return None
    return hosts.get(f"localhost:{port}")


def is_own_request(headers: Headers, origin: str) -> bool:
    """Whether a page of this origin sent it, as the browser says.

    With `no-referrer` browsers name the origin of a form as `null`; then the header that no page
    can set must say that it is ours.
    """
    site = single_header(headers, b"sec-fetch-site")
    sent = single_header(headers, b"origin")
    if site not in (None, "same-origin"):
        return False
    return sent == origin or (sent == "null" and site == "same-origin")


def is_by_script(headers: Headers) -> bool:
    """Whether a script made the request, and not a person who opened a page or sent a form."""
    return single_header(headers, b"sec-fetch-dest") == "empty"


def session_secret(headers: Headers) -> str | None:
    """The secret in the cookie; None without one, or where two cookies have its name."""
    values = [value.decode("latin-1") for key, value in headers if key == b"cookie"]
    pairs = [pair.strip() for value in values for pair in value.split(";")]
    own = [pair for pair in pairs if pair.partition("=")[0] == COOKIE]
    if len(own) != 1:
        return None
    try:
        return SimpleCookie(own[0])[COOKIE].value
    except (CookieError, KeyError):
        return None


def session_cookie(secret: str) -> str:
    return f"{COOKIE}={secret}; Path=/; Secure; HttpOnly; SameSite=Strict"


def ended_cookie() -> str:
    return f"{COOKIE}=; Path=/; Secure; HttpOnly; SameSite=Strict; Max-Age=0"


def form_token(secret: str) -> str:
    """A form token with a fresh mask, so that compressed pages do not leak it (BREACH)."""
    token, mask = _token(secret), secrets.token_bytes(_TOKEN_BYTES)
    return base64.urlsafe_b64encode(mask + _xor(mask, token)).decode()


def is_form_token(text: str, secret: str) -> bool:
    try:
        data = base64.b64decode(text.encode(), altchars=b"-_", validate=True)
    except ValueError:
        return False
    mask, masked = data[:_TOKEN_BYTES], data[_TOKEN_BYTES:]
    if len(mask) != _TOKEN_BYTES or len(masked) != _TOKEN_BYTES:
        return False
    return hmac.compare_digest(_xor(mask, masked), _token(secret))


def _token(secret: str) -> bytes:
    return hmac.digest(secret.encode(), b"forms of hive-web", "sha256")


def _xor(one: bytes, other: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(one, other, strict=True))
