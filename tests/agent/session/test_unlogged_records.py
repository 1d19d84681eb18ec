"""A record that counts for this process alone leaves the keys of calls as the log has them."""

from __future__ import annotations

import resource
from pathlib import Path

from hive_core.agent.session.conversation import OpenConversation


def test_a_call_has_the_same_key_after_a_restart_though_a_record_could_not_be_logged(
    tmp_path: Path,
) -> None:
    """With another key the call would be made again."""
    conversation = OpenConversation(tmp_path, "main")
    conversation.add_input({"kind": "mail", "id": "m1", "text": "Hear."})
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1, before[1]))
    try:
        conversation.append_or_apply({"t": "park", "turn": 1, "why": "full", "question": "q1"})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert conversation.state.parked["question"] == "q1"
    conversation.append({
        "t": "response", "turn": 1, "inputs": 1, "sent": ["q"], "message": "a",
        "calls": [{"id": "c", "name": "send", "arguments": {}}],
    })  # fmt: skip
    (call,) = conversation.state.calls
    conversation.close()
    again = OpenConversation(tmp_path, "main")
    assert [row.key for row in again.state.calls] == [call.key]
    again.close()
