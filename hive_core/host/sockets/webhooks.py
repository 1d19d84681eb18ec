"""Webhooks: HTTP on a Unix socket, behind a reverse proxy of the operator.

The module is imported only when webhooks are enabled. An unknown address and a bad signature get
the same answer after the same time. The daemon measures, verifies and delivers a body, and does not
interpret it.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import os
import re
import shutil
import socket
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send
from uvicorn.config import Config
from uvicorn.server import ServerState

from hive_core.errors import HiveError, Internal, LimitReached, NotAllowed, NotFound
from hive_core.host.sockets.slow_clients import BoundedHttpConnection
from hive_core.host.storage.secrets import SecretStore
from hive_core.ledger.core.ledger import Ledger
from hive_core.model.agents.hive import Hive
from hive_core.model.names import is_uuid
from hive_core.model.work.trigger import Trigger
from hive_core.model.work.webhook import (
    NOBODY,
    SignatureScope,
    WebhookRequest,
    is_sufficient,
    signature_scope,
    unique_headers,
)
from hive_core.operations.triggers.webhooks import Delivery, deliver_webhook
from hive_core.reconcile.deps import Perform

log = logging.getLogger(__name__)
BODY_MOST: Final = 64 * 1024
LIFE: Final = 30.0  # seconds of one connection
_BODY_PART: Final = 2 / 3  # share of the connection's life in which the body must arrive
# Seconds after which an unauthorized request is answered, however long the lookup took.
EVEN: Final = 0.02
_HEAD_MOST: Final = 8 * 1024
_ACCEPTED: Final = 4  # at once, so that many connections here do not delay other sockets
_BACKLOG: Final = 1024
# Matched literally: nothing is decoded, so that a hook has one address only.
_ADDRESS: Final = re.compile(r"/hook/([a-z0-9-]{1,64})(?:/([a-z0-9._/-]{1,200}))?")


@dataclass
class WebhookServer:
    """Receives webhooks. `clock` returns seconds since 1970."""

    ledger: Ledger
    perform: Perform
    vault: SecretStore
    hive: Callable[[], Hive]
    clock: Callable[[], float] = time.time
    life: float = LIFE
    _server: asyncio.AbstractServer | None = field(default=None, init=False)

    async def listen(self, path: Path, group: str) -> None:
        """Serve on a socket at `path`, for members of the group."""
        config = Config(
            self.app, interface="asgi3", http=BoundedHttpConnection, ws="none", lifespan="off",
            log_config=None, log_level="error", access_log=False, server_header=False,
            date_header=False, proxy_headers=False, h11_max_incomplete_event_size=_HEAD_MOST,
        )  # fmt: skip
        config.load()
        # One request for each connection: otherwise the proxy and this server could split a byte
        # stream into different requests.
        state, crowd = ServerState(), dict[BoundedHttpConnection, None]()
        state.default_headers = [(b"connection", b"close")]

        def protocol() -> BoundedHttpConnection:
            made = BoundedHttpConnection(config=config, server_state=state, app_state={})
            made.life, made.crowd = self.life, crowd
            return made

        loop, bound = asyncio.get_running_loop(), _bind_socket(path, group)
        self._server = await loop.create_unix_server(protocol, sock=bound, backlog=_ACCEPTED)
        bound.listen(_BACKLOG)  # asyncio has one parameter for both numbers
        log.info("Listening for webhooks on %s", path)

    def close(self) -> None:
        if self._server is not None:
            self._server.close()

    async def app(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request of any path and method. There is no router with answers of its own."""
        request, loop = Request(scope, receive), asyncio.get_running_loop()
        headers = unique_headers(request.headers.items())
        if headers is None:
            response: Response | None = Response(status_code=400)
        elif isinstance(body := await self._body(request), int):
            response = Response(status_code=body)
        else:
            until = loop.time() + EVEN
            response = self._answer(_webhook_request(request, headers, body))
            if response is None:
                await asyncio.sleep(until - loop.time())
        await (response or Response(status_code=404))(scope, receive, send)

    async def _body(self, request: Request) -> bytes | int:
        """The body, or an HTTP status if it is too large or too late."""
        parts, size = [], 0
        try:
            async with asyncio.timeout(self.life * _BODY_PART):
                async for part in request.stream():
                    size += len(part)
                    if size > BODY_MOST:
                        return 413
                    parts.append(part)
        except (TimeoutError, ClientDisconnect):
            return 408
        return b"".join(parts)

    def _answer(self, asked: WebhookRequest) -> Response | None:
        """The answer; None for a request that names no trigger or has a wrong signature."""
        trigger = self._find_trigger(asked.target)
        secret = self._secret(trigger)
        scope = signature_scope(secret, asked, self.clock())
        if trigger is None or scope is SignatureScope.NOT:
            return None
        rule = trigger.rule
        if asked.method not in rule.methods:
            return Response(status_code=405, headers={"Allow": ", ".join(rule.methods)})
        if not is_sufficient(scope, asked.method, strict=rule.strict):
            return None
        return self._deliver(trigger, asked, scope, secret)

    def _find_trigger(self, target: str) -> Trigger | None:
        address = _ADDRESS.fullmatch(target.partition("?")[0])
        if address is None:
            return None
        trigger = self._trigger_of_path(*address.groups())
        return trigger if trigger is not None and trigger.enabled and not trigger.parked else None

    def _trigger_of_path(self, first: str, path: str | None) -> Trigger | None:
        """The trigger with this hook id, or with this path under the agent of this name."""
        if path is None:
            return self.ledger.triggers.by_hook(first) if is_uuid(first) else None
        spec = self.hive().specs.get(first)
        return None if spec is None else self.ledger.triggers.by_path(spec.id, path)

    def _secret(self, trigger: Trigger | None) -> bytes:
        """The secret of a trigger. Without a trigger, do the same work so that it takes as long."""
        if trigger is None:
            return NOBODY
        try:
            return self.vault.read(trigger.hook, trigger.secret)
        except HiveError as error:
            log.warning("Cannot read the secret of webhook %s: %s", trigger.id, error)
            return os.urandom(32)

    def _deliver(
        self, trigger: Trigger, asked: WebhookRequest, scope: SignatureScope, secret: bytes
    ) -> Response | None:
        """Deliver the body to the trigger. A success status means that it is on the disk."""
        kind, whole = asked.headers.get("content-type", "")[:100], scope is SignatureScope.WHOLE
        query = asked.target.partition("?")[2] if whole else ""
        encoding, text = _text(asked.body)
        delivery = Delivery(
            trigger.id, asked.repeat_key(scope, secret), asked.delivery_key, kind, encoding, text,
            query,
        )  # fmt: skip
        try:
            fire = self.perform("deliver", lambda call: deliver_webhook(call, delivery))
        except (NotFound, NotAllowed):
            return None
        except HiveError as error:
            return _refusal_response(error)
        return JSONResponse({"fire": fire.fire}, status_code=202 if fire.new else 200)


