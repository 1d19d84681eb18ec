"""Webhooks: HTTP on a Unix socket, behind a proxy of the operator's that lets in who may come.

Only imported when they are switched on. What is wrong with a request, unknown address or bad
signature, is answered alike. A body is measured, signed and handed on; nobody here reads it.
"""

from __future__ import annotations

import asyncio
import base64
import hmac
import logging
import os
import shutil
import socket
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from typing_extensions import override
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from hive_core.errors import HiveError, Internal, LimitReached, NotAllowed, NotFound
from hive_core.host.vault import Vault
from hive_core.ledger.store import Ledger
from hive_core.model.names import is_uuid
from hive_core.model.trigger import Trigger
from hive_core.operations.trigger_hooks import Delivery, deliver
from hive_core.reconcile.given import Perform

log = logging.getLogger(__name__)
BODY_MOST: Final = 64 * 1024
LIFE: Final = 30.0  # seconds of one connection
CONNECTIONS: Final = 64
KEYS: Final = ("idempotency-key", "hive-delivery", "x-github-delivery")
SIGNATURES: Final = ("hive-signature", "x-hub-signature-256")
_PREFIX: Final = "sha256="
_KEY_MOST: Final = 128
_HEAD_MOST: Final = 16 * 1024
_METHODS: Final = ["POST", "PUT", "PATCH", "GET", "DELETE"]
NOBODY: Final = b"\0" * 32


class Patient(H11Protocol):
    """A connection ends after a while, whatever its peer does or leaves undone."""

    life: float = LIFE
    _end: asyncio.TimerHandle | None = None

    @override
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._end = asyncio.get_running_loop().call_later(self.life, transport.abort)
        if len(self.connections) > CONNECTIONS:
            transport.abort()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._end is not None:
            self._end.cancel()


@dataclass
class Hooks:
    """`GET` has no body, and is signed all the same: of nothing."""

    ledger: Ledger
    perform: Perform
    vault: Vault
    life: float = LIFE
    _server: asyncio.AbstractServer | None = field(default=None, init=False)

    async def listen(self, path: Path, group: str) -> None:
        """Serve at this place, to members of the group."""
        config = Config(
            self._app(), http=Patient, ws="none", lifespan="off", log_config=None,
            log_level="error",
            access_log=False, server_header=False, date_header=False, proxy_headers=False,
            h11_max_incomplete_event_size=_HEAD_MOST, timeout_keep_alive=5,
        )  # fmt: skip
        config.load()
        state = ServerState()

        def protocol() -> Patient:
            made = Patient(config=config, server_state=state, app_state={})
            made.life = self.life
            return made

        loop = asyncio.get_running_loop()
        self._server = await loop.create_unix_server(protocol, sock=_bound(path, group))
        log.info("Taking webhooks at %s", path)

    def close(self) -> None:
        if self._server is not None:
            self._server.close()

    def _app(self) -> Starlette:
        """What the router refuses by itself is answered as we answer."""
        return Starlette(
            routes=[Route("/hook/{hook}", self._take, methods=_METHODS)],
            exception_handlers={HTTPException: _nothing_there},
        )

    async def _take(self, request: Request) -> Response:
        try:
            async with asyncio.timeout(self.life):
                body = await _body(request)
        except (TimeoutError, ClientDisconnect):
            return Response(status_code=408)
        if body is None:
            return Response(status_code=413)
        return self._answer(request, body)

    def _answer(self, request: Request, body: bytes) -> Response:
        hook = str(request.path_params["hook"])
        trigger = self._known(hook)
        right = signed(self._secret(trigger), body, request.headers.get)
        if trigger is None or not right or request.method not in trigger.rule.methods:
            return Response(status_code=404)
        return self._handed(trigger, request, body)

    def _known(self, hook: str) -> Trigger | None:
        found = self.ledger.triggers.by_hook(hook) if is_uuid(hook) else None
        return found if found is not None and found.enabled and not found.parked else None

    def _secret(self, trigger: Trigger | None) -> bytes:
        """For an address that nobody has, the work is the same."""
        if trigger is None:
            return NOBODY
        try:
            return self.vault.read(trigger.hook, trigger.secret)
        except HiveError as error:
            log.warning("Cannot read what webhook %s is signed with: %s", trigger.id, error)
            return os.urandom(32)

    def _handed(self, trigger: Trigger, request: Request, body: bytes) -> Response:
        """Accepted means that it is on the disk."""
        keys = (request.headers.get(name) for name in KEYS)
        key = next((each for each in keys if each), "")
        if len(key) > _KEY_MOST or not key.isprintable():
            return Response(status_code=400)
        kind = request.headers.get("content-type", "")[:100]
        text, encoding = _text(body)
        delivery = Delivery(trigger.id, key, kind, encoding, text)
        try:
            fire = self.perform("deliver", lambda call: deliver(call, delivery))
        except HiveError as error:
            return _refused(error)
        return JSONResponse({"fire": fire.fire}, status_code=202 if fire.new else 200)


def _nothing_there(_request: Request, _error: Exception) -> Response:
    return Response(status_code=404)


def _refused(error: HiveError) -> Response:
    if isinstance(error, NotFound | NotAllowed):
        return Response(status_code=404)
    if isinstance(error, LimitReached):
        after = error.fields.get("retry_after", 60)
        seconds = str(max(1, int(after))) if isinstance(after, int | float) else "60"
        return Response(status_code=429, headers={"Retry-After": seconds})
    log.warning("Cannot take what a webhook brings: %s", error)
    return Response(status_code=503, headers={"Retry-After": "60"})


async def _body(request: Request) -> bytes | None:
    """What comes, or None when it is more than it may be."""
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > BODY_MOST:
            return None
        parts.append(part)
    return b"".join(parts)


def signed(secret: bytes, body: bytes, header: Callable[[str], Any]) -> bool:
    """Whether one of the headers has the HMAC-SHA256 of the body, in hex; in constant time."""
    right = hmac.new(secret, body, "sha256").hexdigest().encode()
    found = False
    for name in SIGNATURES:
        said = str(header(name) or "").removeprefix(_PREFIX).lower()
        found |= hmac.compare_digest(said.encode("utf-8", "surrogateescape"), right)
    return found and secret != NOBODY


def _text(body: bytes) -> tuple[str, str]:
    try:
        return body.decode(), "utf-8"
    except UnicodeDecodeError:
        return base64.b64encode(body).decode(), "base64"


def _bound(path: Path, group: str) -> socket.socket:
    """A socket that nobody can reach before it is the group's."""
    path.unlink(missing_ok=True)
    found = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        before = os.umask(0o177)
        try:
            found.bind(str(path))
        finally:
            os.umask(before)
        shutil.chown(path, group=group)
        path.chmod(0o660)
        found.listen(CONNECTIONS)
        found.settimeout(0)
    except (OSError, LookupError) as error:
        found.close()
        with suppress(OSError):
            path.unlink(missing_ok=True)
        raise Internal(f"cannot listen at {path}: {error}") from error
    return found
