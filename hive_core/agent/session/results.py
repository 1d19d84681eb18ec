"""Long results of calls: an artifact holds the whole, and the model reads its beginning."""

from __future__ import annotations

import hashlib
from typing import Final

from hive_core.agent.reconnect import Link
from hive_core.agent.session.services import SessionServices

WHOLE_MOST: Final = 16 * 1024
SHOWN: Final = 2 * 1024


def shorten(services: SessionServices, link: Link, content: str, key: str) -> tuple[str, str]:
    """What the model reads of a result, and the artifact that has all of it; empty: none."""
    data = content.encode(errors="replace")
    if len(data) <= WHOLE_MOST:
        return content, ""
    name = f"results/{hashlib.sha256(data).hexdigest()[:16]}"
    reply = services.try_ask(
        link, "store_artifact", name=name, text=data.decode(), type="text/plain",
        idempotency_key=key[:128],
    )  # fmt: skip
    artifact = str(reply.get("id") or "")
    if not artifact:
        return f"{_cut(data, WHOLE_MOST)}\n[cut: {len(data)} bytes in all]", ""
    pointer = f"[cut: {len(data)} bytes in all; get_artifact {artifact} has the whole]"
    return f"{_cut(data, SHOWN)}\n{pointer}", artifact


def _cut(data: bytes, size: int) -> str:
    return data[:size].decode(errors="ignore")