def _webhook_request(request: Request, headers: Mapping[str, str], body: bytes) -> WebhookRequest:
    raw, query = request.scope["raw_path"], request.scope["query_string"]
    target = (raw + b"?" + query if query else raw).decode("latin-1")
    return WebhookRequest(request.method, target, headers, body)


def _refusal_response(error: HiveError) -> Response:
    if isinstance(error, LimitReached):
        after = error.fields.get("retry_after", 60)
        seconds = str(max(1, int(after))) if isinstance(after, int | float) else "60"
        return Response(status_code=429, headers={"Retry-After": seconds})
    log.warning("Cannot accept a webhook: %s", error)
    return Response(status_code=503, headers={"Retry-After": "60"})


def _text(body: bytes) -> tuple[str, str]:
    """Encoding and text of a body."""
    try:
        return "utf-8", body.decode()
    except UnicodeDecodeError:
        return "base64", base64.b64encode(body).decode()


def _bind_socket(path: Path, group: str) -> socket.socket:
    """A listening socket that has its group and mode before a client can connect."""
    path.unlink(missing_ok=True)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        before = os.umask(0o177)
        try:
            listening.bind(str(path))
        finally:
            os.umask(before)
        shutil.chown(path, group=group)
        path.chmod(0o660)
        listening.listen(_BACKLOG)
        listening.settimeout(0)
    except (OSError, LookupError) as error:
        listening.close()
        with suppress(OSError):
            path.unlink(missing_ok=True)
        raise Internal(f"cannot listen on {path}: {error}") from error
    return listening
