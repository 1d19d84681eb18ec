"""Bytes that one session hands to another: an artifact, named with its SHA-256.

The daemon carries the name and looks at none of the bytes; the session that reads them compares.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Mapping
from typing import Final, NamedTuple

from hive_core.agent.artifacts import parts, upload
from hive_core.agent.reconnect import Link
from hive_core.agent.session.services import SessionServices, say
from hive_core.errors import HiveError, InvalidArgument, NotFound

_TYPE: Final = "application/json"


class HandedBytes(NamedTuple):
    """The artifact of bytes that were stored."""

    artifact: str
    sha256: str


def store_bytes(services: SessionServices, link: Link, prefix: str, data: bytes) -> HandedBytes:
    """Store bytes for the descendants of the agent.

    Their name is their digest: a call that is repeated after a crash names the same artifact.
    """
    digest = hashlib.sha256(data).hexdigest()
    name = f"{prefix}/{digest}"
    try:
        row = services.ask(link, "get_artifact", name=name)["artifact"]
    except NotFound:
        row = services.ask(
            link, "store_artifact", name=name, type=_TYPE, visibility="subtree",
            upload=upload(link, io.BytesIO(data)),
        )  # fmt: skip
    return HandedBytes(str(row["id"]) if isinstance(row, dict) else "", digest)


def fetch_bytes(link: Link, named: Mapping[str, object], most: int) -> bytes:
    """The bytes that a letter of the daemon names; InvalidArgument where they are others."""
    data = bytearray()
    for part in parts(link, {"id": named.get("artifact")}):
        data += part
        if len(data) > most:
            raise InvalidArgument(f"it has more than {most} bytes", field="artifact")
    if hashlib.sha256(data).hexdigest() != named.get("sha256"):
        raise InvalidArgument("its SHA-256 is not the one that was named", field="artifact")
    return bytes(data)


def escalate_fault(services: SessionServices, link: Link, action: str, error: Exception) -> None:
    """Tell the parent that something it handed over cannot be used."""
    issue = f"cannot {action}: {error.reason if isinstance(error, HiveError) else error}"
    say(issue)
    services.try_ask(link, "escalate", issue=issue, severity="error")
