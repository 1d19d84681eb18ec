"""The output of a command as the result of its task."""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from typing import Final

from hive_core.agent.reconnect import Link
from hive_core.agent.task_client import DATA_MOST, SUMMARY_MOST, cut_summary
from hive_core.agent.task_run import OUTPUT_MOST
from hive_core.errors import HiveError

_PATIENCE: Final = 50.0


def result_of(path: str, task: str, output: bytes) -> dict[str, object]:
    """Text becomes the summary, a JSON object the data; a larger output becomes an artifact."""
    text = output.decode(errors="replace").removesuffix("\n")
    with suppress(ValueError):
        data = json.loads(text)
        if isinstance(data, dict) and len(text.encode()) <= DATA_MOST:
            return {"summary": cut_summary(str(data.get("summary") or "")), "data": data}
    if len(text.encode()) <= SUMMARY_MOST:
        return {"summary": text}
    artifact = _store_output(path, task, text)
    return {"summary": cut_summary(text), **({"artifacts": [artifact]} if artifact else {})}


def _store_output(path: str, task: str, text: str) -> str:
    """Store the whole output; return empty when the agent may not store artifacts."""
    try:
        with Link(path, answer=_PATIENCE) as link:
            reply = link.change(
                "store_artifact", name=f"tasks/{task}.txt", type="text/plain",
                visibility="subtree", text=text.encode()[:OUTPUT_MOST].decode(errors="ignore"),
            )  # fmt: skip
    except HiveError as error:
        sys.stderr.write(f"hive-agent: task {task}: its output is cut: {error.reason}\n")
        sys.stderr.flush()
        return ""
    return str(reply.get("id") or "")
