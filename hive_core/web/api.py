"""The HTTP API: operations, streams, events and metrics for programs, with a token.

hived authorizes every call by the token and its scope. Cookies are ignored.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs

from starlette.types import Receive, Scope, Send

from hive_core.errors import (
    AlreadyExists,
    BadFrame,
    Busy,
    Conflict,
    Expired,
    HiveError,
    InboxFull,
    InvalidArgument,
    InvalidParameter,
    LimitReached,
    NotAllowed,
    NotFound,
    NotRunning,
    StorageFull,
    TimedOut,
    Unreachable,
)
from hive_core.services.daemon_connection import SECONDS, DaemonConnection
from hive_core.varlink import Message, decode
from hive_core.web import exposition
from hive_core.web.guard import single_header
from hive_core.web.request_limits import BodyIncomplete, BodyTooLarge, read_body
from hive_core.web.tokens import TokenLogins

OPENAPI: Final = Path(__file__).parent / "openapi.json"
_PREFIX: Final = "/api/v1/"
_JSON: Final = "application/json"
_LINES: Final = "application/jsonl"
_EVENTS: Final = "text/event-stream"
_BEAT_SECONDS: Final = 15.0  # between signs of life on a stream
_NO_TOKEN: Final = ("credential", "login")  # rules that refuse a token, not a call
_TRACEPARENT: Final = "traceparent"
# https://www.w3.org/TR/trace-context/ says which header counts; ids of zeros are none.
_VALID_TRACEPARENT: Final = re.compile("00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")
_NUMBER: Final = re.compile(r"[0-9]{1,18}")
_STATUS: Final[Mapping[type[HiveError], int]] = {
    InvalidParameter: 400, BadFrame: 400, NotAllowed: 403, NotFound: 404, Conflict: 409,
    AlreadyExists: 409, Expired: 409, NotRunning: 409, InvalidArgument: 422, LimitReached: 429,
    InboxFull: 429, Busy: 503, StorageFull: 503, Unreachable: 503, TimedOut: 503,
}  # fmt: skip


class _Problem(Exception):
    """A request that hive-web refuses before it asks hived."""

    def __init__(self, status: int, error: str, reason: str) -> None:
        super().__init__(reason)
        self.status, self.error, self.reason = status, error, reason


@dataclass(frozen=True, slots=True)
class ApiRequest:
    """One request with its token."""

    scope: Scope
    receive: Receive
    token: str
    address: str
    accepted: str

    def keep_open(self) -> None:
        """Let the connection live for as long as a stream or a wait takes."""
        connection = self.scope.get("state", {}).get("connection")
        if connection is not None:
            connection.keep_open()


@dataclass(slots=True)
class HttpApi:
    """An ASGI application for /api/v1/ and /metrics.

    `streams` counts those of browsers; `lag` is by how many seconds their frames leave late.
    """

    tokens: TokenLogins
    streams: Callable[[], int]
    lag: Callable[[], float]
    document: bytes = field(default_factory=OPENAPI.read_bytes)
    _served: Mapping[str, Mapping[str, Any]] = field(init=False)
    _traced: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        paths = json.loads(self.document)["paths"]
        self._served = {path[1:]: item["post"] for path, item in paths.items() if "post" in item}
        self._traced = frozenset(
            name for name, post in self._served.items() if _TRACEPARENT in _properties(post)
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._serve(scope, receive, send)
        except _Problem as problem:
            fault = {"error": problem.error, "reason": problem.reason}
            await _send_json(send, problem.status, fault)
        except HiveError as error:
            await _send_error(send, error)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        method, path = scope["method"], scope["path"]
        name = path.removeprefix(_PREFIX)
        if (method, name) == ("GET", "openapi.json"):
            await _send_body(send, 200, self.document, _JSON)
            return
        request = _read_request(scope, receive)
        if (method, path) == ("GET", "/metrics"):
            await self._send_metrics(request, send)
        elif (method, name) == ("GET", "events"):
            await self._send_events(request, send)
        elif name not in self._served or path == name:
            raise _Problem(404, "NotFound", f"no operation {name[:64]} for tokens")
        elif method != "POST":
            raise _Problem(405, "MethodNotAllowed", "operations are called with POST")
        else:
            await self._call(request, send, name)

    async def _call(self, request: ApiRequest, send: Send, name: str) -> None:
        parameters = await _read_parameters(request)
        if name in self._traced:
            _take_traceparent(request.scope, parameters)
        is_stream = bool(self._served[name].get("x-hive-stream"))
        if is_stream and request.accepted in (_LINES, _EVENTS):
            shown = _stream_line if request.accepted == _LINES else _stream_event
            await self._stream(request, send, name, parameters, shown)
            return
        async with self.tokens.connect(request.token, request.address) as connection:
            wait = parameters.get("wait")
            seconds = float(wait) if isinstance(wait, int | float) else 0.0
            request.keep_open()
            reply = await connection.call(name, parameters, SECONDS + min(seconds, SECONDS * 2))
        await _send_json(send, 200, reply)

    async def _send_events(self, request: ApiRequest, send: Send) -> None:
        """Events as they happen, after the last one that the program has."""
        parameters = _event_parameters(request.scope)
        await self._stream(request, send, "list_events", parameters, _event_frames)

    async def _stream(
        self, request: ApiRequest, send: Send, name: str, parameters: Message,
        shown: Callable[[Message], bytes],
    ) -> None:  # fmt: skip
        """Send each reply as it comes, until the program leaves or hived closes."""
        kind = _LINES if shown is _stream_line else _EVENTS
        async with (
            self.tokens.connect(request.token, request.address) as connection,
            self.tokens.count_stream(request.token),
        ):
            request.keep_open()
            replies = connection.stream(name, parameters)
            first = await anext(replies, None)  # an error is still a status
            await _start(send, 200, kind)
            with suppress(HiveError):  # it ends; the program comes back after its last event
                await _send_replies(request.receive, send, replies, first, shown)
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _send_metrics(self, request: ApiRequest, send: Send) -> None:
        families: list[exposition.Family] = []
        async with self.tokens.connect(request.token, request.address) as connection:
            async for page in _pages(connection, "get_metrics"):
                rows = page.get("families")
                families += rows if isinstance(rows, list) else []
        families += [
            _gauge("hive_web_streams", "Open event streams of hive-web.",
                   self.streams() + self.tokens.streams),
            _gauge("hive_web_lag_seconds",
                   "By how many seconds frames of hive-web left late in the last ten seconds.",
                   self.lag()),
        ]  # fmt: skip
        text = exposition.metrics_text(families)
        await _send_body(send, 200, text.encode(), exposition.CONTENT_TYPE)


def _gauge(name: str, text: str, value: float) -> exposition.Family:
    return {
        "name": name, "type": "gauge", "help": text, "samples": [{"labels": {}, "value": value}],
    }  # fmt: skip


def _read_request(scope: Scope, receive: Receive) -> ApiRequest:
    """The request, if it has a token."""
    headers = scope["headers"]
    kind, _, token = (single_header(headers, b"authorization") or "").partition(" ")
    if kind.lower() != "bearer" or not token:
        raise _Problem(401, "Unauthorized", "give a token: Authorization: Bearer token_...")
    client = scope.get("client")
    accepted = (single_header(headers, b"accept") or "").partition(";")[0].strip()
    return ApiRequest(scope, receive, token, client[0] if client else "local", accepted)


async def _read_parameters(request: ApiRequest) -> Message:
    headers = request.scope["headers"]
    kind = (single_header(headers, b"content-type") or _JSON).partition(";")[0].strip()
    if kind != _JSON:
        raise _Problem(415, "UnsupportedMediaType", f"the content is not {_JSON}")
    try:
        body = await read_body(request.scope, request.receive)
    except BodyTooLarge as error:
        raise _Problem(413, "TooLarge", str(error)) from None
    except BodyIncomplete as error:
        raise _Problem(400, "InvalidParameter", f"cannot take this request: {error}") from None
    except TimeoutError:
        raise _Problem(408, "TimedOut", "the body did not come in time") from None
    return decode(body) if body else {}


def _properties(post: Mapping[str, Any]) -> Mapping[str, Any]:
    """The parameters of an operation, by name."""
    content = post.get("requestBody", {}).get("content", {})
    schema = content.get(_JSON, {}).get("schema", {})
    properties: Mapping[str, Any] = schema.get("properties", {})
    return properties


def _take_traceparent(scope: Scope, parameters: Message) -> None:
    """What is assigned belongs to the trace of the caller. A wrong header counts as none."""
    text = single_header(scope["headers"], _TRACEPARENT.encode()) or ""
    if _VALID_TRACEPARENT.fullmatch(text) and not parameters.get("part_of"):
        parameters.setdefault(_TRACEPARENT, text)


def _event_parameters(scope: Scope) -> Message:
    """The params of `list_events`: what the query asks for, after the last event that it has."""
    query = parse_qs(scope["query_string"].decode("ascii", "replace"))
    last = single_header(scope["headers"], b"last-event-id") or "".join(query.get("after", []))
    parameters: Message = {
        name: [word for text in query.get(name, []) for word in text.split(",") if word]
        for name in ("kinds", "agents")
    }
    if not last:
        return {**parameters, "last": 0}  # from now on
    if not _NUMBER.fullmatch(last):
        raise _Problem(400, "InvalidParameter", "after: expected the number of an event")
    return {**parameters, "after": last}


async def _pages(connection: DaemonConnection, name: str) -> AsyncIterator[Message]:
    """All pages of a listing."""
    after: object = None
    while True:
        page = await connection.call(name, {"after": after} if after else {})
        yield page
        after = page.get("next")
        if not after:
            return


def _event_frames(page: Message) -> bytes:
    """The gap before the page, if events were pruned there, and each of its events."""
    gap, events = page.get("gap"), page.get("events")
    frames = [f"event: gap\ndata: {_json(gap)}\n\n"] if gap else []
    for event in events if isinstance(events, list) else []:
        kind = event["kind"]
        frames.append(f"id: {event['seq']}\nevent: {kind}\ndata: {_json(event)}\n\n")
    return "".join(frames).encode()


def _stream_event(reply: Message) -> bytes:
    return f"data: {_json(reply)}\n\n".encode()


def _stream_line(reply: Message) -> bytes:
    return f"{_json(reply)}\n".encode()


async def _send_replies(
    receive: Receive, send: Send, replies: AsyncIterator[Message], first: Message | None,
    shown: Callable[[Message], bytes],
) -> None:  # fmt: skip
    """Send the replies, and a sign of life between them, until either side ends."""
    gone = asyncio.create_task(_await_disconnect(receive))
    reply, following = first, None
    try:
        while reply is not None:
            if frames := shown(reply):
                await send({"type": "http.response.body", "body": frames, "more_body": True})
            following = asyncio.ensure_future(anext(replies, None))
            while not following.done() and not gone.done():
                await asyncio.wait(
                    (following, gone), timeout=_BEAT_SECONDS, return_when=asyncio.FIRST_COMPLETED
                )
                if not (following.done() or gone.done()) and shown is not _stream_line:
                    beat = {"type": "http.response.body", "body": b": \n\n", "more_body": True}
                    await send(beat)
            reply = None if gone.done() else following.result()
    finally:
        for task in (gone, following):
            if task is not None and not task.done():
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task


async def _await_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _send_error(send: Send, error: HiveError) -> None:
    """The error of hived: its name, its reason, and its fields."""
    status = next((code for kind, code in _STATUS.items() if isinstance(error, kind)), 500)
    if error.fields.get("rule") in _NO_TOKEN:
        status = 429 if isinstance(error, LimitReached) else 401
    fault = {"error": type(error).__name__, **error.parameters, "reason": str(error)}
    await _send_json(send, status, fault)


async def _send_json(send: Send, status: int, value: Mapping[str, object]) -> None:
    await _send_body(send, status, _json(value).encode(), _JSON, value.get("retry_after"))


async def _send_body(
    send: Send, status: int, body: bytes, kind: str, retry_after: object = None
) -> None:
    await _start(send, status, kind, len(body), retry_after)
    await send({"type": "http.response.body", "body": body})


async def _start(
    send: Send, status: int, kind: str, length: int | None = None, retry_after: object = None
) -> None:
    headers = {"content-type": kind}
    if length is not None:
        headers["content-length"] = str(length)
    if status == 401:  # noqa: PLR2004
        headers["www-authenticate"] = "Bearer"
    if isinstance(retry_after, int | float):
        headers["retry-after"] = str(max(1, round(retry_after)))
    pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": pairs})


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
