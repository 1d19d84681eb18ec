"""The ASGI application: what each request must have, which login it is of, and who answers it."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import Receive, Scope, Send

from hive_core.errors import HiveError, InvalidArgument, LimitReached
from hive_core.web import guard
from hive_core.web.hub import TOPICS
from hive_core.web.live_turns import turn_topic
from hive_core.web.logins import BrowserLogin
from hive_core.web.pages.confirm import ask_confirmation
from hive_core.web.pages.link import PREFIX, serve_link
from hive_core.web.pages.login import begin_passkey_login, log_in, show_login
from hive_core.web.request_limits import BodyIncomplete, BodyTooLarge, read_body
from hive_core.web.routes import Handler, find_route
from hive_core.web.static_files import StaticFiles
from hive_core.web.stream import EventStream
from hive_core.web.visit import (
    ConfirmationNeeded,
    Dashboard,
    Request,
    Visit,
    html_response,
    parse_fields,
    redirect,
    status_of,
)

log = logging.getLogger(__name__)
_FIRST_SECONDS: Final = 5.0  # that the first page waits for the agents
_OUTSIDE: Final = ("/api/", "/metrics")
_FORM: Final = "application/x-www-form-urlencoded"
_OWN_FAULT: Final = "hive-web has a fault: `journalctl -u hive-web` has the report of it"
_RELOAD: Final = (
    '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>hive</title>'
    '<meta http-equiv="refresh" content="0"></head><body><p>One moment.</p></body></html>'
)

Asgi = Callable[[Scope, Receive, Send], Awaitable[None]]


@dataclass(slots=True)
class WebApp:
    """`api` serves what is below /api/ and /metrics, with tokens of its own and never a cookie."""

    web: Dashboard
    files: StaticFiles
    api: Asgi | None = None
    clock: Callable[[], float] = time.monotonic
    used: float = 0.0
    _running: int = 0
    _hosts: Mapping[str, str] = field(init=False)

    def __post_init__(self) -> None:
        self._hosts = self.web.settings.hosts
        self.used = self.clock()

    @property
    def idle_seconds(self) -> float:
        """Seconds since the last request ended."""
        return 0.0 if self._running else self.clock() - self.used

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._running += 1
        try:
            await self._serve(scope, receive, send)
        finally:
            self._running -= 1
            self.used = self.clock()

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = scope["headers"]
        host = guard.single_header(headers, b"host") or ""
        origin = self._hosts.get(host)
        response: Response | None
        if origin is None:
            response = self._send_home(scope, host)
        elif scope["path"].startswith(_OUTSIDE):
            await self._serve_api(scope, receive, send)
            return
        else:
            try:
                response = await self._answer(scope, receive, send, origin)
            except _Refusal as refusal:
                response = refusal.response
        if response is not None:
            secured = _SecuredResponse(response)
            await secured(scope, receive, _renewing(scope, send))

    def _send_home(self, scope: Scope, host: str) -> Response:
        """Redirect a browser that used an IP address to the configured name; refuse other hosts."""
        home = guard.canonical_host(host, self._hosts)
        if home is None or scope["method"] not in guard.SAFE_METHODS:
            return _text(421, "cannot serve this host: it is not one of [web] origins")
        return RedirectResponse(home + "/", 307)

    async def _serve_api(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self.api is None:
            await _SecuredResponse(_text(404, "nothing is here"))(scope, receive, send)
            return
        headers = [pair for pair in scope["headers"] if pair[0] != b"cookie"]
        await self.api({**scope, "headers": headers}, receive, _with_security_headers(send))

    async def _answer(
        self, scope: Scope, receive: Receive, send: Send, origin: str
    ) -> Response | None:
        """The response; None where an event stream was served."""
        if scope["path"].startswith("/static/"):
            return self._static(scope)
        request = await self._request(scope, receive, origin)
        login = await self._login(scope)
        if login is None or request.path.startswith(("/login", PREFIX)):
            return await self._serve_outside(scope, request, login)
        if request.path == "/live" and request.method == "GET":
            return await self._stream(Visit(self.web, login, request, {}), scope, receive, send)
        return await self._visit(login, request)

    async def _request(self, scope: Scope, receive: Receive, origin: str) -> Request:
        headers, method = scope["headers"], scope["method"]
        form: dict[str, str] = {}
        if method not in guard.SAFE_METHODS:
            if method != "POST":
                raise _Refusal(405, f"cannot serve the method {method}")
            if not guard.is_own_request(headers, origin):
                raise _Refusal(
                    403, "cannot take this request: it does not come from a page of this host"
                )
            form = _fields(await _read_body(scope, receive))
        client = scope.get("client")
        return Request(
            method, scope["path"], origin, _fields(scope["query_string"]), form,
            "gzip" in (guard.single_header(headers, b"accept-encoding") or ""),
            client[0] if client else "local",
        )  # fmt: skip

    async def _login(self, scope: Scope) -> BrowserLogin | None:
        try:
            login = await self.web.logins.find(guard.session_secret(scope["headers"]))
            if login is not None:
                login.requests.count_request(self.clock())
        except HiveError as error:
            raise _Refusal(status_of(error), str(error)) from error
        if login is not None:
            self.web.hub.wake()
            if not guard.is_by_script(scope["headers"]):
                await self.web.logins.note_use(login)
        return login

    async def _serve_outside(
        self, scope: Scope, request: Request, login: BrowserLogin | None
    ) -> Response:
        """What needs no login; else a refusal."""
        is_post = request.method == "POST"
        if request.path.startswith(PREFIX):
            return await serve_link(self.web, request)
        if request.path == "/login":
            post = log_in(self.web, request, login) if is_post else None
            return show_login(self.web, request) if post is None else await post
        if request.path == "/login/passkey" and is_post:
            return await begin_passkey_login(self.web, request)
        return _unknown_login(scope, request)

    async def _visit(self, login: BrowserLogin, request: Request) -> Response:
        route = find_route(request.method, request.path)
        visit = Visit(self.web, login, request, {} if isinstance(route, int) else route[1])
        if isinstance(route, int):
            return _fault_page(visit, route, "nothing is at this address")
        if request.method == "POST" and not guard.is_form_token(
            request.form.get(guard.TOKEN_FIELD, ""), login.secret
        ):
            return _fault_page(
                visit, 403, "this form is of another login, or of none: load its page again"
            )
        return await self._handle(visit, route[0])

    async def _handle(self, visit: Visit, handler: Handler) -> Response:
        await self.web.hub.ready(_FIRST_SECONDS)
        try:
            return await handler(visit)
        except ConfirmationNeeded as needed:
            return await ask_confirmation(visit, needed)
        except HiveError as error:
            return _fault_page(visit, status_of(error), str(error))
        except Exception:
            log.exception("Cannot answer %s %s", visit.request.method, visit.request.path)
            return _fault_page(visit, 500, _OWN_FAULT)

    async def _stream(
        self, visit: Visit, scope: Scope, receive: Receive, send: Send
    ) -> Response | None:
        """An event stream, until the browser, the login or this program ends it."""
        login, hub = visit.login, self.web.hub
        topics = frozenset(visit.query.get("topics", "").split(",")) & TOPICS
        try:
            self.web.logins.check_stream(login)
        except LimitReached as error:
            return _text(429, str(error), {"retry-after": "5"})
        connection = scope["state"]["connection"]
        agent = visit.query.get("agent", "")
        if hub.agents.get(agent) is None:
            agent = ""
        topics |= {turn_topic(agent)} if agent else set()
        is_chunked = scope["http_version"] == "1.1"
        stream = EventStream(
            topics, visit.request.packed, connection.abort, agent,
            connection.write_chunk if is_chunked else None,
        )  # fmt: skip
        last = guard.single_header(scope["headers"], b"last-event-id")
        connection.keep_open()
        login.streams.add(stream.end)
        hub.join(stream, last or visit.query.get("after", ""))
        try:
            await stream.serve(receive, send)
        finally:
            login.streams.discard(stream.end)
            hub.leave(stream)
        return None

    def _static(self, scope: Scope) -> Response:
        file = self.files.find(scope["path"])
        if file is None or scope["method"] not in guard.SAFE_METHODS:
            return _text(404, "nothing is here")
        accepted = guard.single_header(scope["headers"], b"accept-encoding") or ""
        headers = {
            "cache-control": "public, max-age=31536000, immutable",
            "vary": "accept-encoding",
        }
        if "gzip" not in accepted:
            return Response(file.plain, 200, headers, file.kind)
        return Response(file.packed, 200, {**headers, "content-encoding": "gzip"}, file.kind)


class _Refusal(Exception):
    """A response that needs no login."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.response = _text(status, text)


