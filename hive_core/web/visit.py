"""One request of a page: its login, its fields, and its response."""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Never
from urllib.parse import parse_qsl, urlencode

from starlette.responses import RedirectResponse, Response

from hive_core.errors import (
    Busy,
    Conflict,
    HiveError,
    InvalidArgument,
    InvalidParameter,
    LimitReached,
    NotAllowed,
    NotFound,
    StorageFull,
    TimedOut,
    Unreachable,
)
from hive_core.services.daemon_connection import DaemonConnection
from hive_core.varlink import Message
from hive_core.web.chain_check import ChainCheck
from hive_core.web.done_today import DoneToday
from hive_core.web.drawn_rows import DrawnRows, PackedRows
from hive_core.web.guard import form_token
from hive_core.web.hub import Hub
from hive_core.web.logins import BrowserLogin, Logins
from hive_core.web.reads import SharedReads
from hive_core.web.rendering import Renderer
from hive_core.web.settings import WebTable

HTML: Final = "text/html; charset=utf-8"
_STATUS: Final[Mapping[type[HiveError], int]] = {
    InvalidArgument: 400, InvalidParameter: 400, NotAllowed: 403, NotFound: 404, Conflict: 409,
    LimitReached: 429, Busy: 503, StorageFull: 503, Unreachable: 503, TimedOut: 503,
}  # fmt: skip
_PACKED_FROM: Final = 1024
_LEVEL: Final = 5
_FIELDS_MOST: Final = 200
_DIGITS_MOST: Final = 9

Fields = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Dashboard:
    """What all requests share. `clock` returns seconds since 1970."""

    settings: WebTable
    logins: Logins
    hub: Hub
    reads: SharedReads
    renderer: Renderer
    clock: Callable[[], float] = time.time
    drawn: DrawnRows = field(default_factory=DrawnRows)
    done: DoneToday = field(default_factory=DoneToday)
    chain: ChainCheck = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "chain", ChainCheck(self.clock))


async def call_without_login(web: Dashboard, operation: str, parameters: Message) -> Message:
    """The reply to one of the calls that hived serves before a login."""
    connection = await DaemonConnection.open(web.logins.socket)
    try:
        return await connection.call(operation, parameters)
    finally:
        connection.close()


class ConfirmationNeeded(Exception):
    """hived requires a second confirmation of this call; the confirmation page comes first."""

    def __init__(self, operation: str, parameters: Message, back: str) -> None:
        super().__init__(operation)
        self.operation, self.parameters, self.back = operation, parameters, back


@dataclass(frozen=True, slots=True)
class Request:
    """`origin` is the one of the settings at which the browser is."""

    method: str
    path: str
    origin: str
    query: Fields
    form: Fields
    packed: bool
    address: str


@dataclass(frozen=True, slots=True)
class Visit:
    """A request of a login. `parts` are the parts of the path that its pattern names."""

    web: Dashboard
    login: BrowserLogin
    request: Request
    parts: Fields

    @property
    def query(self) -> Fields:
        return self.request.query

    @property
    def form(self) -> Fields:
        return self.request.form

    async def read(self, operation: str, /, **parameters: object) -> Message:
        return await self.web.reads.read(self.login, operation, **parameters)

    async def try_read(self, operation: str, /, **parameters: object) -> Message:
        """The same; where hived refuses, the reason under `refused`."""
        try:
            return await self.read(operation, **parameters)
        except HiveError as error:
            return {"refused": str(error)}

    async def change(self, operation: str, back: str, /, **parameters: object) -> Response:
        """Make a change, and go to `back`, or to the page that confirms it before."""
        values: Message = {key: value for key, value in parameters.items() if value is not None}
        await self.call(operation, values, back)
        return redirect(back)

    async def call(self, operation: str, parameters: Message, back: str) -> Message:
        """The reply of a change. ConfirmationNeeded: it has to be confirmed first."""
        try:
            reply = await self.login.connection.call(operation, parameters)
        except NotAllowed as error:
            if error.fields.get("rule") == "confirm":
                raise ConfirmationNeeded(operation, parameters, back) from error
            raise
        self.web.reads.forget()
        self.web.drawn.forget_all()
        self.web.hub.refresh_todo()
        return reply

    def rows(
        self, name: str, basis: tuple[object, ...], values: Callable[[], Mapping[str, object]]
    ) -> Response:
        """The rows alone, for a page that is old."""
        rows = self.draw_rows(name, basis, values)
        headers = {"vary": "accept-encoding"}
        if not self.request.packed:
            return Response(rows.plain, 200, headers, HTML)
        return Response(rows.packed, 200, {**headers, "content-encoding": "gzip"}, HTML)

    def draw_rows(
        self, name: str, basis: tuple[object, ...], values: Callable[[], Mapping[str, object]]
    ) -> PackedRows:
        """The rows that the path and the query ask for. Tabs share them within a second.

        `basis` is what they are drawn from. No value may depend on the login.
        """
        web = self.web
        return web.drawn.find(
            f"{name} {self.request.path}?{urlencode(sorted(self.query.items()))}",
            (int(web.clock()), *basis),
            web.hub.frames,
            lambda: web.renderer.page(name, **values()),
        )

    def page(self, name: str, title: str, status: int = 200, /, **values: object) -> Response:
        hub = self.web.hub
        shared = {
            "title": title, "login": self.login, "token": form_token(self.login.secret),
            "here": self.request.path, "waiting": hub.waiting, "newest": hub.frames.newest,
            "query": self.query,
        }  # fmt: skip
        text = self.web.renderer.page(name, **{**shared, **values})
        return html_response(text, self.request, status)


def html_response(text: str, request: Request, status: int = 200) -> Response:
    body = text.encode()
    headers = {"vary": "accept-encoding"}
    if request.packed and len(body) >= _PACKED_FROM:
        body = gzip.compress(body, _LEVEL, mtime=0)
        headers["content-encoding"] = "gzip"
    return Response(body, status, headers, HTML)


def status_of(error: HiveError) -> int:
    """The status of a page that says why hived has refused, or that it was not reached."""
    return next((status for kind, status in _STATUS.items() if isinstance(error, kind)), 500)


def redirect(address: str) -> Response:
    """To an address of ours, by GET."""
    return RedirectResponse(own_address(address), 303)


def own_address(address: str) -> str:
    """The address, if it is one of ours; else the first page."""
    is_foreign = not address.startswith("/") or address.startswith("//") or "\\" in address
    return "/" if is_foreign else address


def json_response(values: Mapping[str, object], status: int = 200) -> Response:
    return Response(json.dumps(values), status, media_type="application/json")


def parse_fields(text: bytes) -> dict[str, str]:
    """The fields of a query or a form, each once. InvalidArgument: the text is not a form."""
    try:
        pairs = parse_qsl(
            text.decode("ascii"), keep_blank_values=True, strict_parsing=bool(text),
            errors="strict", max_num_fields=_FIELDS_MOST,
        )  # fmt: skip
    except ValueError as error:
        raise InvalidArgument(f"cannot read the fields: {error}", field="form") from error
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise InvalidArgument("a field is given twice", field="form")
    return fields


def form_number(visit: Visit, name: str) -> int:
    """The whole number in a field of a form; refused if it is none that hived could have sent."""
    text = visit.form.get(name, "")
    if not (text.isascii() and text.isdecimal() and len(text) <= _DIGITS_MOST):
        refuse_field(name, "is not a number")
    return int(text)


def refuse_field(name: str, reason: str) -> Never:
    raise InvalidArgument(f"{name}: {reason}", field=name)
