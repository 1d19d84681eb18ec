"""The accounts of calls of models, as hived keeps them: its broker, its ledger and its sockets."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from fixtures.world import World

from hive_core.host.sockets.model_sockets import AgentSocketGroup, ModelSockets
from hive_core.host.sockets.server import SocketServer
from hive_core.host.sockets.service_sockets import ServiceSockets
from hive_core.model.config.settings import Paths

AGENT: Final = "worker"
TOKENS: Final = 1_000_000_000_000


@asynccontextmanager
async def serve_accounts(made: World, folder: Path) -> AsyncIterator[None]:
    """Serve hive-model on the sockets below this folder; one agent has a budget and a socket."""
    made.call("operator", "allocate_budget", agent=AGENT, kind="tokens", amount=TOKENS)
    faults: list[BaseException] = []
    sockets = SocketServer(made.broker, made.reads, faults.append)
    services = ServiceSockets(os.getuid())
    models = ModelSockets(sockets, services, Paths(runtime=folder), {}, lambda: made.broker.hive)
    await models.listen()
    agent = AgentSocketGroup(sockets, services, lambda uuid: made.hive.names[uuid])
    await agent.listen(made.uuid(AGENT), folder / "broker.sock", 0)
    try:
        yield
    finally:
        services.stop()
        sockets.stop()
        await asyncio.sleep(0)
        made.broker.attach(made)
    assert not faults, faults