@dataclass(frozen=True, slots=True)
class _SecuredResponse:
    response: Response

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.response(scope, receive, _with_security_headers(send))


def _renewing(scope: Scope, send: Send) -> Send:
    """Wrap `send`: each part of a download that the client takes gives the connection more time."""
    connection = scope["state"]["connection"]

    async def send_part(message: dict[str, object]) -> None:
        await send(message)  # it waits until the client has taken the part before
        if message.get("more_body"):
            connection.renew()

    return send_part  # type: ignore[return-value]  # ASGI messages are dicts


def _with_security_headers(send: Send) -> Send:
    """Wrap `send` to add the security headers; a header that the response sets itself stays."""

    async def send_with_headers(message: dict[str, object]) -> None:
        if message["type"] == "http.response.start":
            headers = list(message["headers"])  # type: ignore[call-overload]  # pairs, as ASGI says
            names = {name for name, _ in headers}
            more = [
                (name.encode(), value.encode()) for name, value in guard.SECURITY_HEADERS.items()
            ]
            message = {
                **message,
                "headers": [*headers, *(pair for pair in more if pair[0] not in names)],
            }
        await send(message)

    return send_with_headers  # type: ignore[return-value]  # ASGI messages are dicts


def _text(status: int, text: str, headers: Mapping[str, str] | None = None) -> Response:
    return PlainTextResponse(f"{text}\n", status, headers)


