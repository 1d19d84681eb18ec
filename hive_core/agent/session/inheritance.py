"""The conversation of a queen that a colony goes on from (`inherit` full)."""

from __future__ import annotations

import json
from collections.abc import Mapping

from hive_core.agent.prompt_context import save_whole
from hive_core.agent.reconnect import Link
from hive_core.agent.session.conversation import OpenConversation
from hive_core.agent.session.handover import escalate_fault, fetch_bytes, store_bytes
from hive_core.agent.session.records import read_records
from hive_core.agent.session.segment import FILE, SEGMENT_MOST, read_segment, segment_of
from hive_core.agent.session.services import SessionServices
from hive_core.errors import Conflict, HiveError


def store_segment(
    services: SessionServices, link: Link, conversation: OpenConversation
) -> Mapping[str, object]:
    """Store what a colony inherits; the parameters of `create_colony` that name it."""
    if services.cli is not None:
        raise Conflict("a CLI keeps the conversation itself: use `inherit` summary")
    data = segment_of(read_records(conversation.copy_log()).records)
    stored = store_bytes(services, link, "segments", data)
    return {"segment": stored.artifact, "segment_sha256": stored.sha256}


def keep_segment(services: SessionServices, link: Link, text: str) -> None:
    """Keep the segment that the letter of the daemon names, for all conversations that follow.

    Where it cannot be had, or is another one, the parent is told, and the agent begins without.
    """
    try:
        data = fetch_bytes(link, json.loads(text), SEGMENT_MOST)
        read_segment(data)
    except (HiveError, OSError, ValueError) as error:
        escalate_fault(services, link, "go on from the conversation of the queen", error)
        return
    save_whole(services.folder / FILE, data.decode())
