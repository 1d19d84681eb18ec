"""Logging in and out: by a link, whose secret no server log can have, or by a passkey."""

from __future__ import annotations

import json
from contextlib import suppress

from starlette.responses import Response

from hive_core.errors import HiveError, InvalidArgument
from hive_core.varlink import Message
from hive_core.web.guard import ended_cookie, session_cookie
from hive_core.web.logins import BrowserLogin, check_secret
from hive_core.web.visit import (
    Dashboard,
    Request,
    Visit,
    call_without_login,
    html_response,
    json_response,
    redirect,
    status_of,
)


def show_login(web: Dashboard, request: Request, fault: str = "", status: int = 200) -> Response:
    text = web.renderer.page("login", title="Log in", fault=fault)
    return html_response(text, request, status)


async def log_in(web: Dashboard, request: Request, before: BrowserLogin | None) -> Response:
    """A new login has a new secret, and ends the one that the browser had before."""
    try:
        login = await web.logins.open(_credential(request), request.address)
    except HiveError as error:
        reason = error.reason if isinstance(error, InvalidArgument) else str(error)
        return show_login(web, request, reason, status_of(error))
    if before is not None:
        with suppress(HiveError):  # the new login is open, and its link is used up
            await web.logins.close(before)
    web.hub.wake()
    response = redirect("/passkey" if login.facts.get("may_add_passkey") else "/")
    response.headers["set-cookie"] = session_cookie(login.secret)
    return response


async def begin_passkey_login(web: Dashboard, request: Request) -> Response:
    """What an authenticator has to sign to log in; asked for by script."""
    parameters: Message = {"operation": "open_login", "parameters": {}, "origin": request.origin}
    try:
        return json_response(await call_without_login(web, "begin_confirmation", parameters))
    except HiveError as error:
        return json_response({"error": str(error)}, status_of(error))


async def log_out(visit: Visit) -> Response:
    await visit.web.logins.close(visit.login)
    response = redirect("/login")
    response.headers["set-cookie"] = ended_cookie()
    return response


def assertion_of(text: str) -> Message:
    """What the browser's authenticator has signed, as the script sends it."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidArgument(f"not an assertion: {error}", field="assertion") from error
    if not isinstance(value, dict) or not all(isinstance(part, str) for part in value.values()):
        raise InvalidArgument("not an assertion", field="assertion")
    return value


def _credential(request: Request) -> Message:
    if text := request.form.get("assertion"):
        return {"assertion": assertion_of(text)}
    return {"credential": check_secret(request.form.get("secret", ""))}
