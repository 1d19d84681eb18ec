"""Links of notifications: the page shows the action, its button runs it, without a login."""

from __future__ import annotations

from starlette.responses import Response

from hive_core.errors import HiveError
from hive_core.services.daemon_connection import DaemonConnection
from hive_core.varlink import Message
from hive_core.web.visit import Dashboard, Request, html_response

PREFIX = "/link/"
_SECRET_MOST = 128


async def serve_link(web: Dashboard, request: Request) -> Response:
    """What the link would do, or, by POST, that it was done."""
    secret = request.path.removeprefix(PREFIX)
    operation = "use_link" if request.method == "POST" else "show_link"
    reply: Message = {}
    fault = "" if 0 < len(secret) <= _SECRET_MOST and secret.isascii() else "no such link"
    try:
        if not fault:
            reply = await _call(web, operation, secret)
    except HiveError as error:
        fault = str(error)
    text = web.renderer.page(
        "link", title="Link", reply=reply, fault=fault, is_done=request.method == "POST",
        path=request.path,
    )  # fmt: skip
    return html_response(text, request, 403 if fault else 200)


async def _call(web: Dashboard, operation: str, secret: str) -> Message:
    connection = await DaemonConnection.open(web.logins.socket)
    try:
        return await connection.call(operation, {"secret": secret})
    finally:
        connection.close()
