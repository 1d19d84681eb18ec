"""The receiver of spans: OTLP over HTTP, in JSON."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import httpx2

from hive_core import VERSION
from hive_core.errors import InvalidArgument
from hive_core.otel.spans import Attribute, Span, export_request, printable
from hive_core.services.retries import retry_after

log = logging.getLogger(__name__)
TIMEOUT: Final = 20.0
_ANSWER_MOST: Final = 64 * 1024
_WAIT_MOST: Final = 3600.0  # that a receiver may ask for: events are pruned some day
_FIRST_REDIRECT: Final = 300
_TOO_LARGE: Final = 413
_RETRYABLE: Final = frozenset({408, 429, 502, 503, 504})
# What the operator has to mend; the log keeps the events meanwhile.
_MISCONFIGURED: Final = frozenset({401, 403, 404, 405})
_MISCONFIGURED_PAUSE: Final = 60.0


@dataclass(frozen=True, slots=True)
class Unsent:
    """The spans have to be sent again, after so many seconds at least."""

    reason: str
    after: float = 0.0


@dataclass(frozen=True, slots=True)
class OtlpReceiver:
    """One address. `headers` are secret."""

    url: str
    client: httpx2.AsyncClient
    resource: Mapping[str, Attribute]
    headers: Mapping[str, str] = field(default_factory=dict)

    async def send(self, spans: Sequence[Span]) -> Unsent | None:
        """Send the spans once. None: the receiver took them, or refused them for good."""
        request = export_request(spans, self.resource, VERSION)
        body = json.dumps(request, separators=(",", ":")).encode()
        sent = {"Content-Type": "application/json", **self.headers}
        try:
            async with (
                asyncio.timeout(TIMEOUT),
                self.client.stream("POST", self.url, content=body, headers=sent, timeout=TIMEOUT,
                                   follow_redirects=False) as response,
            ):  # fmt: skip
                answer = await _read_beginning(response)
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
            return Unsent(f"{type(error).__name__}: {error}")
        status = response.status_code
        if status == _TOO_LARGE and len(spans) > 1:
            return await self._send_halves(spans)
        after = retry_after(response.headers.get("retry-after"), time.time())
        return _outcome(status, min(after, _WAIT_MOST), answer, len(spans))

    async def _send_halves(self, spans: Sequence[Span]) -> Unsent | None:
        half = len(spans) // 2
        return await self.send(spans[:half]) or await self.send(spans[half:])


async def _read_beginning(response: httpx2.Response) -> bytes:
    """What a receiver answers, which is short; a longer answer is not read to its end."""
    answer = b""
    async for part in response.aiter_bytes():
        answer += part
        if len(answer) > _ANSWER_MOST:
            break
    return answer


def _outcome(status: int, after: float, body: bytes, count: int) -> Unsent | None:
    reason = f"the receiver answered with {status}"
    if status < _FIRST_REDIRECT:
        _log_partial_success(body)
        return None
    if status in _RETRYABLE:
        return Unsent(reason, after)
    if status in _MISCONFIGURED:
        return Unsent(f"{reason}: check `url` and the headers", _MISCONFIGURED_PAUSE)
    log.error("Discarded %d spans: %s", count, reason)
    return None


def _log_partial_success(body: bytes) -> None:
    try:
        answer = json.loads(body or b"{}")
        partial = answer.get("partialSuccess") or {}
        rejected = int(partial.get("rejectedSpans") or 0)
    except (ValueError, AttributeError, TypeError, RecursionError):
        return
    if rejected:
        reason = printable(str(partial.get("errorMessage") or ""))
        log.warning("The receiver rejected %d spans: %s", rejected, reason)


def parse_headers(text: str) -> dict[str, str]:
    """The headers of the secret, one `NAME: VALUE` a line."""
    headers: dict[str, str] = {}
    for line in filter(str.strip, text.splitlines()):
        name, colon, value = line.partition(":")
        if not colon or not name.strip().replace("-", "").isalnum() or not value.strip().isascii():
            raise InvalidArgument(
                "a line of /etc/hive/otel/headers is not NAME: VALUE", field="url"
            )
        headers[name.strip()] = value.strip()
    return headers
