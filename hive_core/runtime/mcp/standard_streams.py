"""The MCP server of an agent on standard input and output."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
from typing import Final

from mcp.server.stdio import stdio_server

from hive_core.agent.server_tools import ANSWER_SECONDS, socket_path
from hive_core.runtime.mcp.broker import BrokerConnections
from hive_core.runtime.mcp.server import AgentTools, build_server

SOCKET: Final = "/run/hive/broker.sock"


async def serve(path: str) -> None:
    """Serve one client on standard input and output until it closes them."""
    own = socket_path()
    async with (
        BrokerConnections(path) as broker,
        BrokerConnections(str(own), patience=0.0, answer=ANSWER_SECONDS) as session,
        stdio_server() as (incoming, outgoing),
    ):
        server = build_server(AgentTools(broker, session if own else None))
        await server.run(incoming, outgoing, server.create_initialization_options())


def main() -> None:
    """Serve until the client ends; freeze the heap first, so that it is not scanned again."""
    gc.freeze()
    gc.enable()
    path = os.environ.get("HIVE_SOCKET", SOCKET)
    try:
        asyncio.run(serve(path))
    except* BrokenPipeError:  # the client is gone
        sys.exit(1)
    except* KeyboardInterrupt:
        sys.exit(130)
