"""Links of notifications: the page shows the action, its button runs it, without a login."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from hive_core.errors import HiveError
from hive_core.varlink import Message
from hive_core.web.visit import Dashboard, Request, call_without_login, html_response, status_of

PREFIX: Final = "/link/"
_SECRET_MOST: Final = 128
_AWAY: Final = 503


async def serve_link(web: Dashboard, request: Request) -> Response:
    """What the link would do, or, by POST, that it was done."""
    secret = request.path.removeprefix(PREFIX)
    operation = "use_link" if request.method == "POST" else "show_link"
    reply: Message = {}
    fault, status = "", 200
    if not (0 < len(secret) <= _SECRET_MOST and secret.isascii()):
        fault, status = "no such link", 403
    try:
        if not fault:
            reply = await call_without_login(web, operation, {"secret": secret})
    except HiveError as error:
        fault, status = str(error), _AWAY if status_of(error) == _AWAY else 403
    text = web.renderer.page(
        "link", title="Link", reply=reply, fault=fault, is_done=request.method == "POST",
        is_away=status == _AWAY, path=request.path,
    )  # fmt: skip
    return html_response(text, request, status)
