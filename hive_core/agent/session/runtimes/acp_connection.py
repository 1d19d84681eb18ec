"""JSON-RPC with an agent of the Agent Client Protocol, one object a line.

https://agentclientprotocol.com describes it. Its official SDK stands on pydantic and asyncio. The
session calls six methods and answers one, so it does that itself: a process between the two would
take 60 MB and most of a second at each start.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import Final, Protocol

from hive_core.agent.session.runtimes.builtin import RuntimeGone
from hive_core.agent.session.runtimes.cli_command import CliProcess
from hive_core.agent.session.runtimes.cli_process import read_rows
from hive_core.agent.task_run import mapping
from hive_core.errors import HiveError

LINE_MOST: Final = 16 << 20  # a request for permission has the whole text of an edit
_NO_METHOD: Final = -32601
_ENDED: Final = "the program ended"

Params = Mapping[str, object]


class AcpError(HiveError):
    """The agent answered a call with an error."""


class AcpClient(Protocol):
    """Who answers the agent."""

    def decide(self, params: Params) -> Mapping[str, object]:
        """The answer to `session/request_permission`."""
        ...

    def note(self, update: Params) -> None:
        """Take a `session/update`."""
        ...


class AcpConnection:
    """The calls of one process. Only `notify` may come from another thread."""

    def __init__(self, process: CliProcess) -> None:
        self._process = process
        self._rows = read_rows(process.popen, LINE_MOST)
        self._lock = threading.Lock()
        self._last = 0

    def call(self, method: str, params: Params, client: AcpClient | None = None) -> Params:
        """The result of a call; AcpError when the agent refuses it. Without a client all that
        the agent asks meanwhile is refused, and what it tells is dropped.
        """
        self._last += 1
        self._write({"id": self._last, "method": method, "params": params})
        for row in self._rows:
            if "method" in row:
                self._on_request(row, client)
            elif row.get("id") == self._last:
                if "error" in row:
                    raise AcpError(_error_text(mapping(row["error"])))
                return mapping(row.get("result"))
        raise RuntimeGone(_ENDED)

    def notify(self, method: str, params: Params) -> None:
        """Tell something that has no answer."""
        with suppress(RuntimeGone):
            self._write({"method": method, "params": params})

    def _on_request(self, row: Params, client: AcpClient | None) -> None:
        method, params = row.get("method"), mapping(row.get("params"))
        if "id" not in row:
            if method == "session/update" and client is not None:
                client.note(mapping(params.get("update")))
        elif method == "session/request_permission" and client is not None:
            self._write({"id": row["id"], "result": client.decide(params)})
        else:
            # Files and terminals are the agent's own: hive has said that it offers none.
            error = {"code": _NO_METHOD, "message": f"hive has no method {str(method)[:64]!r}"}
            self._write({"id": row["id"], "error": error})

    def _write(self, row: Params) -> None:
        data = json.dumps({"jsonrpc": "2.0", **row}).encode() + b"\n"
        stream = self._process.popen.stdin
        if stream is None:
            raise RuntimeGone(_ENDED)
        try:
            with self._lock:
                stream.write(data)
                stream.flush()
        except (OSError, ValueError):
            raise RuntimeGone(_ENDED) from None


def _error_text(error: Params) -> str:
    """The message, and what the agent adds to it."""
    data = error.get("data")
    more = mapping(data).get("message") or mapping(data).get("details") or data
    text = str(error.get("message") or "no reason")
    return f"{text}: {more if isinstance(more, str) else json.dumps(more)}" if more else text
