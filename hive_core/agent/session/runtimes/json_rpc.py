"""JSON-RPC with a program on its standard input and output, one object a line.

Agents of the Agent Client Protocol (https://agentclientprotocol.com) speak it, and `codex
app-server`. The official SDK of ACP stands on pydantic and asyncio. The session calls a few methods
and answers fewer, so it does that itself: a process between the two would take 60 MB and most of a
second at each start.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
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


class RpcError(HiveError):
    """The program answered a call with an error."""


class RpcClient(Protocol):
    """Answers the requests of the program."""

    def answer(self, method: str, params: Params) -> Params | None:
        """The answer to a request; None: it is refused as unknown."""
        ...

    def note(self, method: str, params: Params) -> None:
        """Take what the program tells."""
        ...


class RpcConnection:
    """The calls of one process. Only `notify` and `post` may come from another thread."""

    def __init__(self, process: CliProcess) -> None:
        self._process = process
        self._rows = read_rows(process.popen, LINE_MOST)
        self._lock = threading.Lock()
        self._last = 0

    def call(self, method: str, params: Params, client: RpcClient | None = None) -> Params:
        """The result of a call; RpcError when the agent refuses it. Without a client all that
        the agent asks meanwhile is refused, and what it tells is dropped.
        """
        self._last += 1
        self._write({"id": self._last, "method": method, "params": params})
        for row in self._rows:
            if "method" in row:
                self._take(row, client)
            elif row.get("id") == self._last:
                if "error" in row:
                    raise RpcError(_error_text(mapping(row["error"])))
                return mapping(row.get("result"))
        raise RuntimeGone(_ENDED)

    def listen(self, client: RpcClient, has_ended: Callable[[], bool]) -> None:
        """Have the client take what the program says, until it has heard the end."""
        while not has_ended():
            row = next(self._rows, None)
            if row is None:
                raise RuntimeGone(_ENDED)
            if "method" in row:
                self._take(row, client)

    def notify(self, method: str, params: Params) -> None:
        """Send a notification."""
        with suppress(RuntimeGone):
            self._write({"method": method, "params": params})

    def post(self, method: str, params: Params) -> None:
        """Make a call and ignore its answer."""
        with suppress(RuntimeGone):
            self._write({"id": method, "method": method, "params": params})

    def _take(self, row: Params, client: RpcClient | None) -> None:
        method, params = str(row.get("method")), mapping(row.get("params"))
        if "id" not in row:
            if client is not None:
                client.note(method, params)
            return
        result = None if client is None else client.answer(method, params)
        if result is not None:
            self._write({"id": row["id"], "result": result})
        else:
            error = {"code": _NO_METHOD, "message": f"hive has no method {method[:64]!r}"}
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
