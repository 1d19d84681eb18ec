"""Web addresses of the dashboard as browsers write them."""

from __future__ import annotations

from typing import Final

_DEFAULT_PORTS: Final = {"https": ":443", "http": ":80"}


def browser_origin(origin: str) -> str:
    """The origin without the default port of its scheme, which no browser sends."""
    scheme = origin.partition("://")[0]
    return origin.removesuffix(_DEFAULT_PORTS.get(scheme, ""))
