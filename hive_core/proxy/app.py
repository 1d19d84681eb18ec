"""The HTTP interface that agents see."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import Any

from hive_core.errors import HiveError
from hive_core.proxy.accounts import refusal
from hive_core.proxy.client import ClientGone, ClientSide, Receive, Send
from hive_core.proxy.config import ProxyConfig
from hive_core.proxy.doors import ModelDoor
from hive_core.proxy.failure import CallFailed
from hive_core.proxy.model_call import CallServices, ModelCall
from hive_core.proxy.route import Purpose, find_route, wire_of_path

log = logging.getLogger(__name__)


@dataclass(slots=True)
class ModelApp:
    """`config` is replaced when the files are read again."""

    services: CallServices
    config: ProxyConfig

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        client = ClientSide(scope["headers"], receive, send)
        door: ModelDoor = scope["state"]["door"]
        limits = self.services.limits
        if wait := limits.pace(door.agent, self.config.models.limits):
            await asyncio.sleep(wait)
        try:
            await self._serve(scope, door, client)
        except ClientGone:
            pass
        except CallFailed as failure:
            await self._fail(client, failure, scope["raw_path"])
        except asyncio.CancelledError:
            raise
        except Exception:
            log.exception("A fault of hive-model")
            await self._fail(client, CallFailed(500, "a fault of hive-model"), scope["raw_path"])

    async def _serve(self, scope: dict[str, Any], door: ModelDoor, client: ClientSide) -> None:
        route = find_route(scope["method"], scope["raw_path"], scope["query_string"])
        if route.purpose is Purpose.PROBE:
            await client.reply(200, [], b"")
        elif route.purpose is Purpose.LIST:
            with self.services.limits.admit(door.agent, self.config.models.limits):
                await client.reply_json(await self._models(door))
        else:
            await ModelCall(self.services, self.config, door, route, client).run()

    async def _models(self, door: ModelDoor) -> dict[str, Any]:
        """The models that this agent may call, in the forms of all wires at once."""
        try:
            answer = await self.services.accounts.call("ListModels", {"agent": door.agent})
        except HiveError as error:
            raise refusal(error) from error
        rows = answer.get("models")
        listed = (
            [row.get("alias") for row in rows if isinstance(row, dict)]
            if isinstance(rows, list)
            else []
        )
        data = [self._row(alias) for alias in listed if alias in self.config.models.models]
        ends = {"first_id": data[0]["id"], "last_id": data[-1]["id"]} if data else {}
        return {"object": "list", "data": data, "has_more": False, **ends}

    def _row(self, alias: str) -> dict[str, Any]:
        model = self.config.models.models[alias]
        return {
            "id": alias, "object": "model", "type": "model", "display_name": alias, "created": 0,
            "created_at": "1970-01-01T00:00:00Z", "owned_by": model.provider,
            "name": model.name, "wire": str(self.config.models.wire_of(alias)),
            "context": model.context, "max_output": model.max_output,
        }  # fmt: skip

    @staticmethod
    async def _fail(client: ClientSide, failure: CallFailed, path: bytes) -> None:
        if client.is_started:
            raise failure  # the connection is closed, so that the client sees a broken answer
        await client.fail(failure, wire_of_path(path))