def _fault_page(visit: Visit, status: int, reason: str) -> Response:
    title = {404: "Not found", 500: "Fault"}.get(status, "Refused")
    return visit.page("fault", title, status, reason=reason)


def _unknown_login(scope: Scope, request: Request) -> Response:
    """The browser withheld the cookie because another site linked here: load the page again.

    A script gets no login page, which it would show in place of rows.
    """
    is_script = guard.is_by_script(scope["headers"])
    if is_script or request.path in ("/live", "/badge") or request.method == "POST":
        return _text(401, "cannot serve this: log in first")
    if guard.single_header(scope["headers"], b"sec-fetch-site") == "cross-site":
        return html_response(_RELOAD, request)
    return redirect("/login")


def _fields(text: bytes) -> dict[str, str]:
    try:
        return parse_fields(text)
    except InvalidArgument as error:
        raise _Refusal(400, str(error)) from error


async def _read_body(scope: Scope, receive: Receive) -> bytes:
    """The body of a form, complete and within its bounds."""
    headers = scope["headers"]
    if (guard.single_header(headers, b"content-type") or "").partition(";")[0].strip() != _FORM:
        raise _Refusal(415, f"cannot take this request: its content is not {_FORM}")
    try:
        return await read_body(scope, receive)
    except BodyTooLarge as error:
        raise _Refusal(413, f"cannot take this request: {error}") from None
    except BodyIncomplete as error:
        raise _Refusal(400, f"cannot take this request: {error}") from None
    except TimeoutError:
        raise _Refusal(408, "cannot take this request: its body did not come in time") from None
