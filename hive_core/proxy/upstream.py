"""The way to providers by HTTP: https, or http on this machine, or a Unix socket.

Transports are used without a client above them: nothing follows a redirect, keeps a cookie or reads
a file of passwords.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Final

import httpx2

from hive_core import VERSION
from hive_core.model.config.models import Wire
from hive_core.proxy.failure import provider_fault
from hive_core.proxy.provider import (
    ModelTarget,
    ProviderBroke,
    ProviderCall,
    ProviderUnreachable,
    UpstreamAnswer,
)
from hive_core.proxy.route import Headers, provider_headers

# Times of one call are limited by the caller, from the first byte on; these are for the rest.
_TIMES: Final = {"connect": 10.0, "write": 60.0, "pool": 10.0}
_LIMITS: Final = httpx2.Limits(
    max_connections=None, max_keepalive_connections=32, keepalive_expiry=30.0
)
_UNIX: Final = "unix:"
_UNIX_URL: Final = "http://localhost/v1"
_OWN_HEADERS: Final = [
    (b"user-agent", f"hive-model/{VERSION}".encode()), (b"accept-encoding", b"identity"),
]  # fmt: skip
_REDIRECTS: Final = range(300, 400)


@dataclass(slots=True)
class Upstream:
    """Holds the connections to providers, a pool for each way."""

    _transports: dict[str, httpx2.AsyncHTTPTransport] = field(default_factory=dict)

    async def open(self, target: ModelTarget, call: ProviderCall) -> UpstreamAnswer:
        """Send a call. ProviderUnreachable: no answer began."""
        data = call.data_for(target.model)
        query = f"?{call.route.query.decode()}" if call.route.query else ""
        path = f"{call.route.wire.path}{call.route.suffix}{query}"
        headers = provider_headers(call.headers) + key_headers(target, call.route.wire.wire)
        return await self.post(target.provider.base_url or "", path, headers, data)

    async def post(self, base: str, path: str, headers: Headers, data: bytes) -> UpstreamAnswer:
        url = _UNIX_URL if base.startswith(_UNIX) else base
        try:
            request = httpx2.Request(
                "POST", url + path, content=data, headers=headers + _OWN_HEADERS,
                extensions={"timeout": _TIMES},
            )  # fmt: skip
            response = await self._transport(base).handle_async_request(request)
        except (httpx2.TransportError, httpx2.InvalidURL, ssl.SSLError) as error:
            raise ProviderUnreachable(str(error) or type(error).__name__) from error
        stream = response.stream
        assert isinstance(stream, httpx2.AsyncByteStream)  # noqa: S101 - of this transport
        headers = response.headers.raw
        answer = UpstreamAnswer(response.status_code, headers, _chunks(stream), stream.aclose)
        if answer.status in _REDIRECTS or answer.header(b"content-encoding") not in (
            b"",
            b"identity",
        ):
            await answer.close()
            raise provider_fault("the provider answered with a redirect or a compressed body")
        return answer

    async def close(self) -> None:
        for transport in self._transports.values():
            await transport.aclose()
        self._transports.clear()

    def _transport(self, base: str) -> httpx2.AsyncHTTPTransport:
        way = base if base.startswith(_UNIX) else base.partition(":")[0]
        if way not in self._transports:
            self._transports[way] = _new_transport(way)
        return self._transports[way]


def _new_transport(way: str) -> httpx2.AsyncHTTPTransport:
    if way == "https":
        proxy = os.environ.get("HTTPS_PROXY") or os.environ.get("https_proxy") or None
        return httpx2.AsyncHTTPTransport(limits=_LIMITS, proxy=proxy)
    socket = way.removeprefix(_UNIX) if way.startswith(_UNIX) else None
    # No encryption on this machine, so no certificates are loaded.
    plain = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    return httpx2.AsyncHTTPTransport(verify=plain, limits=_LIMITS, uds=socket)


def key_headers(target: ModelTarget, wire: Wire) -> Headers:
    """The key of the provider, in the header that its wire has for it."""
    if not target.key:
        return []
    key = target.key.encode()
    if wire is Wire.MESSAGES:
        return [(b"x-api-key", key)]
    return [(b"authorization", b"Bearer " + key)]


async def _chunks(stream: httpx2.AsyncByteStream) -> AsyncIterator[bytes]:
    try:
        async for chunk in stream:
            yield chunk
    except (httpx2.TransportError, httpx2.StreamError, ssl.SSLError) as error:
        raise ProviderBroke(str(error) or type(error).__name__) from error
