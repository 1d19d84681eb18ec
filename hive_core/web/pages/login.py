"""Logging in and out: by a link, whose secret no server log can have, or by a passkey."""

from __future__ import annotations

import json
from urllib.parse import urlsplit

from starlette.responses import Response

from hive_core.errors import HiveError, InvalidArgument, LimitReached
from hive_core.services.daemon_connection import DaemonConnection
from hive_core.varlink import Message
from hive_core.web.guard import ended_cookie, session_cookie
from hive_core.web.logins import BrowserLogin, check_secret
from hive_core.web.visit import Dashboard, Request, Visit, html_response, json_response, redirect


def show_login(web: Dashboard, request: Request, fault: str = "", status: int = 200) -> Response:
    origin = web.settings.origins[-1]
    named = bool(urlsplit(request.origin).hostname)
    text = web.renderer.page("login", title="Log in", fault=fault, origin=origin, named=named)
    return html_response(text, request, status)


async def log_in(web: Dashboard, request: Request, before: BrowserLogin | None) -> Response:
    """A new login has a new secret, and ends the one that the browser had before."""
    try:
        login = await web.logins.open(_credential(request), request.address)
    except LimitReached as error:
        return show_login(web, request, str(error), 429)
    except InvalidArgument as error:
        return show_login(web, request, error.reason, 400)
    except HiveError as error:
        return show_login(web, request, str(error), 403)
    if before is not None:
        await web.logins.close(before)
    web.hub.wake()
    response = redirect("/passkey" if login.facts.get("may_add_passkey") else "/")
    response.headers["set-cookie"] = session_cookie(login.secret)
    return response


async def begin_passkey_login(web: Dashboard, request: Request) -> Response:
    """What an authenticator has to sign to log in; asked for by script."""
    connection = await DaemonConnection.open(web.logins.socket)
    try:
        parameters: Message = {
            "operation": "open_login",
            "parameters": {},
            "origin": request.origin,
        }
        return json_response(await connection.call("begin_confirmation", parameters))
    except HiveError as error:
        return json_response({"error": str(error)}, 403)
    finally:
        connection.close()


async def log_out(visit: Visit) -> Response:
    await visit.web.logins.close(visit.login)
    response = redirect("/login")
    response.headers["set-cookie"] = ended_cookie()
    return response


def assertion_of(text: str) -> Message:
    """What the browser's authenticator has signed, as the script sends it."""
    try:
        value = json.loads(text)
    except ValueError as error:
        raise InvalidArgument(f"not an assertion: {error}", field="assertion") from error
    if not isinstance(value, dict) or not all(isinstance(part, str) for part in value.values()):
        raise InvalidArgument("not an assertion", field="assertion")
    return value


def _credential(request: Request) -> Message:
    if text := request.form.get("assertion"):
        return {"assertion": assertion_of(text)}
    return {"credential": check_secret(request.form.get("secret", ""))}
